package fakeagent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// names of the CLIs that it can be, with the version that was recorded.
var versions = map[string]string{"claude": "2.1.332", "codex": "0.171.0", "pi": "1.6.0", "gemini": "0.61.0", "qwen": "0.15.10", "grok": "1.0.41", "copilot": "1.0.102"}

// Reexec is called first in TestMain: when the process was started as an agent
// or as a child of one, it acts as that and does not return.
//
// A test binary with the race detector takes a second to exit: give agents
// GORACE=atexit_sleep_ms=0.
func Reexec() {
	if isChild(os.Args) || versions[cliName(os.Args[0])] != "" {
		os.Exit(Main())
	}
}

// Main is the program. It returns the exit code.
func Main() int {
	if isChild(os.Args) {
		return child(os.Args[2:])
	}
	name := cliName(os.Args[0])
	if versions[name] == "" {
		fmt.Fprintf(os.Stderr, "fakeagent: link it as the CLI that it is to be: %q is none that it knows\n", name)
		return 2
	}
	s, err := loadScenario(os.Args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakeagent:", err)
		return 2
	}
	if s.Version == "" {
		s.Version = versions[name]
	}
	args := os.Args[1:]
	if slices.Contains(args, "--version") {
		switch name {
		case "claude":
			fmt.Println(s.Version + " (Claude Code)")
		case "codex":
			fmt.Println("codex-cli " + s.Version)
		case "copilot":
			fmt.Println("GitHub Copilot CLI " + s.Version + ".")
		case "grok":
			fmt.Println("grok " + s.Version + " (4220f3b224a6)")
		default:
			fmt.Println(s.Version)
		}
		return 0
	}
	if said, ok := s.Says[strings.Join(args, " ")]; ok {
		fmt.Println(said)
		return 0
	}
	a := &agent{Scenario: s, name: name, args: args, out: &output{w: os.Stdout, chunk: s.Chunk}}
	a.wire = newWire(a)
	if !s.Lax {
		if msg := a.refusal(); msg != "" {
			fmt.Fprintln(os.Stderr, msg)
			return 1
		}
	}
	if err := a.readStdin(); err != nil {
		fmt.Fprintln(os.Stderr, "fakeagent:", err)
		return 2
	}
	a.work.Lock()
	a.handleSignals()
	if len(a.Steps) == 0 {
		a.Steps = []Step{{Do: "text", Text: "Hello from the fake agent."}, {Do: "result"}}
	}
	if err := a.run(a.Steps); err != nil {
		fmt.Fprintln(os.Stderr, "fakeagent:", err)
		return 2
	}
	return a.code
}

func cliName(argv0 string) string {
	return strings.TrimSuffix(strings.ToLower(filepath.Base(argv0)), ".exe")
}

// agent is one run of the program.
type agent struct {
	Scenario
	name string
	args []string
	out  *output
	wire wire

	begun    bool
	code     int // exit code after the last step
	messages int // model requests so far
	used     Usage
	answer   string // text of the last message
	open     *message
	parent   string // tool use id of the sub-agent that works
	tasks    []*block
	denials  []object

	// work is held by the steps, except where they wait: INT writes lines too.
	work sync.Mutex

	mu      sync.Mutex
	running *block // the tool that runs now, for the signal handler
	onTerm  *Step
}

// waiting lets a signal be answered while f blocks.
func (a *agent) waiting(f func()) {
	a.work.Unlock()
	defer a.work.Lock()
	f()
}

func (a *agent) pause(ms int) { a.waiting(func() { pause(ms) }) }

// wire is the stream of one CLI.
type wire interface {
	begin()                // the session's first lines
	request()              // a model request begins
	message(m *message)    // the model's whole answer
	toolStarted(b *block)  // the tool begins
	toolFinished(b *block) // and is over
	turnOver(m *message)   // after the tools of a message
	retry(s Step, attempt int)
	result(s Step) (code int)
	filler(size int, usage *Usage, n int) []byte // a line of exactly size bytes, newline included; n < 1e10
	interrupted() (code int)                     // what INT makes it write, and its code; -1: dies of it
}

// message is what the model answers to one request.
type message struct {
	ID     string
	N      int
	Blocks []*block
	Usage  Usage
}

func (m *message) tools() (tools []*block) {
	for _, b := range m.Blocks {
		if b.Kind == "tool" {
			tools = append(tools, b)
		}
	}
	return tools
}

func (m *message) text() string {
	var s string
	for _, b := range m.Blocks {
		if b.Kind == "text" {
			s += b.Text
		}
	}
	return s
}

// output writes lines to stdout.
type output struct {
	mu    sync.Mutex
	w     io.Writer
	chunk int
}

// write takes the bytes as they are. A reader that went away ends the program,
// as SIGPIPE would.
func (o *output) write(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	if o.chunk > 0 {
		n = o.chunk
	}
	for len(p) > 0 {
		n = min(n, len(p))
		if _, err := o.w.Write(p[:n]); err != nil {
			os.Exit(141)
		}
		p = p[n:]
	}
}

func (o *output) line(v any) { o.write(append(marshal(v), '\n')) }

// refusal is what the real CLI says when it does not start with these
// arguments, and "" when it does.
func (a *agent) refusal() string {
	has := func(arg string) bool { return slices.Contains(a.args, arg) }
	switch a.name {
	case "claude":
		bypass := has("--dangerously-skip-permissions") || has("bypassPermissions")
		if bypass && os.Geteuid() == 0 && os.Getenv("IS_SANDBOX") != "1" {
			return "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
		}
		if (has("-p") || has("--print")) && has("stream-json") && !has("--verbose") {
			return "Error: When using --print, --output-format=stream-json requires --verbose"
		}
	case "codex":
		if len(a.args) > 0 && a.args[0] == "exec" && !has("--skip-git-repo-check") && !inRepository() {
			return "Not inside a trusted directory and --skip-git-repo-check was not specified."
		}
	}
	return ""
}

func inRepository() bool {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return false
}

// argAfter returns the argument behind the first of names, "" without one.
func (a *agent) argAfter(names ...string) string {
	for i, arg := range a.args {
		if slices.Contains(names, arg) && i+1 < len(a.args) {
			return a.args[i+1]
		}
	}
	return ""
}

func pause(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }
