//go:build linux && real

package hosttest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// broken lists the faults that plain can have, and the case that must find
// each. A case that no fault makes fail is no test.
var broken = []struct{ fault, finds, says string }{
	{"joins and splits argv", "Start/ArgvVerbatim", "did not arrive"},
	{"drops empty arguments", "Start/ArgvVerbatim", "did not arrive"},
	{"sends argv as UTF-8", "Start/ArgvOddBytes", "did not arrive"},
	{"gives the environment alone", "Start/EnvLayered", "no PATH"},
	{"trims values", "Start/EnvVerbatim", "values did not arrive"},
	{"stringifies unset", "Start/UnsetIsAbsent", "HOME=false"},
	{"empties unset", "Start/UnsetIsAbsent", "HOME="},
	{"lets Env beat Unset", "Start/UnsetBeatsEnv", "given and unset"},
	{"sets no marker", "Start/Marker", "marker"},
	{"ignores the directory", "Start/Dir", "the command ran in"},
	{"searches the caller's PATH", "Start/NameOnGivenPath", ""},
	{"has untyped errors", "Start/NotFound", "NotFoundError"},
	{"has untyped errors", "Start/NotExecutable", "NotFoundError"},
	{"does not check the directory", "Start/NoDir", "ErrNoDir"},
	{"tells argv in errors", "Start/RefusalKeepsSecrets", "tells the secret"},
	{"starts when cancelled", "Start/CancelledLeavesNothing", "returned a process"},
	{"leaves what it refuses", "Start/CancelledLeavesNothing", "cancelled halfway"},
	{"ends with the context of Start", "Start/ContextIsNotTheOwner", ""},
	{"looks elsewhere", "Start/Look", "Look says"},
	{"merges signal and code", "End/Signals", "death by"},
	{"ends twice", "End/OnceAndForAll", "two ends"},
	{"gives data after the end", "End/NothingAfter", "after Wait had returned"},
	{"waits for the leader only", "End/NothingAfter", ""},
	{"ends when Wait gives up", "End/WaitIsBounded", "while the command runs"},
	{"has no second kill", "End/KillIsIdempotent", "no such process"},
	{"calls every end after a kill killed", "End/ExitThenKill", "want exited"},
	{"calls every end after a kill killed", "End/ExitBeforeSignal", "want exited"},
	{"signals the leader only", "End/SignalsReachAll", "at the leader and both children"},
	{"knows no interrupt", "End/SignalsReachAll", "at the leader and both children"},
	{"ends at the end of output", "End/ClosedOutputIsNoEnd", ""},
	{"leaves commands at Close", "End/CloseEndsAll", "when Close has returned"},
	{"starts when closed", "End/CloseEndsAll", "a closed host starts"},
	{"has no time to live", "End/TTL", ""},
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
	{"kills behind the output", "Output/KillWhileBlocked", ""},
	{"buffers without bound", "Output/SlowReaderHoldsBack", ""},
	{"takes no samples", "Output/Samples", "no sample"},
	{"leaves stdin open", "Input/EmptyAtOnce", "no end"},
	{"drops early writes", "Input/EarlyWritesInOrder", "early writes"},
	{"reorders writes", "Input/EarlyWritesInOrder", "early writes"},
	{"keeps the caller's buffer", "Input/EarlyWritesInOrder", "early writes"},
	{"does not close stdin", "Input/CloseAfterWrites", "no end"},
	{"writes after the end", "Input/ClosedIsClosed", "want ErrClosed"},
	{"writes without bound", "Input/FullPipeIsBounded", ""},
	{"ends when stdin is closed", "Input/CommandClosesIt", ""},
	{"kills the leader only", "Tree/Kill", "when Kill has returned"},
	{"kills the group only", "Tree/Kill", "when Kill has returned"},
	{"ends the stream, not the command", "Tree/Kill", "when Kill has returned"},
	{"leaves leftovers", "Tree/Leftovers", "after a normal exit"},
	{"does not name leftovers", "Tree/Leftovers", "want one"},
	{"does not name holders", "Tree/HeldOutput", "held by"},
	{"drains without bound", "Tree/HeldOutput", ""},
	{"gives leftovers no grace", "Tree/LeftoversGrace", "last words of a leftover"},
	{"reports lost as exited", "Link/LostIsNotExited", "want lost"},
	{"leaves the tree when lost", "Link/LostEndsTheTree", ""},
}

