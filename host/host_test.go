package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// fake is a driver whose every call does what the test says.
type fake struct {
	start func(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error)
	proc  *fakeProc // what Start returns without start
	out   driver.Output
}

func (f *fake) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	f.out = out
	if f.start != nil {
		return f.start(ctx, spec, out)
	}
	return f.proc, nil
}

func (f *fake) Close() error { return nil }

type fakeProc struct {
	over chan driver.Exit // Wait returns what is sent, and again what was sent first

	write  func(ctx context.Context, p []byte) error
	signal func(ctx context.Context, sig driver.Signal) error
	kill   func(ctx context.Context) error

	mu    sync.Mutex
	calls []string
	stdin bytes.Buffer
	eof   bool
}

func newProc() *fakeProc { return &fakeProc{over: make(chan driver.Exit, 1)} }

func (p *fakeProc) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, s)
}

func (p *fakeProc) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *fakeProc) Write(ctx context.Context, b []byte) error {
	if p.write != nil {
		if err := p.write(ctx, b); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stdin.Write(b)
	return nil
}

func (p *fakeProc) CloseStdin(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eof = true
	return nil
}

func (p *fakeProc) Signal(ctx context.Context, sig driver.Signal) error {
	p.note(string(sig))
	if p.signal != nil {
		return p.signal(ctx, sig)
	}
	return nil
}

func (p *fakeProc) Kill(ctx context.Context) error {
	p.note("kill")
	if p.kill != nil {
		return p.kill(ctx)
	}
	p.end(driver.Exit{Reason: driver.Killed})
	return nil
}

func (p *fakeProc) end(e driver.Exit) {
	select {
	case p.over <- e:
	default:
	}
}

func (p *fakeProc) Wait(ctx context.Context) (driver.Exit, error) {
	select {
	case e := <-p.over:
		p.over <- e
		return e, nil
	case <-ctx.Done():
		return driver.Exit{}, ctx.Err()
	}
}

// hang ignores its context, as a wedged client library does.
func hang(context.Context) error { select {} }

type record struct {
	mu   sync.Mutex
	b    [2]bytes.Buffer
	hold chan struct{}
}

func (r *record) Data(s driver.Stream, p []byte) {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b[s].Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b[0].String()
}

var spec = &driver.Spec{Argv: []string{"secret-argument"}, Env: driver.Env{"A": "secret-value"}, Duplex: true}

func start(t *testing.T, ctx context.Context, f *fake, out driver.Output) *Process {
	t.Helper()
	p, err := New(f, nil).Start(ctx, spec, out)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustEnd(t *testing.T, p *Process) driver.Exit {
	t.Helper()
	e, err := p.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{proc: newProc()}
		ctx, cancel := context.WithCancel(t.Context())
		p := start(t, ctx, f, new(record))
		began := time.Now()
		cancel()
		e := mustEnd(t, p)
		if got := f.proc.seen(); !slices.Equal(got, []string{"terminate", "kill"}) || e.Reason != driver.Killed {
			t.Errorf("the driver was asked %v, the end is %+v", got, e)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("the grace was %v, want 1s", d)
		}
	})
}

// A command that heeds the signal is not killed.
func TestStopIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{proc: newProc()}
		f.proc.signal = func(_ context.Context, sig driver.Signal) error {
			if sig == driver.Terminate {
				time.AfterFunc(100*time.Millisecond, func() { f.proc.end(driver.Exit{Reason: driver.Killed}) })
			}
			return nil
		}
		p := start(t, t.Context(), f, new(record))
		began := time.Now()
		if err := p.Stop(t.Context(), Step{driver.Interrupt, 3 * time.Second}, Step{driver.Terminate, time.Minute}); err != nil {
			t.Error(err)
		}
		if got := f.proc.seen(); !slices.Equal(got, []string{"interrupt", "terminate"}) {
			t.Errorf("the driver was asked %v", got)
		}
		if d := time.Since(began); d != 3100*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	})
}

