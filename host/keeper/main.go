// Package keeper is the small process that stays beside a command on its host:
// it owns the command's pipes and its tree, and serves both over one stream.
//
// The same server runs as a process of its own (Main: subreaper, own session)
// and in the process of its client (Serve over an in-memory stream), so that
// there is one implementation of spool, drain, kill and exit.
package keeper

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
)

// Main is the body of `rein keeper` and of rein-keeper, and of their verbs "ask"
// (see driver.Ask) and "link" (see package link). The stream is stdin and
// stdout; diagnostics, and never a byte of a command, go to stderr. It returns
// the exit code: 0 when all went as it should, 1 when something is to be read on
// stderr, 2 for wrong usage. It expects to be called first thing in a process
// that does nothing else.
func Main(args []string, stdin, stdout, stderr *os.File) int {
	// One command, moved by the kernel: two threads of Go are plenty, and a
	// hundred keepers on one machine are not rare.
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	debug.SetGCPercent(25)

	if len(args) > 0 && args[0] == askVerb {
		return askMain(args[1:], stdin, stdout, stderr)
	}
	if len(args) > 0 && args[0] == linkVerb {
		return linkMain(args[1:], self(args), stdin, stdout, stderr)
	}
	fl := flag.NewFlagSet("rein keeper", flag.ContinueOnError)
	fl.SetOutput(stderr)
	root := fl.String("spool", "", "keep output below `DIR`, in a folder for each command")
	if err := fl.Parse(args); err != nil {
		return 2
	}
	if fl.NArg() > 0 {
		fmt.Fprintln(stderr, "rein keeper: takes no arguments: the command comes over stdin")
		return 2
	}
	conn, err := takeStream(stdin, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "rein keeper:", err)
		return 1
	}
	ctx, stop := notifyContext()
	defer stop()
	err = Serve(ctx, conn, &ServeOptions{Subreaper: true, Spool: *root, Self: self(args)})
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(stderr, "rein keeper:", err)
		return 1
	}
	return 0
}

// self is the argv that starts this program again, without args; nil when it
// cannot be told.
func self(args []string) []string {
	exe, err := os.Executable()
	n := len(os.Args) - len(args)
	if err != nil || n < 1 || !slices.Equal(os.Args[n:], args) {
		return nil
	}
	return append([]string{exe}, os.Args[1:n]...)
}

// notifyContext ends when the keeper is asked to stop. Notify, and not Ignore,
// for SIGPIPE: what is ignored stays ignored in the command, what is caught is
// reset by execve(2).
func notifyContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, stopSignals()...)
	go func() {
		for s := range ch {
			if s != syscall.SIGPIPE {
				cancel(fmt.Errorf("the keeper was sent %s", s))
			}
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(ch)
	}
}

// stdio is one stream out of two files.
type stdio struct{ r, w *os.File }

func (s *stdio) Read(p []byte) (int, error)  { return s.r.Read(p) }
func (s *stdio) Write(p []byte) (int, error) { return s.w.Write(p) }

// SetWriteDeadline is for package link.
func (s *stdio) SetWriteDeadline(t time.Time) error { return s.w.SetWriteDeadline(t) }

// Close closes both: a blocked read or write of either returns.
func (s *stdio) Close() error {
	err := s.r.Close()
	if s.w != s.r {
		err = errors.Join(err, s.w.Close())
	}
	return err
}
