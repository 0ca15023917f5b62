package hosttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
)

// portableCases: what package host adds, over the host under test and over
// hosts that misbehave in ways which the one under test does not.
func portableCases() []testCase {
	return []testCase{
		{"Portable/OwnerEndsTheTree", ownerEndsTheTree},
		{"Portable/OwnerIsGoneAlready", ownerIsGone},
		{"Portable/KillWaitExit", killWaitExit},
		{"Portable/Stop", stopLadder},
		{"Portable/EarlyWrites", portableEarlyWrites},
		{"Portable/BusyTakesNothing", busyTakesNothing},
		{"Portable/Input", portableInput},
		{"Portable/InputFails", portableInputFails},
		{"Portable/Output", portableOutput},
		{"Portable/Errors", portableErrors},
		{"Portable/HangingKill", hangingKill},
		{"Portable/HangingStart", hangingStart},
		{"Portable/HangingWrite", hangingWrite},
		{"Portable/HangingSignal", hangingSignal},
		{"Portable/OneEndFromABadDriver", oneEnd},
		{"Portable/NothingAfterFromABadDriver", nothingAfterBadDriver},
		{"Portable/ForwardsAbilities", forwards},
	}
}

// front is what the portable cases judge: *host.Host, which every caller of a
// host has in front of it.
type front interface {
	Start(context.Context, *driver.Spec, driver.Output) (process, error)
	Output(context.Context, *driver.Spec, int) (stdout, stderr []byte, exit driver.Exit, err error)
}

// process is *host.Process.
type process interface {
	driver.Process
	Stop(context.Context, ...host.Step) error
	Done() <-chan struct{}
	Exit() driver.Exit
}

type realFront struct{ *host.Host }

func (f realFront) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (process, error) {
	p, err := f.Host.Start(ctx, spec, out)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (k *kit) front(d driver.Host, o *host.Options) front {
	if k.h.front != nil {
		return k.h.front(d, o)
	}
	return realFront{host.New(d, o)}
}

// portable is a command started through package host.
type portable struct {
	k *kit
	process
	out *sink
}

// own starts spec with package host over d; ctx owns it.
func (k *kit) own(ctx context.Context, d driver.Host, o *host.Options, spec *driver.Spec) *portable {
	k.Helper()
	out := newSink()
	p, err := k.front(d, o).Start(ctx, spec, out)
	if err != nil {
		k.Fatalf("Start: %v", err)
	}
	k.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
		defer cancel()
		p.Kill(ctx)
		if _, err := p.Wait(ctx); err != nil {
			k.Errorf("Wait at the end of the case: %v", err)
		}
		out.finish()
		for _, f := range out.broken() {
			k.Error(f)
		}
	})
	return &portable{k, p, out}
}

func (p *portable) end() driver.Exit {
	p.k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), p.k.h.patience())
	defer cancel()
	e, err := p.Wait(ctx)
	if err != nil {
		p.k.Fatalf("Wait: no end after %v", p.k.h.patience())
	}
	p.out.finish()
	select {
	case <-p.Done():
	default:
		p.k.Error("Wait has returned and Done is not closed")
	}
	if got := p.Exit(); !reflect.DeepEqual(got, e) {
		p.k.Errorf("Exit is %+v, Wait said %+v", got, e)
	}
	return e
}

func (p *portable) says(text string) {
	p.k.Helper()
	p.out.await(p.k, p.k.h.patience(), fmt.Sprintf("%q on stdout", text), func() bool {
		return strings.Contains(p.out.buf[driver.Stdout].String(), text)
	})
}

func (k *kit) stubborn() *driver.Spec {
	spec := k.spec(append(child("double,setsid", "ignore=term", "wait"), "ignore=term", "out=up", "wait")...)
	spec.Grace = 50 * time.Millisecond
	return spec
}

// Seed 000: the implementation watches the owner and releases what it has
// started when the owner dies.
func ownerEndsTheTree(k *kit) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	spec := k.stubborn()
	p := k.own(ctx, k.d, nil, spec)
	p.says("up")
	cancel()
	k.wantKilled(p.end())
	k.none(spec.ID, "after the owner")
}

func ownerIsGone(k *kit) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	spec := k.spec("wait")
	if p, err := k.front(k.d, nil).Start(ctx, spec, newSink()); err == nil {
		p.Kill(context.Background())
		k.Error("Start for an owner that is gone returned a process")
	}
	k.none(spec.ID, "after a refusal")
}

