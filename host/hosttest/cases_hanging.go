package hosttest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
)

// hanging is a driver some of whose calls do not return until it is let go,
// whatever their context says.
type hanging struct {
	driver.Host
	what string
	let  chan struct{}
}

type hangingProcess struct {
	driver.Process
	d hanging
}

func (d hanging) wait(what string) {
	if d.what == what {
		<-d.let
	}
}

func (d hanging) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	// The late answer of a host that hung: a process is there after all.
	if d.what == "start" {
		d.wait("start")
		ctx = context.WithoutCancel(ctx)
	}
	p, err := d.Host.Start(ctx, spec, out)
	if err != nil {
		return nil, err
	}
	return hangingProcess{p, d}, nil
}

func (p hangingProcess) Write(ctx context.Context, b []byte) error {
	p.d.wait("write")
	return p.Process.Write(ctx, b)
}

func (p hangingProcess) Signal(ctx context.Context, sig driver.Signal) error {
	p.d.wait("signal")
	return p.Process.Signal(ctx, sig)
}

func (p hangingProcess) Kill(ctx context.Context) error {
	p.d.wait("kill")
	return p.Process.Kill(ctx)
}

func (k *kit) hang(what string) (hanging, func()) {
	d := hanging{k.d, what, make(chan struct{})}
	let := sync.OnceFunc(func() { close(d.let) })
	k.Cleanup(let)
	return d, let
}

var impatient = &host.Options{StartTimeout: 100 * time.Millisecond, KillTimeout: 100 * time.Millisecond}

// within fails when f does not return.
func (k *kit) within(what string, f func()) {
	k.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(k.h.patience()):
		k.Fatalf("%s hangs with the host", what)
	}
}

// The caller's bound is the portable type's, not the host's; and the honest end
// then is lost: the command may have run on.
func hangingKill(k *kit) {
	d, let := k.hang("kill")
	spec := k.spec("out=up", "wait")
	// Starting takes what it takes; only the kill is impatient.
	p := k.own(context.Background(), d, &host.Options{KillTimeout: 100 * time.Millisecond}, spec)
	p.says("up")
	k.within("Kill", func() {
		if err := p.Kill(context.Background()); err == nil {
			k.Error("a Kill that was not confirmed reports success")
		}
	})
	if e := p.end(); e.Reason != driver.Lost || e.Detail == "" {
		k.Errorf("exit is %s, want lost, with a detail", describe(e))
	}
	let()
	// The kill that hung goes on, and ends the tree.
	k.gone(spec.ID, "when the host answers")
}

func hangingStart(k *kit) {
	d, let := k.hang("start")
	spec := k.spec("wait")
	k.within("Start", func() {
		if _, err := k.front(d, impatient).Start(context.Background(), spec, newSink()); !errors.Is(err, context.DeadlineExceeded) {
			k.Errorf("Start on a host that hangs: %v, want a deadline", err)
		}
	})
	let()
	// The process that comes late has no owner any more.
	k.gone(spec.ID, "when the host answers")
}

func hangingWrite(k *kit) {
	d, let := k.hang("write")
	spec := k.spec("out=up", "wait")
	spec.Duplex = true
	p := k.own(context.Background(), d, nil, spec)
	p.says("up")
	k.within("Write, CloseStdin and Kill", func() {
		if err := p.Write(context.Background(), []byte("x")); err != nil {
			k.Errorf("Write: %v", err)
		}
		p.Write(context.Background(), make([]byte, 1<<20))
		p.CloseStdin(context.Background())
		if err := p.Kill(context.Background()); err != nil {
			k.Errorf("Kill: %v", err)
		}
	})
	k.wantKilled(p.end())
	let()
}

func hangingSignal(k *kit) {
	d, let := k.hang("signal")
	spec := k.spec("out=up", "wait")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := k.own(ctx, d, &host.Options{KillTimeout: 200 * time.Millisecond}, spec)
	p.says("up")
	// The owner's end begins with a signal, and must not end with it.
	cancel()
	e := p.end()
	if e.Reason != driver.Killed && e.Reason != driver.Lost {
		k.Errorf("exit is %s", describe(e))
	}
	let()
	k.gone(spec.ID, "after the owner")
}

// bad is a driver that goes on talking after its command has ended.
type bad struct{ driver.Host }

type badProcess struct {
	driver.Process
	out   driver.Output
	mu    sync.Mutex
	waits int
}

func (d bad) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	p, err := d.Host.Start(ctx, spec, out)
	if err != nil {
		return nil, err
	}
	return &badProcess{Process: p, out: out}, nil
}

func (p *badProcess) Wait(ctx context.Context) (driver.Exit, error) {
	e, err := p.Process.Wait(ctx)
	if err != nil {
		return e, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits++; p.waits > 1 {
		e = driver.Exit{Reason: driver.Lost, Detail: "another story"}
	}
	go func() {
		for range 50 {
			p.out.Data(driver.Stdout, []byte("late"))
			time.Sleep(time.Millisecond)
		}
	}()
	return e, nil
}

func oneEnd(k *kit) {
	p := k.own(context.Background(), bad{k.d}, nil, k.spec("exit=5"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { k.wantExited(p.end(), 5) })
	}
	wg.Wait()
	p.Kill(context.Background())
	k.wantExited(p.end(), 5)
}

func nothingAfterBadDriver(k *kit) {
	p := k.own(context.Background(), bad{k.d}, nil, k.spec("out=all", "exit=0"))
	k.wantExited(p.end(), 0)
	time.Sleep(30 * time.Millisecond)
	for _, f := range p.out.broken() {
		k.Error(f)
	}
}