// hangs is a driver that hangs in every call but Start, with or without an eye
// on its context.
func hangs(watchful bool) *fake {
	p := newProc()
	block := hang
	if watchful {
		block = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	}
	p.kill = block
	p.write = func(ctx context.Context, _ []byte) error { return block(ctx) }
	p.signal = func(ctx context.Context, _ driver.Signal) error { return block(ctx) }
	return &fake{proc: p}
}

// Not in a bubble of synctest: what hangs for ever would deadlock it.
func TestHangingDriver(t *testing.T) {
	for _, watchful := range []bool{true, false} {
		h := New(hangs(watchful), &Options{KillTimeout: 50 * time.Millisecond})
		ctx, cancel := context.WithCancel(context.Background())
		p, err := h.Start(ctx, spec, new(record))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Write(ctx, []byte("x")); err != nil {
			t.Error("Write:", err)
		}
		if err := p.Signal(ctx, driver.Terminate); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Signal: %v", err)
		}
		if err := p.Kill(ctx); err == nil {
			t.Error("Kill has confirmed what it cannot know")
		}
		if e := mustEnd(t, p); e.Reason != driver.Lost || e.Detail != killNotConfirmed {
			t.Errorf("the end is %+v", e)
		}
		if err := p.Kill(ctx); err == nil {
			t.Error("a second Kill has confirmed it")
		}
		cancel()
	}
}

// The owner's end reaches the end even when nothing answers.
func TestOwnerOfHangingDriver(t *testing.T) {
	h := New(hangs(false), &Options{KillTimeout: 50 * time.Millisecond, Grace: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	p, err := h.Start(ctx, spec, new(record))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if e := mustEnd(t, p); e.Reason != driver.Lost {
		t.Errorf("the end is %+v", e)
	}
}

// A driver that says "killed" and never says how it ended.
func TestKillWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{proc: newProc()}
		f.proc.kill = func(context.Context) error { return nil }
		p := start(t, t.Context(), f, new(record))
		if err := p.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		// While it delivers it is not given up.
		for range 5 {
			time.Sleep(7 * time.Second)
			f.out.Data(driver.Stdout, []byte("x"))
		}
		began := time.Now()
		e := mustEnd(t, p)
		if e.Reason != driver.Lost || e.Detail != killNotConfirmed {
			t.Errorf("the end is %+v", e)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("given up after %v", d)
		}
	})
}

func TestStartTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newProc()
		f := &fake{start: func(ctx context.Context, _ *driver.Spec, _ driver.Output) (driver.Process, error) {
			time.Sleep(time.Hour) // it does not look at its context, and then succeeds
			return late, nil
		}}
		began := time.Now()
		_, err := New(f, nil).Start(t.Context(), spec, new(record))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start: %v", err)
		}
		if d := time.Since(began); d != 40*time.Second {
			t.Errorf("it took %v, want 30s and 10s for the cleanup", d)
		}
		time.Sleep(2 * time.Hour)
		if got := late.seen(); !slices.Equal(got, []string{"kill"}) {
			t.Errorf("of what was started late, the driver was asked %v", got)
		}
	})
}