func killWaitExit(k *kit) {
	p := k.own(context.Background(), k.d, nil, k.stubborn())
	p.says("up")
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := p.Kill(ctx); err != nil {
				k.Errorf("Kill: %v", err)
			}
		})
	}
	wg.Wait()
	e := p.end()
	k.wantKilled(e)
	if err := p.Kill(ctx); err != nil {
		k.Errorf("Kill after the end: %v", err)
	}
	if err := p.Signal(ctx, driver.Terminate); err != nil {
		k.Errorf("Signal after the end: %v", err)
	}

	p = k.own(context.Background(), k.d, nil, k.spec("exit=3"))
	k.wantExited(p.end(), 3)
	if err := p.Kill(ctx); err != nil {
		k.Errorf("Kill after the end: %v", err)
	}
	k.wantExited(p.end(), 3)
}

func stopLadder(k *kit) {
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	// One that obeys the second step.
	p := k.own(context.Background(), k.d, nil, k.spec("trap=term", "ignore=int", "out=up", "await=term", "out=tail", "exit=9"))
	p.says("up")
	err := p.Stop(ctx, host.Step{Signal: driver.Interrupt, Wait: 20 * time.Millisecond}, host.Step{Signal: driver.Terminate, Wait: time.Minute})
	if err != nil {
		k.Errorf("Stop: %v", err)
	}
	e := p.end()
	k.wantKilled(e)
	if e.Code == nil || *e.Code != 9 || !strings.HasSuffix(p.out.text(driver.Stdout), "tail") {
		k.Errorf("exit is %s, stdout %q: want code 9 and the tail", describe(e), p.out.text(driver.Stdout))
	}
	// One that obeys nothing.
	spec := k.stubborn()
	p = k.own(context.Background(), k.d, nil, spec)
	p.says("up")
	if err := p.Stop(ctx); err != nil {
		k.Errorf("Stop: %v", err)
	}
	k.none(spec.ID, "when Stop has returned")
	k.wantKilled(p.end())
}

// slow is a driver that takes no input until it is told to, as one that waits
// for a remote process id.
type slow struct {
	driver.Host
	up chan struct{}
}

type slowProcess struct {
	driver.Process
	up chan struct{}
}

func (d slow) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	p, err := d.Host.Start(ctx, spec, out)
	if err != nil {
		return nil, err
	}
	return slowProcess{p, d.up}, nil
}

