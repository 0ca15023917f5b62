package agent

import (
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/shell"
)

// Gate is an optional ability of an Agent, found by assertion: it knows the
// CLI's own pre-tool hook. Capabilities.Gate says at which versions there is
// one. Invocation.Gate asks Command to switch it on.
//
// A gate reads what the model asks for: it stops honest mistakes before they
// happen, with words to the model. It is no boundary: a script that the agent
// writes and runs passes through it.
type Gate interface {
	// Question decodes what the CLI gave to its hook: the tool call, and the
	// directory in which it would run ("" when that is not told). The bytes are
	// hostile.
	Question(b []byte) (Tool, string, error)
	// Answer is what the hook prints and exits with. reason is for the model.
	Answer(allow bool, reason string) driver.Reply
	// Ran says that a reading proves a tool call to have run, or to run now,
	// which the CLI asks its hook about first.
	Ran(Reading) bool
	// Same says whether a tool call that ran can be the one that was asked
	// about.
	Same(asked, ran Tool) bool
}

// GateLimits is an optional ability of a Gate whose hook the CLI takes only
// from some places: CannotGate says why it would not ask, "" when nothing is
// known against it. filesDir is where Command.Files will stand. A run without a
// gate says so, and is judged by its stream.
type GateLimits interface {
	CannotGate(f Facts, filesDir string) string
}

// Hook is how the CLI's pre-tool hook asks the gate.
type Hook struct {
	// Argv starts the program there: it reads the question on stdin and gives an
	// answer in bounded time. Yes is exit code 0 and the word Yes on stdout; all
	// else is no, with the reason on stderr.
	Argv []string
}

// Yes is what the hook program prints when the tool may run.
const Yes = "yes"

// Permit is the Reply that means yes.
func Permit() driver.Reply { return driver.Reply{Stdout: []byte(Yes + "\n")} }

// Shell is the command for a POSIX shell that runs the program, and ends with 0
// and no output for a yes, and with 2 and a text on stderr for everything else.
// The CLIs take a hook that is missing, crashes, exits with 1 or prints garbage
// for a yes (claude 2.1.332, codex 0.171.0), and codex an exit 2 without a text
// too.
func (h *Hook) Shell() string {
	return "r=$(" + shell.Join(h.Argv) + ") && [ \"$r\" = " + Yes + " ] || { echo 'refused by rein' >&2; exit 2; }"
}

// HookTimeout, in seconds, is what a CLI is told to wait for its hook. One that
// hangs must keep the tool closed, and every CLI runs the tool when it is tired
// of waiting, so it is longer than any run: the clocks of the run end it. In
// milliseconds it fits 31 bits, beyond which the timers of JavaScript fire at
// once.
const HookTimeout = 2_000_000
