package fakeagent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// block is one content block of a message.
type block struct {
	Kind string // text, thinking, tool
	Text string

	// Of a tool:
	ID        string // without the CLI's prefix
	Name      string // as claude calls it: Bash, Write, Edit, Task
	Shown     string // the name to show instead
	Command   string // of Bash
	Path      string // of Write and Edit, absolute
	New       bool   // the file is new
	Content   string
	ShowInput any
	Denied    bool
	Ungated   bool   // no hook is asked
	Refused   string // by a hook, in the CLI's words
	Back      bool
	Millis    int

	do  func() error
	cmd *exec.Cmd

	Output string // stdout and stderr together
	Exit   int
	Failed bool
}

// bash is the shell tool: the command really runs, in a session of its own as
// with every real CLI.
func (a *agent) bash(s Step) *block {
	b := &block{
		Kind: "tool", Name: "Bash", Shown: s.Tool, Command: s.Command, ShowInput: s.Input,
		Denied: s.Denied, Ungated: s.Ungated, Back: s.Back, Millis: s.Millis,
	}
	if b.Command == "" {
		b.Command = strings.Join(s.Argv, " ")
	}
	if s.Sly {
		b.Command = "make"
	}
	b.do = func() error {
		argv := s.Argv
		if len(argv) == 0 {
			argv = shell(s.Command)
		}
		if _, err := exec.LookPath("env"); s.Sly && err == nil {
			argv = append([]string{"env", "-i", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, argv...)
		}
		argv, err := lookSelf(argv)
		if err != nil {
			return err
		}
		return a.start(b, argv)
	}
	return b
}

func shell(command string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", command}
	}
	return []string{"/bin/sh", "-c", command}
}

// start runs argv as the tool's command, to its end unless it goes to the
// background.
func (a *agent) start(b *block, argv []string) error {
	b.cmd = exec.Command(argv[0], argv[1:]...)
	ownSession(b.cmd)
	if b.Back {
		return b.cmd.Start()
	}
	// A file, not a pipe: the real CLIs are not held by a grandchild that keeps
	// the tool's stdout open either.
	f, err := os.CreateTemp("", "fakeagent-tool-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	b.cmd.Stdout, b.cmd.Stderr = f, f
	a.mu.Lock()
	err = b.cmd.Start()
	a.running = b
	a.mu.Unlock()
	if err == nil {
		a.waiting(func() { err = b.cmd.Wait() })
	}
	a.mu.Lock()
	a.running = nil
	a.mu.Unlock()
	out, readErr := os.ReadFile(f.Name())
	if readErr != nil {
		return readErr
	}
	b.Output = string(bytes.ToValidUTF8(out, []byte("\uFFFD")))
	if b.cmd.ProcessState == nil { // it never started: the shell's 127
		b.Output, b.Exit, b.Failed = err.Error(), 127, true
		return nil
	}
	b.Exit, err = exitCode(err)
	b.Failed = b.Exit != 0
	return err
}

// file is the tool that writes (or appends to) a file, really.
func (a *agent) file(s Step) *block {
	b := &block{Kind: "tool", Name: "Write", Shown: s.Tool, Content: s.Text, ShowInput: s.Input, Denied: s.Denied, Ungated: s.Ungated}
	if s.Do == "edit" {
		b.Name = "Edit"
	}
	b.Path, _ = filepath.Abs(s.Path)
	_, err := os.Lstat(b.Path)
	b.New = err != nil
	b.do = func() error {
		flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if b.Name == "Edit" {
			flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		err := os.MkdirAll(filepath.Dir(b.Path), 0o777)
		if err == nil {
			var f *os.File
			if f, err = os.OpenFile(b.Path, flags, 0o666); err == nil {
				_, err = f.WriteString(b.Content)
				f.Close()
			}
		}
		if err != nil { // the model is told; the CLI goes on
			b.Output, b.Exit, b.Failed = err.Error(), 1, true
			return nil
		}
		b.Output = "File written successfully at: " + b.Path
		return nil
	}
	return b
}

func (a *agent) execute(b *block) error {
	if b.Denied {
		b.Failed, b.Output = true, "Permission to use "+b.Name+" was denied."
		return nil
	}
	if b.Refused != "" {
		b.Failed, b.Output = true, b.Refused
		return nil
	}
	if err := b.do(); err != nil {
		return err
	}
	if b.Back {
		a.tasks = append(a.tasks, b)
	}
	return nil
}
