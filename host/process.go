package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// Process is one command. Its methods may be called concurrently.
type Process struct {
	h     *Host
	d     driver.Process
	gate  *gate
	in    *queue
	grace time.Duration
	life  context.Context // ends with the process; for calls into the driver
	die   context.CancelFunc
	done  chan struct{}

	mu     sync.Mutex
	ended  bool
	exit   driver.Exit
	failed error // spec.Input broke
	kill   *killing
}

// Start starts a command. ctx owns the process: when it ends, every member of
// the tree is terminated and, after Spec.Grace, killed. The call itself takes at
// most Options.StartTimeout, and KillTimeout more to clean up. When it returns
// an error, nothing is left running; if the environment hangs even then, what
// it started is ended as soon as it answers.
//
// Spec.Input is pumped to stdin by a goroutine, which lives until its Read
// returns. An Input that fails ends the command: exit reason failed.
func (h *Host) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, h.wrap("start", context.Cause(ctx))
	}
	s := *spec
	switch {
	case len(s.Argv) == 0:
		return nil, h.wrap("start", fmt.Errorf("%w: the argv is empty", driver.ErrArgument))
	case s.Input != nil && s.Duplex:
		return nil, h.wrap("start", fmt.Errorf("%w: Input ends stdin and Duplex keeps it open: use Write for both", driver.ErrArgument))
	}
	input := s.Input
	if s.Input = nil; input != nil {
		s.Duplex = true
	}
	p := &Process{
		h: h, gate: newGate(), in: newQueue(), grace: or(s.Grace, h.opt.Grace), done: make(chan struct{}),
	}
	if input != nil || !s.Duplex {
		p.in.close() // Write is not for this command
	}
	var err error
	if p.d, err = h.launch(ctx, &s, p.gate.guard(out)); err != nil {
		p.gate.close()
		return nil, h.wrap("start", err)
	}
	p.life, p.die = context.WithCancel(context.WithoutCancel(ctx))
	go p.await()
	go p.own(ctx)
	if input != nil {
		go func() {
			if err := feed(p.life, p.d, input); err != nil {
				p.fail(err)
			}
		}()
	} else if s.Duplex {
		go p.in.pump(p.life, p.d)
	}
	return p, nil
}

// launch is the driver's Start, bounded. What a late driver starts after all is
// killed at once.
func (h *Host) launch(ctx context.Context, s *driver.Spec, out driver.Output) (driver.Process, error) {
	limit := h.opt.StartTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout("start", limit))
	defer cancel()
	type result struct {
		p   driver.Process
		err error
	}
	done := make(chan result, 1)
	go func() {
		p, err := h.d.Start(ctx, s, out)
		done <- result{p, err}
	}()
	select {
	case r := <-done:
		return r.p, r.err
	case <-ctx.Done():
	}
	// The driver has seen the same end, and returns when it has cleaned up. One
	// that does not even do that is left behind with somebody to clean up.
	late := make(chan struct{})
	go func() {
		defer close(late)
		if r := <-done; r.err == nil {
			h.discard(r.p)
		}
	}()
	cleanup := time.NewTimer(h.opt.KillTimeout)
	defer cleanup.Stop()
	select {
	case <-late:
	case <-cleanup.C:
	}
	return nil, context.Cause(ctx)
}

// discard ends a process that nobody will be given.
func (h *Host) discard(p driver.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), h.opt.KillTimeout)
	defer cancel()
	_ = bounded(ctx, func() error {
		if err := p.Kill(ctx); err != nil {
			return err
		}
		_, err := p.Wait(ctx)
		return err
	})
}

// await takes the end from the driver.
func (p *Process) await() {
	exit, err := p.d.Wait(p.life)
	if err != nil {
		if p.life.Err() != nil {
			return // it was ended without the driver
		}
		exit = driver.Exit{Reason: driver.Lost, Detail: err.Error()}
	}
	p.finish(exit)
}

// finish is the one way to the end. Nothing is delivered after it.
func (p *Process) finish(exit driver.Exit) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended = true
	if p.failed != nil && exit.Reason == driver.Killed {
		exit.Reason, exit.Detail = driver.Failed, "input: "+p.failed.Error()
	}
	p.exit = exit
	p.mu.Unlock()

	p.in.close()
	p.die()
	// A driver that has said the end is inside the Output only if it breaks its
	// contract, and one that was given up may be inside for ever: an Output
	// that blocks must not block the end.
	t := time.NewTimer(p.h.opt.KillTimeout)
	defer t.Stop()
	select {
	case <-p.gate.close():
	case <-t.C:
	}
	close(p.done)
}

// own ends the process when its owner does.
func (p *Process) own(ctx context.Context) {
	select {
	case <-p.done:
	case <-ctx.Done():
		// The cleanup outlives the owner, and bounds itself.
		_ = p.Stop(context.WithoutCancel(ctx), Step{driver.Terminate, p.grace})
	}
}

// fail ends the process because its input broke.
func (p *Process) fail(err error) {
	p.mu.Lock()
	p.failed = err
	p.mu.Unlock()
	_ = p.Kill(context.WithoutCancel(p.life))
}

// Write queues b for stdin and returns at once. At most 1 MiB is queued in
// front of what the environment takes: driver.ErrBusy says that b does not fit
// and nothing of it was taken, driver.ErrClosed that the command is over, that
// stdin was closed, or that it never was open (Spec.Duplex). Writes are
// delivered in order. ctx is for the queuing only.
func (p *Process) Write(ctx context.Context, b []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.h.wrap("write", p.in.put(b))
}

// CloseStdin ends stdin after what was written; it does not wait for that.
func (p *Process) CloseStdin(context.Context) error {
	p.in.end()
	return nil
}

// Signal asks every member of the tree to stop. nil when the command is over.
func (p *Process) Signal(ctx context.Context, sig driver.Signal) error {
	if p.over() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.h.opt.KillTimeout, errTimeout("signal", p.h.opt.KillTimeout))
	defer cancel()
	return p.h.wrap("signal", bounded(ctx, func() error { return p.d.Signal(ctx, sig) }))
}

func (p *Process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait returns the end. It may be called many times. An error means that ctx
// ended first, and nothing else.
func (p *Process) Wait(ctx context.Context) (driver.Exit, error) {
	if p.over() {
		return p.exit, nil
	}
	select {
	case <-p.done:
		return p.exit, nil
	case <-ctx.Done():
		return driver.Exit{}, context.Cause(ctx)
	}
}

// Done is closed at the end: the tree is gone and all output was delivered.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is the end; the zero Exit before Done is closed.
func (p *Process) Exit() driver.Exit {
	if p.over() {
		return p.exit
	}
	return driver.Exit{}
}