func TestErrors(t *testing.T) {
	f := &fake{start: func(context.Context, *driver.Spec, driver.Output) (driver.Process, error) {
		return nil, &driver.NotFoundError{Name: "x", Path: "/bin"}
	}}
	_, err := New(f, nil).Start(t.Context(), spec, new(record))
	var e *Error
	if !errors.As(err, &e) || e.Op != "start" || !errors.Is(err, driver.ErrNotFound) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Start: %v", err)
	}
	if _, err := New(f, nil).Look(t.Context(), "x", nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Look of a driver that cannot: %v", err)
	}
	both := *spec
	both.Input = strings.NewReader("x")
	if _, err := New(f, nil).Start(t.Context(), &both, new(record)); !errors.Is(err, driver.ErrArgument) {
		t.Errorf("Input and Duplex: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("my own"))
	if _, err := New(f, nil).Start(ctx, spec, new(record)); err == nil || !strings.Contains(err.Error(), "my own") {
		t.Errorf("Start of an ended context: %v", err)
	}
}

// The environment's own word for "I do not know" is lost, never exited.
func TestWaitFails(t *testing.T) {
	p := &failingWait{newProc()}
	f := &fake{start: func(context.Context, *driver.Spec, driver.Output) (driver.Process, error) { return p, nil }}
	if e := mustEnd(t, start(t, t.Context(), f, new(record))); e.Reason != driver.Lost || e.Detail != "link down" {
		t.Errorf("the end is %+v", e)
	}
}

type failingWait struct{ *fakeProc }

func (*failingWait) Wait(context.Context) (driver.Exit, error) {
	return driver.Exit{}, errors.New("link down")
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{proc: newProc()}
		up := make(chan struct{}) // the command is not up yet
		f.proc.write = func(ctx context.Context, _ []byte) error {
			select {
			case <-up:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p := start(t, t.Context(), f, new(record))
		var want bytes.Buffer
		part := bytes.Repeat([]byte("0123456789abcdef"), 4096) // 64 KiB
		for i := range 16 {
			part[0] = byte(i)
			if err := p.Write(t.Context(), part); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
			want.Write(part)
		}
		synctest.Wait() // one is in the driver, and still counts
		if err := p.Write(t.Context(), []byte("x")); !errors.Is(err, driver.ErrBusy) {
			t.Errorf("one byte beyond 1 MiB: %v", err)
		}
		close(up)
		synctest.Wait()
		if err := p.Write(t.Context(), []byte("x")); err != nil {
			t.Errorf("after it was drained: %v", err)
		}
		want.WriteByte('x')
		p.CloseStdin(t.Context())
		if err := p.Write(t.Context(), []byte("y")); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("after CloseStdin: %v", err)
		}
		synctest.Wait()
		f.proc.mu.Lock()
		if !bytes.Equal(f.proc.stdin.Bytes(), want.Bytes()) || !f.proc.eof {
			t.Errorf("%d bytes arrived, eof %v, want %d in order", f.proc.stdin.Len(), f.proc.eof, want.Len())
		}
		f.proc.mu.Unlock()
		f.proc.end(driver.Exit{Reason: driver.Exited})
		mustEnd(t, p)
		if err := p.Write(t.Context(), []byte("y")); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestInput(t *testing.T) {
	for _, c := range []struct {
		name string
		in   io.Reader
		want driver.Reason
	}{
		{"whole", iotest.OneByteReader(strings.NewReader("abc")), driver.Exited},
		{"broken", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errors.New("gone"))), driver.Failed},
	} {
		f := &fake{proc: newProc()}
		s := driver.Spec{Argv: []string{"x"}, Input: c.in}
		var given driver.Spec
		f.start = func(_ context.Context, spec *driver.Spec, _ driver.Output) (driver.Process, error) {
			given = *spec
			return f.proc, nil
		}
		p, err := New(f, nil).Start(t.Context(), &s, new(record))
		if err != nil {
			t.Fatal(err)
		}
		if given.Input != nil || !given.Duplex {
			t.Errorf("the driver was given %+v", given)
		}
		if err := p.Write(t.Context(), []byte("x")); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%s: Write beside Input: %v", c.name, err)
		}
		if c.want == driver.Exited {
			for eof := false; !eof; time.Sleep(time.Millisecond) {
				f.proc.mu.Lock()
				eof = f.proc.eof
				f.proc.mu.Unlock()
			}
			f.proc.end(driver.Exit{Reason: driver.Exited})
		}
		e := mustEnd(t, p)
		if e.Reason != c.want || c.want == driver.Failed && e.Detail != "input: gone" || f.proc.stdin.String() != "abc" {
			t.Errorf("%s: %+v, stdin %q", c.name, e, f.proc.stdin.String())
		}
	}
}

// Nothing arrives after the end, and the end waits for what is arriving.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{proc: newProc()}
		out := &record{hold: make(chan struct{})}
		p := start(t, t.Context(), f, out)
		go f.out.Data(driver.Stdout, []byte("early"))
		synctest.Wait()
		f.proc.end(driver.Exit{Reason: driver.Exited})
		synctest.Wait()
		select {
		case <-p.Done():
			t.Error("the end has come while output was being delivered")
		default:
		}
		close(out.hold)
		mustEnd(t, p)
		f.out.Data(driver.Stdout, []byte("late"))
		if got := out.String(); got != "early" {
			t.Errorf("delivered: %q", got)
		}
	})
}

