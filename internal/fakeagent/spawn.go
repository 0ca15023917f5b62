package fakeagent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// The step spawn starts processes that outlive what a supervisor can easily
// see. How names the kind:
//
//	child         in the agent's own group and session
//	setsid        in a session of its own
//	double_fork   in a session of its own, its parent gone: reparented
//	env_i         as double_fork, with an empty environment: no marker either
//	hold_stdout   as double_fork, and it keeps the agent's stdout open
//	hold_stderr   the same for stderr
//	busy          as setsid, burning CPU
//	later         as env_i; after Millis it runs Argv in the agent's directory
//	tool          left behind by a shell tool, in the tool's session
//	many          Count processes one after the other, each ending at once
//	tree          about Count processes: sessions of 50, each a child's child
//
// Each lives for Millis (0: as good as for ever); Ignore makes it ignore TERM,
// INT and HUP. The step returns when all are up and written to EnvPids.
func (a *agent) spawn(s Step) error {
	n := max(s.Count, 1)
	pids, cleanup, err := pidFile()
	if err != nil {
		return err
	}
	defer cleanup()
	before := countProcs(pids)
	c := childSpec{Role: "live", How: s.How, Millis: s.Millis, Ignore: s.Ignore, Pids: pids}
	want := n
	switch s.How {
	case "many":
		for range n {
			if err := shortLived().Run(); err != nil {
				return err
			}
		}
		return nil
	case "tool":
		f := childSpec{Role: "fork", Next: &c}
		if err := a.say(a.bash(Step{Command: s.Command, Argv: f.argv("{self}")}), Step{}); err != nil {
			return err
		}
	case "tree":
		c.Role = "branch"
		for left := n; left > 0; left -= 50 {
			c.Count = min(left, 50) - 1
			if err := c.start(sessionLeader); err != nil {
				return err
			}
		}
	case "child":
		err = repeat(n, func() error { return c.start() })
	case "setsid":
		err = repeat(n, func() error { return c.start(sessionLeader) })
	case "busy":
		c.Role = "busy"
		err = repeat(n, func() error { return c.start(sessionLeader) })
	case "later":
		c.Role, c.Argv, c.Millis = "later", s.Argv, s.Millis
		err = repeat(n, func() error { return forked(c, noEnv) })
	case "double_fork":
		err = repeat(n, func() error { return forked(c) })
	case "env_i":
		err = repeat(n, func() error { return forked(c, noEnv) })
	case "hold_stdout":
		err = repeat(n, func() error { return forked(c, keepStdout) })
	case "hold_stderr":
		err = repeat(n, func() error { return forked(c, keepStderr) })
	default:
		return fmt.Errorf("unknown way %q", s.How)
	}
	if err != nil {
		return err
	}
	return a.waitFor(func() bool { return countProcs(pids) >= before+want })
}

func repeat(n int, f func() error) error {
	for range n {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// pidFile is where children say that they are up.
func pidFile() (name string, cleanup func(), err error) {
	if name = os.Getenv(EnvPids); name != "" {
		return name, func() {}, nil
	}
	f, err := os.CreateTemp("", "fakeagent-pids-*")
	if err != nil {
		return "", nil, err
	}
	return f.Name(), func() { os.Remove(f.Name()) }, f.Close()
}

func countProcs(file string) int {
	all, _ := Procs(file)
	return len(all)
}

// shortLived is the cheapest process there is.
func shortLived() *exec.Cmd {
	if path, err := exec.LookPath("true"); err == nil {
		return exec.Command(path)
	}
	return childSpec{Role: "end"}.command()
}

// childSpec is what a child process is told, in one argument: an empty
// environment reaches it too.
type childSpec struct {
	Role   string     `json:"role"`
	How    string     `json:"how,omitempty"`
	Millis int        `json:"ms,omitempty"`
	Ignore bool       `json:"ignore,omitempty"`
	Pids   string     `json:"pids,omitempty"`
	Count  int        `json:"count,omitempty"`
	Argv   []string   `json:"argv,omitempty"`
	Next   *childSpec `json:"next,omitempty"` // what role fork starts
}

const childArg = "fakeagent-child"

func isChild(args []string) bool { return len(args) == 3 && args[1] == childArg }

func (c childSpec) argv(self string) []string { return []string{self, childArg, string(marshal(c))} }

type option func(*exec.Cmd)

func noEnv(cmd *exec.Cmd)         { cmd.Env = []string{} }
func keepStdout(cmd *exec.Cmd)    { cmd.Stdout = os.Stdout }
func keepStderr(cmd *exec.Cmd)    { cmd.Stderr = os.Stderr }
func sessionLeader(cmd *exec.Cmd) { ownSession(cmd) }

func (c childSpec) command(options ...option) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self)
	cmd.Args = c.argv(self)
	for _, o := range options {
		o(cmd)
	}
	return cmd
}

func (c childSpec) start(options ...option) error { return c.command(options...).Start() }

// forked starts c as a grandchild whose parent is gone when it returns.
func forked(c childSpec, options ...option) error {
	f := childSpec{Role: "fork", Next: &c}
	return f.command(options...).Run()
}

// child is what a process started by spawn does.
func child(args []string) int {
	var c childSpec
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		fmt.Fprintln(os.Stderr, "fakeagent child:", err)
		return 2
	}
	if c.Role == "fork" {
		// What this process holds (stdout, an empty environment), the next one
		// gets.
		if err := c.Next.start(sessionLeader, keepStdout, keepStderr); err != nil {
			return 2
		}
		return 0
	}
	if c.Role == "end" {
		return 0
	}
	if c.Ignore { // ignored, not caught: a child of it inherits that
		signal.Ignore(syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	}
	for range c.Count { // role branch
		cmd := longLived(c)
		if err := cmd.Start(); err != nil {
			return 2
		}
		if err := appendLine(c.Pids, Proc{cmd.Process.Pid, c.How}); err != nil {
			return 2
		}
	}
	if err := appendLine(c.Pids, Proc{os.Getpid(), c.How}); err != nil {
		return 2
	}
	life := time.Duration(c.Millis) * time.Millisecond
	if life == 0 && c.Role != "later" {
		life = forever
	}
	switch end := time.Now().Add(life); c.Role {
	case "busy":
		for time.Now().Before(end) { //nolint:revive // burning CPU is its purpose
		}
	case "later":
		time.Sleep(life)
		argv, err := lookSelf(c.Argv)
		if err == nil && len(argv) > 0 {
			err = exec.Command(argv[0], argv[1:]...).Run()
		}
		if err != nil {
			return 1
		}
	default:
		time.Sleep(life)
	}
	return 0
}

// longLived is a small process that lives as long as c: 500 of this program
// would need gigabytes.
func longLived(c childSpec) *exec.Cmd {
	if path, err := exec.LookPath("sleep"); err == nil {
		seconds := 86400.0
		if c.Millis > 0 {
			seconds = float64(c.Millis) / 1000
		}
		return exec.Command(path, fmt.Sprintf("%.3f", seconds))
	}
	c.Role, c.Count, c.Pids = "live", 0, ""
	return c.command()
}
