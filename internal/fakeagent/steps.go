package fakeagent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// bounded is how long a step waits for something of its own.
const bounded = 60 * time.Second

// forever is longer than any test, and still an end.
const forever = 24 * time.Hour

// run does the steps in order.
func (a *agent) run(steps []Step) error {
	for _, s := range steps {
		if err := a.step(s); err != nil {
			return fmt.Errorf("step %q: %w", s.Do, err)
		}
	}
	return nil
}

// speech are the steps that belong to the wire form: the session's first lines
// come before the first of them by themselves.
const speech = " session thinking text usage bash write edit denied commit push branch write_main subagent await retry result "

func (a *agent) step(s Step) error {
	if strings.Contains(speech, " "+s.Do+" ") && (!a.begun || s.Do == "session") {
		a.begun = true
		a.wire.begin()
	}
	switch s.Do {
	case "session": // the first lines, again when they were written already
	// What the model says; one message each, or one together with More.
	case "text": // Text, Usage, More
		return a.say(&block{Kind: "text", Text: s.Text}, s)
	case "thinking": // Text, Usage, More
		return a.say(&block{Kind: "thinking", Text: s.Text}, s)
	case "usage": // Usage: a request whose answer is empty
		return a.say(&block{Kind: "text"}, s)
	case "bash": // Command or Argv, Millis (shown as timeout), Back, Denied, Ungated; Tool, Input
		return a.say(a.bash(s), s)
	case "write", "edit": // Path, Text: the file's new content; edit appends it
		return a.say(a.file(s), s)
	case "commit", "push", "branch", "write_main": // see git.go
		return a.git(s)
	case "subagent": // Text: its task; Steps: what it does; claude only
		return a.subagent(s)
	case "await": // waits for the background commands and tells their end; claude only
		return a.await()
	// How a turn goes and ends.
	case "retry": // Status, Count (1), Millis: the pause between, really waited
		for i := range max(s.Count, 1) {
			a.wire.retry(s, i+1)
			a.pause(s.Millis)
		}
	case "result": // Text (the last text), Error, Status, Subtype, Code
		a.code = a.wire.result(s)
		if s.Code != nil {
			a.code = *s.Code
		}
	case "exit": // Code: at once
		a.flush()
		code := a.code
		if s.Code != nil {
			code = *s.Code
		}
		os.Exit(code)
	case "signal": // Signal: dies of it
		return dieOf(s.Signal)
	// Time.
	case "sleep": // Millis
		a.pause(s.Millis)
	case "hang": // for ever, silent
		a.waiting(func() { time.Sleep(forever) })
	case "repeat": // Count times (0: for ever), Steps, Millis between
		for i := 0; s.Count == 0 || i < s.Count; i++ {
			if err := a.run(s.Steps); err != nil {
				return err
			}
			a.pause(s.Millis)
		}
	case "wait_file": // Path: until it exists
		return a.waitFor(func() bool { _, err := os.Stat(s.Path); return err == nil })
	case "touch": // Path, Text: writes a file, no tool call shown
		return os.WriteFile(s.Path, []byte(s.Text), 0o600)
	case "stdin": // with Stdin "late": reads stdin to its end
		var in []byte
		var eof bool
		a.waiting(func() { in, eof = slurp(bounded) })
		return a.record(in, eof)
	// Output that is none of the wire form's.
	case "raw": // Text, as it is
		a.out.write([]byte(s.Text))
	case "stderr": // Text, and a newline
		fmt.Fprintln(os.Stderr, s.Text)
	default:
		return a.hostile(s)
	}
	return nil
}

func (a *agent) waitFor(ok func() bool) error {
	for end := time.Now().Add(bounded); time.Now().Before(end); a.pause(2) {
		if ok() {
			return nil
		}
	}
	return errors.New("it did not happen within a minute")
}

// say adds a block to the open message; without More the message is over: it is
// written, and then its tools run.
func (a *agent) say(b *block, s Step) error {
	if a.open == nil {
		a.messages++
		a.open = &message{ID: fmt.Sprintf("msg_fake%06d", a.messages), N: a.messages, Usage: Usage{In: 100, Out: 50}}
		a.wire.request()
	}
	m := a.open
	if s.Usage != nil {
		m.Usage = *s.Usage
	}
	if b.Kind == "tool" {
		b.ID = fmt.Sprintf("fake%06d_%d", m.N, len(m.tools()))
	}
	m.Blocks = append(m.Blocks, b)
	if s.More {
		return nil
	}
	return a.flush()
}

func (a *agent) flush() error {
	m := a.open
	if m == nil {
		return nil
	}
	a.open = nil
	a.used.add(m.Usage)
	if t := m.text(); t != "" && a.parent == "" {
		a.answer = t
	}
	a.wire.message(m)
	for _, b := range m.tools() {
		if err := a.askHook(b); err != nil {
			return err
		}
		a.wire.toolStarted(b)
		if err := a.execute(b); err != nil {
			return err
		}
		a.wire.toolFinished(b)
	}
	a.wire.turnOver(m)
	return nil
}

// subagent shows what claude shows: a Task tool, the sub-agent's own messages
// with the tool's id as parent, then the tool's result.
func (a *agent) subagent(s Step) error {
	b := &block{Kind: "tool", Name: "Task", ShowInput: object{"description", s.Text, "prompt", s.Text, "subagent_type", "general-purpose"}}
	b.do = func() error {
		outer, open := a.parent, a.open
		a.parent, a.open = "toolu_"+b.ID, nil
		defer func() { a.parent, a.open = outer, open }()
		b.Output = "sub-agent is done"
		return a.run(s.Steps)
	}
	return a.say(b, s)
}

// await ends the background commands' part: claude 2.1.332 tells their end and
// begins another turn by itself.
func (a *agent) await() error {
	for _, b := range a.tasks {
		var err error
		if a.waiting(func() { err = b.cmd.Wait() }); err != nil && b.cmd.ProcessState == nil {
			return err
		}
	}
	if w, ok := a.wire.(*claude); ok {
		w.tasksOver(a.tasks)
	}
	a.tasks = nil
	return nil
}

// lookSelf replaces "{self}" by this program.
func lookSelf(argv []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out := make([]string, len(argv))
	for i, arg := range argv {
		out[i] = strings.ReplaceAll(arg, "{self}", self)
	}
	return out, nil
}

// exitCode of a command that was waited for; 128+n for a signal, as a shell has
// it.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		if code := exit.ExitCode(); code >= 0 {
			return code, nil
		}
		return 137, nil
	}
	return 0, err
}