func (p slowProcess) Write(ctx context.Context, b []byte) error {
	select {
	case <-p.up:
		return p.Process.Write(ctx, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func portableEarlyWrites(k *kit) {
	up := make(chan struct{})
	spec := k.spec("cat", "exit=0")
	spec.Duplex = true
	p := k.own(context.Background(), slow{k.d, up}, nil, spec)
	var want strings.Builder
	for i := range 300 {
		line := fmt.Sprintf("write %d\n", i)
		want.WriteString(line)
		b := []byte(line)
		if err := p.Write(context.Background(), b); err != nil {
			k.Fatalf("a write before the command is up: %v", err)
		}
		clear(b)
	}
	if err := p.CloseStdin(context.Background()); err != nil {
		k.Fatal(err)
	}
	if err := p.Write(context.Background(), []byte("x")); !closed(err) {
		k.Errorf("Write after CloseStdin: %v, want ErrClosed", err)
	}
	close(up)
	k.wantExited(p.end(), 0)
	if got := p.out.text(driver.Stdout); got != want.String() {
		k.Errorf("early writes arrived as %q", short(got))
	}
	if err := p.Write(context.Background(), []byte("x")); !closed(err) {
		k.Errorf("Write after the end: %v, want ErrClosed", err)
	}
}

// Eight times 1 MiB for a command that does not read (agent_harness test 13):
// Write returns at once, busy means that nothing was taken, and what was taken
// arrives.
func busyTakesNothing(k *kit) {
	spec := k.spec("trap=int", "out=up", "await=int", "sum", "exit=0")
	spec.Duplex = true
	p := k.own(context.Background(), k.d, nil, spec)
	p.says("up")
	src, h, taken, busy := &pattern{seed: 3}, sha256.New(), int64(0), false
	b := make([]byte, 100_000)
	for range 400 {
		before := *src
		src.Read(b)
		err := p.Write(context.Background(), b)
		if errors.Is(err, driver.ErrBusy) {
			*src, busy = before, true
			break
		}
		if err != nil {
			k.Fatalf("Write: %v", err)
		}
		h.Write(b)
		taken += int64(len(b))
	}
	if !busy {
		k.Fatalf("%d bytes were taken for a command that does not read", taken)
	}
	if err := p.Signal(context.Background(), driver.Interrupt); err != nil {
		k.Fatalf("Signal: %v", err)
	}
	// Busy is no end: the same bytes are taken later.
	deadline := time.Now().Add(k.h.patience())
	src.Read(b)
	for {
		err := p.Write(context.Background(), b)
		if err == nil {
			h.Write(b)
			taken += int64(len(b))
			break
		}
		if !errors.Is(err, driver.ErrBusy) || time.Now().After(deadline) {
			k.Fatalf("Write after busy: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	p.CloseStdin(context.Background())
	p.end()
	if got, want := p.out.text(driver.Stdout), "up"+sumLine(taken, h.Sum(nil)); got != want {
		k.Errorf("the command read %q, want %q", got, want)
	}

	// One write that can never fit is busy too, and takes nothing.
	spec = k.spec("sum")
	spec.Duplex = true
	p = k.own(context.Background(), k.d, nil, spec)
	if err := p.Write(context.Background(), make([]byte, 8<<20)); !errors.Is(err, driver.ErrBusy) {
		k.Errorf("Write of 8 MiB: %v, want ErrBusy", err)
	}
	p.CloseStdin(context.Background())
	k.wantExited(p.end(), 0)
	if got := p.out.text(driver.Stdout); !strings.HasPrefix(got, "0 ") {
		k.Errorf("of a write that was refused the command read %q", got)
	}
}

func portableInput(k *kit) {
	n := sizes.duplex
	spec := k.spec(fmt.Sprintf("duplex=%d", n))
	h := sha256.New()
	spec.Input = io.TeeReader(io.LimitReader(&pattern{seed: 4}, n), h)
	p := k.own(context.Background(), k.d, nil, spec)
	e := p.end()
	k.wantExited(e, 0)
	if got, want := p.out.text(driver.Stderr), sumLine(n, h.Sum(nil)); got != want {
		k.Errorf("the command read %q, want %q", got, want)
	}
	if e.Stdout != n {
		k.Errorf("%d bytes of output, want %d", e.Stdout, n)
	}

	// A command that does not read its input ends as well as any other.
	spec = k.spec("exit=6")
	spec.Input = io.LimitReader(&pattern{}, n)
	k.wantExited(k.own(context.Background(), k.d, nil, spec).end(), 6)
}

// Half an input must not look like a whole one.
func portableInputFails(k *kit) {
	spec := k.spec("drop", "wait")
	spec.Input = io.MultiReader(strings.NewReader("half"), errReader{})
	p := k.own(context.Background(), k.d, nil, spec)
	if e := p.end(); e.Reason == driver.Exited || e.Reason == driver.Signaled {
		k.Errorf("exit is %s after an input that failed", describe(e))
	}
	k.none(spec.ID, "after an input that failed")
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("broken on purpose") }

func portableOutput(k *kit) {
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	h := k.front(k.d, nil)
	stdout, stderr, e, err := h.Output(ctx, k.spec("out=a", "err=b", "exit=2"), 0)
	if err != nil || string(stdout) != "a" || string(stderr) != "b" {
		k.Errorf("Output = %q, %q, %v", stdout, stderr, err)
	}
	k.wantExited(e, 2)
	spec := k.spec("flood=-1,1")
	stdout, _, _, err = h.Output(ctx, spec, 1000)
	if !errors.Is(err, host.ErrTooMuch) || len(stdout) > 1000 {
		k.Errorf("Output of a flood: %d bytes, %v; want at most 1000 and ErrTooMuch", len(stdout), err)
	}
	k.none(spec.ID, "after too much output")
}

func portableErrors(k *kit) {
	spec := k.spec("out=x")
	spec.Argv[0] = "no-such-program-anywhere"
	_, err := k.front(k.d, nil).Start(context.Background(), spec, newSink())
	var he *host.Error
	if !errors.As(err, &he) || !errors.Is(err, driver.ErrNotFound) {
		k.Fatalf("error %v (%T), want a *host.Error that matches ErrNotFound", err, err)
	}
	if errors.As(he.Err, new(*host.Error)) {
		k.Errorf("wrapped twice: %v", err)
	}
}

// forwards checks package host itself with what others are checked by.
func forwards(k *kit) {
	CheckForward(k.TB, Wrapper{Output: func(out driver.Output) driver.Output {
		c := catcher{Host: k.d}
		p, err := k.front(&c, nil).Start(context.Background(), k.spec("wait"), out)
		if err != nil {
			k.Fatalf("Start: %v", err)
		}
		k.Cleanup(func() { p.Kill(context.Background()) })
		return c.out
	}})
}

// catcher keeps the Output that it is given; its commands get another.
type catcher struct {
	driver.Host
	out driver.Output
}

func (c *catcher) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	c.out = out
	return c.Host.Start(ctx, spec, newSink())
}
