package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/local"
)

type execCmd struct {
	On    string   `help:"Where the command runs: local: (default) or ssh://[user@]host[:port][/dir]." placeholder:"HOST"`
	Dir   string   `short:"C" help:"Working directory there." placeholder:"DIR"`
	Env   []string `short:"e" help:"Variable to set: NAME=VALUE, or NAME to take it from here." placeholder:"NAME[=V]" sep:"none"`
	Unset []string `help:"Variable to remove; may be repeated." placeholder:"NAME" sep:"none"`
	Merge bool     `help:"stderr into stdout, in the order written."`
	Grace span     `help:"From TERM to KILL." default:"1s"`
	Cmd   []string `arg:"" optional:"" passthrough:"" help:"The command, after --."`
}

func (execCmd) Help() string {
	return `Examples:
  rein exec -- make test
  rein exec -C sub --env CI=1 --unset HTTPS_PROXY -- sh -c 'go build && ./run'
  rein exec --on ssh://build/srv/project -- make test

The command runs as an agent would: in its own session, held by a keeper, with stdin, stdout
and stderr passed through byte for byte. When it is over nothing of it is left running. Its
exit code is passed on; 128+N stands for a signal, 7 for not started, 8 for lost.`
}

// passthrough writes what the command writes to our own stdout and stderr.
type passthrough struct {
	out, err *os.File
	failed   error // of stdout
}

func (p *passthrough) Data(s driver.Stream, b []byte) {
	f := p.out
	if s == driver.Stderr {
		f = p.err
	}
	// A reader that went away does not end the command, and a full disk is told
	// when it is over.
	if _, err := f.Write(b); err != nil && p.failed == nil && !errors.Is(err, syscall.EPIPE) {
		p.failed = err
	}
}

// endOnSignal gives the command its grace on the first signal; the second one,
// and SIGQUIT, kill it at once.
func endOnSignal(sigs <-chan os.Signal, cancel context.CancelFunc, running <-chan *host.Process) {
	s := <-sigs
	cancel()
	if s != syscall.SIGQUIT {
		<-sigs
	}
	p := <-running
	_ = p.Kill(context.Background()) // bounded by package host; Wait says how it went
}

func (c *execCmd) Run(a *app) error {
	on, err := where(c.On)
	if err != nil {
		return err
	}
	there, err := openHost(on)
	if err != nil {
		return err
	}
	argv := c.Cmd
	switch {
	case len(argv) > 0 && argv[0] == "--":
		argv = argv[1:]
	case len(argv) > 0 && strings.HasPrefix(argv[0], "-"):
		return usage("unknown flag %s: rein help exec; a command of this name stands after --", argv[0])
	}
	if len(argv) == 0 {
		return usage("there is no command: rein exec -- CMD ARGS…")
	}
	env, err := (&runCmd{Env: c.Env}).env(nil)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if !signal.Ignored(syscall.SIGQUIT) {
		signal.Notify(sigs, syscall.SIGQUIT)
	}
	a.ownQuit()
	// They are never given back: the process ends after this, and one more Ctrl-C
	// at that moment would turn its exit code into a death by signal.
	running := make(chan *host.Process, 1)
	go endOnSignal(sigs, cancel, running)
	var h *host.Host
	if there != nil {
		h = there.Host
		defer there.close()
	} else {
		h = host.New(local.New(&local.Options{Keeper: keeperArgv()}), nil)
	}
	out := &passthrough{out: a.stdout, err: a.stderr}
	p, err := h.Start(ctx, &driver.Spec{
		Argv: argv, Dir: c.Dir, Env: env, Unset: c.Unset, MergeStderr: c.Merge, Grace: time.Duration(c.Grace), Input: a.stdin,
	}, out)
	if err != nil {
		return startError{err}
	}
	running <- p
	exit, err := p.Wait(context.Background())
	if err != nil {
		return err
	}
	if len(exit.Leftovers) > 0 {
		fmt.Fprintf(a.stderr, "rein: left running and ended: %s\n", procs(exit.Leftovers))
	}
	if len(exit.Survivors) > 0 {
		fmt.Fprintf(a.stderr, "rein: could not be ended: %s\n", procs(exit.Survivors))
		return exitCode(rein.ExitSurvivors)
	}
	if out.failed != nil {
		fmt.Fprintf(a.stderr, "rein: output was lost: %s\n", oneLine(out.failed))
		return exitCode(rein.ExitAborted)
	}
	switch {
	case exit.Reason == driver.Lost:
		return errors.Join(exitCode(rein.ExitLost), errors.New(exit.Detail))
	case exit.Reason == driver.Failed:
		return errors.Join(exitCode(rein.ExitAborted), errors.New(exit.Detail))
	case exit.Code != nil:
		if *exit.Code == 0 {
			return nil
		}
		return exitCode(*exit.Code)
	}
	return exitCode(128 + signalNumber(exit.Signal))
}