// TestBroken runs, for each fault, the case that is to find it.
func TestBroken(t *testing.T) {
	cases := allCases()
	for _, b := range broken {
		t.Run(b.fault+"/"+b.finds, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(cases, func(c testCase) bool { return c.name == b.finds })
			if i < 0 {
				t.Fatalf("there is no case %s", b.finds)
			}
			h := plainHarness(t, b.fault)
			// Where the fault shows in a wait that runs out, the patience is what
			// the test costs; on a machine so slow that something else runs out
			// first, more is needed.
			var said string
			failed := false
			for _, h.Patience = range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
				said, failed = record(t, func(tb testing.TB) { runCase(tb, &h, cases[i]) })
				if failed && strings.Contains(said, b.says) {
					return
				}
			}
			t.Errorf("a host that %s passes %s (failed: %v), want it to fail and say %q; it said:\n%s", b.fault, b.finds, failed, b.says, said)
		})
	}
}

// recorder is a testing.TB whose failures are facts and not failures.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	log      strings.Builder
	failed   bool
	cleanups []func()
}

// record runs f to its end, cleanups included, and says whether it failed.
func record(t *testing.T, f func(testing.TB)) (said string, failed bool) {
	r := &recorder{TB: t}
	guard := func(f func()) {
		done := make(chan struct{})
		go func() { // of its own: Fatal ends the goroutine
			defer close(done)
			defer func() {
				if p := recover(); p != nil {
					r.Errorf("panic: %v", p)
				}
			}()
			f()
		}()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Errorf("the case hangs")
		}
	}
	guard(func() { f(r) })
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		var c func()
		if n > 0 {
			c, r.cleanups = r.cleanups[n-1], r.cleanups[:n-1]
		}
		r.mu.Unlock()
		if c == nil {
			break
		}
		guard(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String(), r.failed
}

func (r *recorder) note(fail bool, s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || fail
	r.log.WriteString(s + "\n")
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(a ...any)              { r.note(false, fmt.Sprint(a...)) }
func (r *recorder) Logf(f string, a ...any)   { r.note(false, fmt.Sprintf(f, a...)) }
func (r *recorder) Fail()                     { r.note(true, "") }
func (r *recorder) FailNow()                  { r.Fail(); runtime.Goexit() }
func (r *recorder) Error(a ...any)            { r.note(true, fmt.Sprint(a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatal(a ...any)            { r.Error(a...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Skip(a ...any)             { r.Log(a...); runtime.Goexit() }
func (r *recorder) Skipf(f string, a ...any)  { r.Logf(f, a...); runtime.Goexit() }
func (r *recorder) SkipNow()                  { runtime.Goexit() }
func (r *recorder) Skipped() bool             { return false }
func (r *recorder) Context() context.Context  { return context.Background() }
func (r *recorder) Failed() bool              { r.mu.Lock(); defer r.mu.Unlock(); return r.failed }
func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// Wrappers that break forwarding, each in its own way.
func TestCheckForward(t *testing.T) {
	said, failed := record(t, func(tb testing.TB) {
		CheckForward(tb, Wrapper{
			Output: func(o driver.Output) driver.Output { return o },
			Host:   func(h driver.Host) driver.Host { return h },
		})
	})
	if failed {
		t.Errorf("no wrapper at all is said to break: %s", said)
	}
	for name, w := range map[string]Wrapper{
		"hides SpoolOutput":  {Output: func(o driver.Output) driver.Output { return struct{ driver.Output }{o} }},
		"claims SpoolOutput": {Output: func(o driver.Output) driver.Output { return heardBoth{new(heard), heardSpool{new(heard)}} }},
		"does not get":       {Output: func(driver.Output) driver.Output { return new(heard) }},
		"hides Looker":       {Host: func(h driver.Host) driver.Host { return struct{ driver.Host }{h} }},
		"claims Looker":      {Host: func(driver.Host) driver.Host { return seeing{nil, new(int)} }},
	} {
		said, failed := record(t, func(tb testing.TB) { CheckForward(tb, w) })
		if !failed || !strings.Contains(said, name) {
			t.Errorf("a wrapper that %s passes; the check said: %s", name, said)
		}
	}
}
