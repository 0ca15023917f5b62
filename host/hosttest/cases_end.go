package hosttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// endCases: exactly one end, of the right kind, and nothing after it.
func endCases() []testCase {
	return []testCase{
		{"End/Codes", exitCodes},
		{"End/Signals", exitSignals},
		{"End/OnceAndForAll", onceAndForAll},
		{"End/NothingAfter", nothingAfter},
		{"End/WaitIsBounded", waitIsBounded},
		{"End/KillIsIdempotent", killIsIdempotent},
		{"End/ExitThenKill", exitThenKill},
		{"End/ExitBeforeSignal", exitBeforeSignal},
		{"End/SignalThenExit", signalThenExit},
		{"End/SignalsReachAll", signalsReachAll},
		{"End/ClosedOutputIsNoEnd", closedOutputIsNoEnd},
		{"End/CloseEndsAll", closeEndsAll},
		{"End/TTL", ttl},
		{"End/ManyAtOnce", manyAtOnce},
	}
}

// Two fields, never merged: 143 by exit is no signal, and 128 is nobody's.
func exitCodes(k *kit) {
	for _, code := range []int{0, 1, 127, 137, 143, 255} {
		e, _ := k.run(k.spec("exit=" + strconv.Itoa(code)))
		k.wantExited(e, code)
		if k.h.Containment != "" && e.Containment != k.h.Containment {
			k.Errorf("containment is %q, want %q", e.Containment, k.h.Containment)
			return
		}
	}
}

func exitSignals(k *kit) {
	for name, number := range map[string]int{"SIGKILL": 9, "SIGTERM": 15, "SIGSEGV": 11} {
		e, out := k.run(k.spec("out=last words", "die="+strconv.Itoa(number)))
		if e.Reason != driver.Signaled || e.Signal != name || e.Code != nil {
			k.Errorf("death by %s is %s", name, describe(e))
		}
		if got := out.text(driver.Stdout); got != "last words" {
			k.Errorf("death by %s: stdout %q", name, got)
		}
	}
}

func onceAndForAll(k *kit) {
	r := k.start(k.spec("out=x", "err=yy", "exit=3"))
	var wg sync.WaitGroup
	var ends [4]driver.Exit
	for i := range ends {
		wg.Go(func() { ends[i] = r.end() })
	}
	wg.Wait()
	r.kill()
	last := r.end()
	k.wantExited(last, 3)
	for _, e := range ends {
		if !reflect.DeepEqual(e, last) {
			k.Errorf("two ends: %+v and %+v", e, last)
		}
	}
	if last.Stdout != 1 || last.Stderr != 2 {
		k.Errorf("exit counts %d and %d bytes, want 1 and 2", last.Stdout, last.Stderr)
	}
}

// Absence can only be watched for a while; a host that is right is never
// failed by it.
func nothingAfter(k *kit) {
	r := k.start(k.spec("flood=300000,1", "eflood=300000,2"))
	k.wantExited(r.end(), 0)
	if n := r.out.count(driver.Stdout); n != 300000 {
		k.Errorf("at the end %d bytes of stdout have been given, want all 300000", n)
	}
	time.Sleep(50 * time.Millisecond)
	for _, f := range r.out.broken() {
		k.Error(f)
	}

	r = k.start(k.spec("flood=-1,1"))
	r.out.await(k, k.h.patience(), "output", func() bool { return r.out.n[0] > 0 })
	r.kill()
	k.wantKilled(r.end())
	time.Sleep(50 * time.Millisecond)
	for _, f := range r.out.broken() {
		k.Error(f)
	}
}

func waitIsBounded(k *kit) {
	r := k.start(k.spec("wait"))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if e, err := r.Wait(ctx); err == nil {
		k.Errorf("Wait returned %s while the command runs", describe(e))
	}
	r.kill()
	k.wantKilled(r.end())
}

func killIsIdempotent(k *kit) {
	r := k.start(k.spec(append(child("", "wait"), "out=up", "wait")...))
	r.says("up")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(r.kill)
	}
	wg.Wait()
	k.none(r.spec.ID, "when Kill has returned")
	e := r.end()
	k.wantKilled(e)
	if e.Signal != "SIGKILL" || e.Code != nil {
		k.Errorf("exit is %s, want signal SIGKILL and no code", describe(e))
	}
	r.kill()
	r.signal(driver.Terminate)
	if again := r.end(); !reflect.DeepEqual(again, e) {
		k.Errorf("a Kill after the end changed it from %+v to %+v", e, again)
	}
}

func exitThenKill(k *kit) {
	r := k.start(k.spec("exit=4"))
	k.wantExited(r.end(), 4)
	r.kill()
	r.signal(driver.Interrupt)
	k.wantExited(r.end(), 4)
}

// Law 2: a command that exited before the first signal was sent exited,
// although nobody has waited for it yet.
func exitBeforeSignal(k *kit) {
	for _, stop := range []func(*running){(*running).kill, func(r *running) { r.signal(driver.Terminate) }} {
		r := k.start(k.spec("out=done", "exit=6"))
		r.says("done")
		k.gone(r.spec.ID, "by itself")
		stop(r)
		k.wantExited(r.end(), 6)
	}
}

