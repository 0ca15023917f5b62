package host

import (
	"context"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// killNotConfirmed is the detail of an end that the driver never reported.
const killNotConfirmed = "kill not confirmed"

// killing is a kill under way, shared by all who ask for one.
type killing struct {
	done chan struct{}
	err  error
}

// Kill ends every member of the tree, and returns when that is verified. It is
// idempotent, takes at most Options.KillTimeout, and goes on when ctx ends
// before it. When the driver hangs, the process ends as lost ("kill not
// confirmed"): it may have run on.
func (p *Process) Kill(ctx context.Context) error {
	p.mu.Lock()
	k := p.kill
	if p.over() { // with a kill that failed, or without one that was needed
		p.mu.Unlock()
		if k != nil && k.failed() {
			return p.h.wrap("kill", k.err)
		}
		return nil
	}
	if k == nil || k.failed() {
		k = &killing{done: make(chan struct{})}
		p.kill = k
		go p.carryOut(k, context.WithoutCancel(ctx))
	}
	p.mu.Unlock()
	select {
	case <-k.done:
		return p.h.wrap("kill", k.err)
	case <-p.done:
		select {
		case <-k.done: // both: an end that was not confirmed is no success
			return p.h.wrap("kill", k.err)
		default:
			return nil
		}
	case <-ctx.Done():
		return p.h.wrap("kill", context.Cause(ctx))
	}
}

// failed says that the kill is over and may be tried again.
func (k *killing) failed() bool {
	select {
	case <-k.done:
		return k.err != nil
	default:
		return false
	}
}

func (p *Process) carryOut(k *killing, ctx context.Context) {
	told := sync.OnceFunc(func() { close(k.done) })
	defer told()
	limit := p.h.opt.KillTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout("kill", limit))
	defer cancel()
	returned := make(chan error, 1)
	go func() { returned <- p.d.Kill(ctx) }()
	select {
	case k.err = <-returned:
		if ctx.Err() == nil || k.err == nil {
			go p.insist()
			return
		}
	case <-p.done:
		return
	case <-ctx.Done():
		k.err = context.Cause(ctx)
	}
	told() // before the end: who waits for both must see that it failed
	p.finish(driver.Exit{Reason: driver.Lost, Detail: killNotConfirmed})
}

// insist gives the driver KillTimeout from the kill, or from the last output
// that it delivered since, to report the end. An Output that blocks is not the
// driver's fault, and waited for.
func (p *Process) insist() {
	limit := p.h.opt.KillTimeout
	t := time.NewTimer(limit)
	defer t.Stop()
	last, _ := p.gate.activity()
	for {
		select {
		case <-p.done:
			return
		case <-t.C:
		}
		calls, busy := p.gate.activity()
		if calls == last && !busy {
			p.finish(driver.Exit{Reason: driver.Lost, Detail: killNotConfirmed})
			return
		}
		last = calls
		t.Reset(limit)
	}
}

// Step is one rung of a ladder: a signal, and how long to wait after it.
type Step struct {
	Signal driver.Signal
	Wait   time.Duration
}

// Stop asks the command to end, step by step, then kills it, and returns when
// it is over. No steps: terminate, then the grace of the process. When ctx ends
// the rest of the ladder is left out, but never the kill.
func (p *Process) Stop(ctx context.Context, steps ...Step) error {
	if len(steps) == 0 {
		steps = []Step{{driver.Terminate, p.grace}}
	}
	for _, s := range steps {
		if ctx.Err() != nil || p.over() {
			break
		}
		// A signal that cannot be sent is no reason to wait for its effect.
		if p.Signal(ctx, s.Signal) == nil {
			p.pause(ctx, s.Wait)
		}
	}
	if p.over() {
		return nil
	}
	err := p.Kill(context.WithoutCancel(ctx)) // bounded by KillTimeout
	if err == nil {
		select {
		case <-p.done:
		case <-ctx.Done():
			return p.h.wrap("stop", context.Cause(ctx))
		}
	}
	return err
}

// pause waits for the end, at most d.
func (p *Process) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	case <-ctx.Done():
	}
}
