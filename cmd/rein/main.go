// Command rein runs coding-agent CLIs unattended and reports what happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	_ "time/tzdata" // a reset is told in a named zone, and a container often has none of them

	"github.com/alecthomas/kong"

	"github.com/rein-run/rein"
	"golang.org/x/term"

	"github.com/rein-run/rein/cmd/rein/internal/tui"
	"github.com/rein-run/rein/config"
	"github.com/rein-run/rein/guard/sandbox/inside"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/store"
)

// cli is the whole command line, one field and one file per verb.
type cli struct {
	Run    runCmd    `cmd:"" help:"Run one agent on one task and report."`
	Runs   runsCmd   `cmd:"" help:"List runs, look into them, and reach those under way."`
	Agents agentsCmd `cmd:"" help:"Show which agents are installed and what each can do."`
	Exec   execCmd   `cmd:"" help:"Run one command through a host: the byte contract by hand."`
	Reap   reapCmd   `cmd:"" help:"End what a dead rein left behind and finish its reports."`

	StateDir string           `help:"Where runs are kept (default: $$XDG_STATE_HOME/rein)." placeholder:"DIR"`
	Version  kong.VersionFlag `help:"Print the version."`
}

// app is what the verbs share.
type app struct {
	stdin          *os.File
	stdout, stderr *os.File
	stateDir       string
	quit           chan os.Signal // Ctrl-\, until a verb makes it its own
}

// ownQuit: the verb does something of its own on SIGQUIT.
func (a *app) ownQuit() {
	if a.quit != nil {
		signal.Stop(a.quit)
	}
}

// onQuit ends a verb that has nothing to clean up: the Go runtime would fill the
// terminal with its goroutines. An ignored signal stays so: a script's background
// job has it from the shell.
func (a *app) onQuit() {
	if signal.Ignored(syscall.SIGQUIT) {
		return
	}
	a.quit = make(chan os.Signal, 1)
	signal.Notify(a.quit, syscall.SIGQUIT)
	go func() {
		<-a.quit
		os.Exit(rein.ExitQuit)
	}()
}

func main() {
	// The keeper first: it must start in a few milliseconds and stay small, and
	// needs nothing of what follows.
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		if len(os.Args) > 2 && os.Args[2] == inside.Verb {
			os.Exit(inside.Run(os.Args[3:], os.Stderr))
		}
		os.Exit(keeper.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	args := os.Args[1:]
	if detached() {
		args = detachedArgs()
	}
	os.Exit(run(args, &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}))
}

func run(args []string, a *app) (code int) {
	var c cli
	exit := -1
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exited); !ok {
				panic(r)
			}
			code = exit // --help and --version
		}
	}()
	a.onQuit()
	args = askHelp(args)
	kctx, err := a.parse(&c, args, func(code int) { exit = code; panic(exited{}) })
	if err != nil {
		a.complain(typed(err))
		if _, ok := errors.AsType[usageError](err); ok { // it says all there is to say
			return rein.ExitUsage
		}
		see := "rein --help"
		if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context != nil && pe.Context.Selected() != nil {
			see = "rein " + pe.Context.Selected().Path() + " --help"
		}
		if hint := dashed(err, args); hint != "" {
			fmt.Fprintln(a.stderr, hint)
		}
		fmt.Fprintln(a.stderr, "See: "+see)
		return rein.ExitUsage
	}
	a.stateDir = c.StateDir
	err = kctx.Run(a)
	var ec exitCode
	switch {
	case err == nil:
		return rein.ExitOK
	case errors.As(err, &ec):
		return int(ec)
	}
	a.complain(oneLine(err))
	return codeOf(err)
}

// complain writes an error, which a terminal would break inside a word.
func (a *app) complain(what string) {
	fmt.Fprintln(a.stderr, tui.Wrap("rein: "+what, tui.Width(a.stderr)))
}

// codeOf is the exit code for an error that was told.
func codeOf(err error) int {
	var u usageError
	var ns startError
	switch {
	case errors.As(err, &u):
		return rein.ExitUsage
	case errors.As(err, &ns):
		return rein.ExitNotStarted
	}
	return rein.ExitFailed
}

type exited struct{}

// exitCode is an error that has been told already.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// usageError is a mistake in what was typed: exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// oneLine makes an error one line: joined errors come with newlines.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}

// clean is text of an agent for stdout: as it is for a program, without what
// drives a terminal for a person.
func (a *app) clean(s string) string {
	if term.IsTerminal(int(a.stdout.Fd())) {
		return tui.CleanText(s)
	}
	return s
}

// cleaner does the same for a stream.
type cleaner struct{ w io.Writer }

func (c cleaner) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.w, tui.CleanText(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// store finds the store that the command line or the user's configuration names,
// for a verb that looks: nothing is made where there is none. A project has no
// say in it, and its mistakes must not keep anybody from stopping a run.
func (a *app) store() (*store.Store, error) {
	dir := a.stateDir
	if dir == "" {
		cfg, err := config.Load(".", os.Getenv, &config.Options{NoProject: true, Environ: os.Environ()})
		if err != nil {
			return nil, usageError{err}
		}
		dir = cfg.StateDir
	}
	s, err := store.Find(dir)
	if err != nil {
		return nil, usageError{noPlace(err)}
	}
	return s, nil
}

func openStore(dir string) (*store.Store, error) {
	s, err := store.Open(dir)
	if err != nil {
		return nil, startError{noPlace(err)}
	}
	return s, nil
}

func noPlace(err error) error {
	return fmt.Errorf("no place to keep runs: %w: name another with --state-dir", err)
}

// keeperArgv starts this very binary as a keeper.
func keeperArgv() []string {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{exe, "keeper"}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "rein (unknown version)"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value
		}
	}
	return "rein " + v + " " + info.GoVersion
}

// finishOthers writes the reports of runs whose rein died. It is the promise
// that the next rein makes good, so every verb that looks at runs keeps it.
func finishOthers(ctx context.Context, s *store.Store, stderr io.Writer) {
	done, err := rein.Reap(ctx, s, rein.Agents())
	if err != nil {
		fmt.Fprintln(stderr, "rein: finishing earlier runs:", oneLine(err))
		return
	}
	for _, r := range done {
		fmt.Fprintf(stderr, "rein: run %s had lost its rein: report finished, see `rein runs show %s`\n", r.ID, r.ID)
	}
}

func tilde(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "/" {
		return path
	}
	if rel, err := filepath.Rel(home, path); err == nil && !strings.HasPrefix(rel, "..") {
		return "~/" + rel
	}
	return path
}