type spooler struct{ record }

func (*spooler) Spool(string, string)         {}
func (*spooler) Spooled(driver.Stream, int64) {}

type sampler struct{ record }

func (*sampler) Sample(driver.Sample) {}

type allround struct {
	spooler
	n int
}

func (a *allround) Sample(driver.Sample) { a.n++ }

type askingRecord struct{ *record }

func (askingRecord) Ask([]byte) driver.Reply { return driver.Reply{} }

type askingSampler struct{ *sampler }

func (askingSampler) Ask([]byte) driver.Reply { return driver.Reply{} }

type askingSpooler struct{ *spooler }

func (askingSpooler) Ask([]byte) driver.Reply { return driver.Reply{} }

type askingAll struct{ *allround }

func (askingAll) Ask([]byte) driver.Reply { return driver.Reply{} }

// The wrapper has the abilities of what it wraps, no fewer and no more.
func TestGateForwards(t *testing.T) {
	for _, out := range []driver.Output{
		new(record), new(spooler), new(sampler), new(allround),
		askingRecord{new(record)},
		askingSpooler{new(spooler)},
		askingSampler{new(sampler)},
		askingAll{new(allround)},
	} {
		g := newGate()
		w := g.guard(out)
		_, spool := out.(driver.SpoolOutput)
		_, sample := out.(driver.Sampler)
		_, gotSpool := w.(driver.SpoolOutput)
		_, gotSample := w.(driver.Sampler)
		if spool != gotSpool || sample != gotSample {
			t.Errorf("%T: spool %v became %v, sample %v became %v", out, spool, gotSpool, sample, gotSample)
		}
		_, ask := out.(driver.Asker)
		got, gotAsk := w.(driver.Asker)
		if ask != gotAsk {
			t.Errorf("%T: ask %v became %v", out, ask, gotAsk)
		}
		if gotAsk {
			if r := got.Ask(nil); r.Exit != 0 {
				t.Errorf("%T: a question was refused by the wrapper: %+v", out, r)
			}
			<-g.close()
			if r := got.Ask(nil); r.Exit != driver.RefusedCode || len(r.Stderr) == 0 {
				t.Errorf("%T: a question after the end: %+v", out, r)
			}
		}
	}
	a, g := new(allround), newGate()
	w := g.guard(a).(driver.Sampler)
	w.Sample(driver.Sample{})
	<-g.close()
	w.Sample(driver.Sample{})
	if a.n != 1 {
		t.Errorf("%d samples came through, want the one before the end", a.n)
	}
}

func TestOutput(t *testing.T) {
	f := &fake{}
	f.start = func(_ context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
		if !spec.Helper {
			t.Error("it is no helper")
		}
		p := newProc()
		out.Data(driver.Stdout, []byte("12345"))
		out.Data(driver.Stderr, []byte("e"))
		if spec.Dir != "endless" {
			three := 3
			p.end(driver.Exit{Reason: driver.Exited, Code: &three})
		}
		return p, nil
	}
	h := New(f, &Options{Grace: time.Millisecond})
	stdout, stderr, e, err := h.Output(t.Context(), &driver.Spec{Argv: []string{"x"}}, 5)
	if string(stdout) != "12345" || string(stderr) != "e" || e.Code == nil || *e.Code != 3 || err != nil {
		t.Errorf("Output: %q %q %+v %v", stdout, stderr, e, err)
	}
	stdout, _, e, err = h.Output(t.Context(), &driver.Spec{Argv: []string{"x"}, Dir: "endless"}, 4)
	if string(stdout) != "1234" || e.Reason != driver.Killed || !errors.Is(err, ErrTooMuch) {
		t.Errorf("too much: %q %+v %v", stdout, e, err)
	}
}