// The other way round the code is kept, but it is advice.
func signalThenExit(k *kit) {
	r := k.start(k.spec("trap=term", "out=up", "await=term", "exit=0"))
	r.says("up")
	r.signal(driver.Terminate)
	e := r.end()
	k.wantKilled(e)
	if e.Code == nil || *e.Code != 0 || e.Signal != "" {
		k.Errorf("exit is %s, want code 0 beside the reason", describe(e))
	}

	r = k.start(k.spec("out=up", "wait"))
	r.says("up")
	r.signal(driver.Interrupt)
	if e := r.end(); e.Reason != driver.Killed {
		k.Errorf("exit is %s, want killed", describe(e))
	}
}

func signalsReachAll(k *kit) {
	for _, sig := range []driver.Signal{driver.Terminate, driver.Interrupt} {
		name := map[driver.Signal]string{driver.Terminate: "term", driver.Interrupt: "int"}[sig]
		said := []string{"await=" + name, "out=child got it\n"}
		steps := append(child("setsid,hold", said...), child("double,setsid,hold", said...)...)
		steps = append(steps, "trap="+name, "out=up\n", "await="+name, "out=leader got it\n")
		spec := k.spec(steps...)
		spec.Grace = 20 * time.Second // the members have time; no KILL may hide what the signal did not do
		spec.Drain = 20 * time.Second
		r := k.start(spec)
		r.says("up\n")
		r.signal(sig)
		r.out.await(k, k.h.patience(), string(sig)+" at the leader and both children", func() bool {
			s := r.out.buf[0].String()
			return strings.Count(s, "child got it\n") == 2 && strings.Count(s, "leader got it\n") == 1
		})
		k.wantKilled(r.end())
		k.none(spec.ID, "at the end")
	}
}

// A daemon closes its output and lives on. Only its death is the end.
func closedOutputIsNoEnd(k *kit) {
	spec := k.spec("out=bye", "closeout", "closeerr", "drop", "exit=7")
	spec.Duplex = true
	r := k.start(spec)
	r.says("bye")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if e, err := r.Wait(ctx); err == nil {
		k.Fatalf("closing its output was taken as the end of the command: %s", describe(e))
	}
	r.closeStdin()
	k.wantExited(r.end(), 7)
}

func closeEndsAll(k *kit) {
	d := k.h.Make(k)
	real := k.d
	k.d = d
	defer func() { k.d = real }()
	a := k.start(k.spec(append(child("setsid", "ignore=term", "wait"), "out=up", "wait")...))
	b := k.start(k.spec("out=up", "ignore=term", "flood=-1,1"))
	a.says("up")
	b.out.await(k, k.h.patience(), "output", func() bool { return b.out.n[0] > 0 })
	done := make(chan error, 1)
	go func() { done <- d.Close() }()
	select {
	case err := <-done:
		if err != nil {
			k.Errorf("Close: %v", err)
		}
	case <-time.After(k.h.patience()):
		k.Fatal("Close hangs")
	}
	for _, r := range []*running{a, b} {
		k.none(r.spec.ID, "when Close has returned")
		if e := r.end(); e.Reason == driver.Exited || e.Reason == driver.Signaled {
			k.Errorf("after Close the exit is %s", describe(e))
		}
	}
	if p, err := d.Start(context.Background(), k.spec("exit=0"), newSink()); err == nil {
		p.Kill(context.Background())
		k.Error("a closed host starts commands")
	}
}

// The last backstop: nobody comes back, and the tree ends all the same.
func ttl(k *kit) {
	spec := k.spec(append(child("setsid", "ignore=term", "wait"), "ignore=term", "out=up", "wait")...)
	spec.TTL = 300 * time.Millisecond
	r := k.start(spec)
	e := r.end()
	if e.Reason == driver.Exited || e.Reason == driver.Signaled || e.Reason == driver.Lost {
		k.Errorf("the end by time to live is %s, want killed or failed", describe(e))
	}
	k.none(spec.ID, "after the time to live")
}

// Commands on one host do not see each other's bytes, codes or signals.
func manyAtOnce(k *kit) {
	const n = 6
	var wg sync.WaitGroup
	for i := range n {
		seed := uint64(i + 10)
		spec := k.spec(fmt.Sprintf("flood=200000,%d", seed), "exit="+strconv.Itoa(i))
		o := newSink()
		c := newChecker(seed)
		o.to[driver.Stdout] = c
		r := k.startTo(spec, o, nil)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
			defer cancel()
			e, err := r.Wait(ctx)
			if err != nil {
				k.Errorf("command %d: %v", i, err)
				return
			}
			o.finish()
			k.wantExited(e, i)
			c.check(k, fmt.Sprintf("command %d", i), 200000)
		})
	}
	wg.Wait()
}

func closed(err error) bool { return errors.Is(err, driver.ErrClosed) }
