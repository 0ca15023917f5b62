package hosttest

import (
	"slices"
	"testing"
)

// faults lists broken hosts: what each does wrong, the case that must find it,
// and what that case then says. A case that no fault makes fail is no test.
//
// A fault is one of plain's, unless it begins with "spool:" or "crash:", which
// stand between the case and the real local host, or with "front:", which
// breaks what package host adds. TestBroken (tag real) runs them.
var faults = []struct{ fault, finds, says string }{
	{"joins and splits argv", "Start/ArgvVerbatim", "did not arrive"},
	{"drops empty arguments", "Start/ArgvVerbatim", "did not arrive"},
	{"sends argv as UTF-8", "Start/ArgvOddBytes", "did not arrive"},
	{"cuts long arguments", "Start/LongArguments", "did not arrive"},
	{"calls every refusal not found", "Start/LongArguments", "as a program that is not found"},
	{"gives the environment alone", "Start/EnvLayered", "no PATH"},
	{"trims values", "Start/EnvVerbatim", "values did not arrive"},
	{"stringifies unset", "Start/UnsetIsAbsent", "HOME=false"},
	{"empties unset", "Start/UnsetIsAbsent", "HOME="},
	{"lets Env beat Unset", "Start/UnsetBeatsEnv", "given and unset"},
	{"sets no marker", "Start/Marker", "marker"},
	{"ignores the directory", "Start/Dir", "the command ran in"},
	{"searches the caller's PATH", "Start/NameOnOwnPath", "not found"},
	{"searches the caller's PATH", "Start/NameOnGivenPath", ""},
	{"has untyped errors", "Start/NotFound", "NotFoundError"},
	{"has untyped errors", "Start/NotExecutable", "NotFoundError"},
	{"does not check the directory", "Start/NoDir", "ErrNoDir"},
	{"starts something for nothing", "Start/EmptyArgv", "accepted"},
	{"tells argv in errors", "Start/RefusalKeepsSecrets", "tells the secret"},
	{"starts when cancelled", "Start/CancelledLeavesNothing", "returned a process"},
	{"leaves what it refuses", "Start/CancelledLeavesNothing", "cancelled halfway"},
	{"ends with the context of Start", "Start/ContextIsNotTheOwner", ""},
	{"looks elsewhere", "Start/Look", "Look says"},
	{"knows one code of failure", "End/Codes", "want exited with code"},
	{"claims a cgroup", "End/Codes", "containment is"},
	{"merges signal and code", "End/Signals", "death by"},
	{"ends twice", "End/OnceAndForAll", "two ends"},
	{"gives data after the end", "End/NothingAfter", "after Wait had returned"},
	{"waits for the leader only", "End/NothingAfter", ""},
	{"ends when Wait gives up", "End/WaitIsBounded", "while the command runs"},
	{"has no second kill", "End/KillIsIdempotent", "no such process"},
	{"calls every end after a kill killed", "End/ExitThenKill", "want exited"},
	{"calls every end after a kill killed", "End/ExitBeforeSignal", "want exited"},
	{"forgets the code of what it stopped", "End/SignalThenExit", "want code 0"},
	{"signals the leader only", "End/SignalsReachAll", "at the leader and both children"},
	{"knows no interrupt", "End/SignalsReachAll", "at the leader and both children"},
	{"ends at the end of output", "End/ClosedOutputIsNoEnd", ""},
	{"leaves commands at Close", "End/CloseEndsAll", "when Close has returned"},
	{"starts when closed", "End/CloseEndsAll", "a closed host starts"},
	{"has no time to live", "End/TTL", ""},
	{"mixes its commands", "End/ManyAtOnce", "bytes arrived"},
	{"merges stderr", "Output/Separate", "stdout"},
	{"drops stderr", "Output/Separate", "stderr"},
	{"never merges stderr", "Output/Merged", "order written"},
	{"decodes output", "Output/EveryByte", "changed on the way"},
	{"translates newlines", "Output/EveryByte", "changed on the way"},
	{"limits a line", "Output/Blocks", "is wrong"},
	{"limits a line", "Output/OneLine", "arrived as"},
	{"limits a line", "Output/Stream", ""},
	{"gives both streams at once", "Output/BothStreams", "two goroutines"},
	{"stops reading at the exit", "Output/LastWordsAtExit", "bytes arrived"},
	{"cuts the tail", "Output/TailOnTerminate", "bytes arrived"},
	{"reads all before it kills", "Output/KillWhileFlooding", "Kill"},
	{"kills behind the output", "Output/KillWhileBlocked", ""},
	{"buffers without bound", "Output/SlowReaderHoldsBack", ""},
	{"spool: announces more than there is", "Output/Spool", "announced"},
	{"spool: announces what is not there yet", "Output/Spool", "not that long"},
	{"spool: is for everybody to read", "Output/Spool", "for its owner only"},
	{"spool: stops announcing at the kill", "Output/SpoolAfterKill", "were announced"},
	{"takes no samples", "Output/Samples", "no sample"},
	{"leaves stdin open", "Input/EmptyAtOnce", "no end"},
	{"gives input line by line", "Input/Echo", "no \"without end\""},
	{"drops early writes", "Input/EarlyWritesInOrder", "early writes"},
	{"reorders writes", "Input/EarlyWritesInOrder", "early writes"},
	{"keeps the caller's buffer", "Input/EarlyWritesInOrder", "early writes"},
	{"translates newlines on the way in", "Input/EveryByte", "on their way in"},
	{"does not close stdin", "Input/CloseAfterWrites", "no end"},
	{"writes after the end", "Input/ClosedIsClosed", "want ErrClosed"},
	{"writes without bound", "Input/FullPipeIsBounded", ""},
	{"writes all before it reads", "Input/BothWays", ""},
	{"reads all before it writes", "Input/BothWays", ""},
	{"ends when stdin is closed", "Input/CommandClosesIt", ""},
	{"kills the leader only", "Tree/Kill", "when Kill has returned"},
	{"kills the group only", "Tree/Kill", "when Kill has returned"},
	{"ends the stream, not the command", "Tree/Kill", "when Kill has returned"},
	{"takes what means it likes", "Tree/KillByWeakerMeans", "asked for"},
	{"kills the group only", "Tree/KillByWeakerMeans", "when Kill has returned"},
	{"scans once", "Tree/KillWhileForking", "when Kill has returned"},
	{"leaves leftovers", "Tree/Leftovers", "after a normal exit"},
	{"does not name leftovers", "Tree/Leftovers", "want one"},
	{"does not name holders", "Tree/HeldOutput", "held by"},
	{"drains without bound", "Tree/HeldOutput", ""},
	{"looks for holders of stdout only", "Tree/HeldErrorOutput", "held by"},
	{"stops reading stderr at the exit", "Tree/HeldErrorOutput", "stderr holds"},
	{"gives leftovers no grace", "Tree/LeftoversGrace", "last words of a leftover"},
	{"names ten leftovers", "Tree/ManyLeftovers", "leftovers are named"},
	{"counts the leader among the leftovers", "Tree/NoLeftovers", "is said to have left"},
	{"ends its other commands too", "Tree/Strangers", "none of theirs"},
	{"reports lost as exited", "Link/LostIsNotExited", "want lost"},
	{"leaves the tree when lost", "Link/LostEndsTheTree", ""},
	{"crash: nobody stays beside the agent", "Link/ReinKilled", "gone after the crash"},
	{"crash: loses the last byte", "Link/ReinKilled", "bytes arrived"},
	{"crash: nobody comes back", "Link/ReinAndKeeperKilled", "gone after the crash"},

	{"front: forgets its owner", "Portable/OwnerEndsTheTree", "no end"},
	{"front: forgets its owner", "Portable/OwnerIsGoneAlready", "returned a process"},
	{"front: kills only once", "Portable/KillWaitExit", "no such process"},
	{"front: tells another end", "Portable/KillWaitExit", "Wait said"},
	{"front: stops by force", "Portable/Stop", "want code 9"},
	{"front: drops early writes", "Portable/EarlyWrites", "early writes"},
	{"front: keeps the caller's buffer", "Portable/EarlyWrites", "early writes"},
	{"front: takes part of what it refuses", "Portable/BusyTakesNothing", "the command read"},
	{"front: is never busy", "Portable/BusyTakesNothing", "does not read"},
	{"front: gives half of the input", "Portable/Input", "the command read"},
	{"front: takes half an input for a whole one", "Portable/InputFails", "no end"},
	{"front: takes any amount of output", "Portable/Output", "want at most 1000"},
	{"front: tells no types", "Portable/Errors", "want a *host.Error"},
	{"front: wraps twice", "Portable/Errors", "wrapped twice"},
	{"front: says that every kill worked", "Portable/HangingKill", "reports success"},
	{"front: has no bounds", "Portable/HangingKill", "hangs with the host"},
	{"front: has no bounds", "Portable/HangingStart", "hangs with the host"},
	{"front: has no bounds", "Portable/HangingSignal", "no end"},
	{"front: writes through", "Portable/HangingWrite", "hangs with the host"},
	{"front: asks for the end each time", "Portable/OneEndFromABadDriver", "another story"},
	{"front: lets everything through", "Portable/NothingAfterFromABadDriver", "after Wait had returned"},
	{"spool: drops the reason of an answer", "Ask/Answered", "the program that asked got"},
	{"spool: answers for nobody", "Ask/NobodyAnswers", "nobody answers"},
	{"front: hides abilities", "Portable/ForwardsAbilities", "hides SpoolOutput"},
}

// TestEveryCaseCanFail misses the case that no broken host fails, and the
// broken host that is for no case.
func TestEveryCaseCanFail(t *testing.T) {
	var names []string
	for _, c := range allCases() {
		if slices.Contains(names, c.name) {
			t.Errorf("two cases are called %s", c.name)
		}
		names = append(names, c.name)
	}
	found := map[string]bool{}
	for _, f := range faults {
		if !slices.Contains(names, f.finds) {
			t.Errorf("there is no case %s to find a host that %s", f.finds, f.fault)
		}
		found[f.finds] = true
	}
	for _, name := range names {
		if !found[name] {
			t.Errorf("no broken host fails %s: add one to faults, or the case may be no test", name)
		}
	}
}
