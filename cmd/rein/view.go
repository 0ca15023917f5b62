package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/cmd/rein/internal/tui"
	"github.com/rein-run/rein/store"
	"github.com/rein-run/rein/transcript"
)

// The verbs that show what the agent wrote, live or afterwards. Secrets are
// replaced by their names unless --raw is given.

type runsTail struct {
	ID     string `arg:"" help:"Id, a unique beginning of it, or 'last'."`
	Follow bool   `short:"f" help:"Wait for more while the run works."`
	Lines  int    `short:"n" default:"10" help:"How many lines."`
	Stderr bool   `help:"What the agent wrote to stderr instead."`
	Raw    bool   `help:"Byte for byte: values of secrets are shown."`
}

func (c *runsTail) Run(a *app) error {
	if c.Lines < 0 {
		return usage("--lines: %d is no number of lines: write 0 or more", c.Lines)
	}
	s, r, err := one(a, c.ID)
	if err != nil {
		return err
	}
	path := filepath.Join(r.Dir(), "transcript")
	if c.Stderr {
		path = filepath.Join(r.Dir(), "stderr")
	}
	from, err := transcript.TailOffset(path, c.Lines)
	if err != nil {
		return err
	}
	var w io.Writer = a.stdout
	if c.Stderr && term.IsTerminal(int(a.stdout.Fd())) {
		w = cleaner{w}
	}
	ctx, cancel := a.untilInterrupt()
	defer cancel()
	f, err := follow(ctx, s, r, filepath.Base(path), from, c.Follow, c.Raw)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	if ctx.Err() != nil {
		return nil
	}
	return rawHint(err)
}

// untilInterrupt is the context of a viewer: Ctrl-C and Ctrl-\ leave it, and do
// nothing to the run.
func (a *app) untilInterrupt() (context.Context, context.CancelFunc) {
	a.ownQuit()
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGQUIT)
}

// follow opens a file of a run at an offset, and goes on while the run lives
// when wait is set. Secrets are replaced unless it is to be raw.
func follow(ctx context.Context, s *store.Store, r *store.Run, file string, from int64, wait, raw bool) (io.ReadCloser, error) {
	f := transcript.Follow(ctx, filepath.Join(r.Dir(), file), &transcript.FollowOptions{From: from, Done: over(ctx, s, r.ID(), wait)})
	if raw {
		return f, nil
	}
	return rein.Redacted(ctx, s, r, file, from, f)
}

// rawHint says how to see what cannot be redacted.
func rawHint(err error) error {
	if errors.Is(err, rein.ErrSecretsUnknown) {
		return fmt.Errorf("%w: --raw shows it as it is", err)
	}
	return err
}

// over is closed when the run is over, or at once when nobody waits.
func over(ctx context.Context, s *store.Store, id string, wait bool) <-chan struct{} {
	done := make(chan struct{})
	if !wait {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		for s.Live(id) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return done
}

type runsTools struct {
	ID  string `arg:"" help:"Id, a unique beginning of it, or 'last'."`
	Raw bool   `help:"Values of secrets are shown."`
}

func (c *runsTools) Run(a *app) error {
	s, r, err := one(a, c.ID)
	if err != nil {
		return err
	}
	ctx, cancel := a.untilInterrupt()
	defer cancel()
	from, err := follow(ctx, s, r, "transcript", 0, false, c.Raw)
	if err != nil {
		return err
	}
	f, reader, err := rein.OpenTranscript(r, from)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(a.stdout)
	failed := map[string]bool{}
	var calls []agent.Tool
	err = rein.ReadTranscript(f, reader, func(_ agent.Line, rd agent.Reading) {
		switch {
		case rd.Tool == nil:
		case rd.Kind == agent.KindToolStarted:
			calls = append(calls, *rd.Tool)
		case rd.Kind == agent.KindToolFinished && rd.Tool.Failed:
			failed[rd.Tool.ID] = true
		}
	})
	for _, t := range calls {
		what := cmp.Or(t.Command, strings.Join(t.Argv, " "), strings.Join(t.Files, " "))
		mark := ""
		if failed[t.ID] {
			mark = "  (failed)"
		}
		fmt.Fprintf(w, "%s  %s%s\n", t.Name, tui.Clean(what), mark)
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(rawHint(err), w.Flush())
}

type runsReplay struct {
	ID    string  `arg:"" help:"Id, a unique beginning of it, or 'last'."`
	Speed float64 `default:"1" help:"Times as fast; 0 writes all at once."`
	Raw   bool    `help:"Byte for byte: values of secrets are shown."`
}

func (c *runsReplay) Run(a *app) error {
	if !(c.Speed >= 0 && c.Speed <= math.MaxFloat64) { // nor NaN
		return usage("--speed: %g is no speed: write 1 for the original pace, 2 for twice as fast, 0 for all at once", c.Speed)
	}
	s, r, err := one(a, c.ID)
	if err != nil {
		return err
	}
	path := filepath.Join(r.Dir(), "transcript")
	idx, err := transcript.OpenIndex(path, path+".idx")
	if err != nil {
		return err
	}
	ctx, cancel := a.untilInterrupt()
	defer cancel()
	if c.Raw {
		err = transcript.Replay(ctx, path, idx, c.Speed, a.stdout)
	} else {
		err = replay(ctx, s, r, path, idx, c.Speed, a.stdout)
	}
	if ctx.Err() != nil {
		return nil
	}
	return rawHint(err)
}

// replay is transcript.Replay with the secrets replaced.
func replay(ctx context.Context, s *store.Store, r *store.Run, path string, idx *transcript.Index, speed float64, w io.Writer) error {
	pr, pw := io.Pipe()
	f, err := rein.Redacted(ctx, s, r, "transcript", 0, pr)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pw.CloseWithError(transcript.Replay(ctx, path, idx, speed, pw))
	}()
	_, err = io.Copy(w, f)
	f.Close() // a replay that still writes sees it
	<-done
	return err
}

type runsAttach struct {
	ID  string `arg:"" help:"Id, a unique beginning of it, or 'last'."`
	Raw bool   `help:"The agent's own output, byte for byte, instead of what it does."`
}

func (c *runsAttach) Run(a *app) error {
	s, r, err := one(a, c.ID)
	if err != nil {
		return err
	}
	if !s.Live(r.ID()) {
		return fmt.Errorf("%s is over: rein runs show %s", r.ID(), r.ID())
	}
	ctx, cancel := a.untilInterrupt()
	defer cancel()
	from, err := follow(ctx, s, r, "transcript", 0, true, c.Raw)
	if err != nil {
		return err
	}
	if c.Raw {
		defer from.Close()
		_, err := io.Copy(a.stdout, from)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	f, reader, err := rein.OpenTranscript(r, from)
	if err != nil {
		return err
	}
	defer f.Close()
	last := ""
	err = rein.ReadTranscript(f, reader, func(_ agent.Line, rd agent.Reading) {
		if rd.Activity != "" && rd.Activity != last {
			last = rd.Activity
			fmt.Fprintln(a.stdout, tui.Clean(last))
		}
	})
	if ctx.Err() != nil {
		fmt.Fprintf(a.stderr, "rein: %s goes on: rein runs stop %s ends it\n", r.ID(), r.ID())
		return nil
	}
	if err != nil && !errors.Is(err, rein.ErrSecretsUnknown) { // lost: the report says it
		return err
	}
	_, rep, err := ended(a, r.ID())
	if err != nil {
		return err
	}
	tui.Summary(a.stderr, rep, tilde(r.Dir()), false)
	if code := rep.ExitCode(); code != 0 {
		return exitCode(code)
	}
	return nil
}
