package rein

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// Hooks are functions of the caller's that are told what happens. They run on a
// goroutine of their own behind a bounded queue: a slow hook misses calls (they
// are counted), a hook that panics is not called again, and neither can delay a
// clock, hold the agent back or lose a byte. All but Spawned may be missed.
type Hooks struct {
	// Spawned is called once, when the agent runs; never when it did not start.
	Spawned func(*Run)
	// Output is given what the agent wrote, in order. p is the hook's own.
	Output func(s driver.Stream, p []byte)
	// Reading is given what was read from it.
	Reading func(agent.Reading)
}

const (
	hookQueue      = 256             // calls
	hookQueueBytes = 4 << 20         // of Output
	hookPatience   = 2 * time.Second // at the end, for calls that are queued
)

// hooks runs the calls. The zero value with nil functions costs nothing.
type hooks struct {
	Hooks
	calls  chan func()
	quit   chan struct{} // what is called after it is closed is not heard
	bytes  atomic.Int64
	missed atomic.Int64
	broken atomic.Bool
	done   chan struct{}
	once   sync.Once
}

func newHooks(h *Hooks) *hooks {
	q := &hooks{done: make(chan struct{})}
	if h == nil || (h.Spawned == nil && h.Output == nil && h.Reading == nil) {
		close(q.done)
		return q
	}
	q.Hooks = *h
	q.calls, q.quit = make(chan func(), hookQueue), make(chan struct{})
	go q.loop()
	return q
}

func (q *hooks) loop() {
	defer close(q.done)
	run := func(call func()) {
		if q.broken.Load() {
			q.missed.Add(1)
			return
		}
		q.one(call)
	}
	for {
		select {
		case call := <-q.calls:
			run(call)
		case <-q.quit:
			for { // those that are queued
				select {
				case call := <-q.calls:
					run(call)
				default:
					return
				}
			}
		}
	}
}

func (q *hooks) one(call func()) {
	defer func() {
		if recover() != nil {
			// A hook that panicked once is in an unknown state.
			q.broken.Store(true)
		}
	}()
	call()
}

func (q *hooks) push(call func()) bool {
	select {
	case q.calls <- call:
		return true
	default:
		q.missed.Add(1)
		return false
	}
}

func (q *hooks) spawned(r *Run) {
	if q.Hooks.Spawned != nil {
		q.push(func() { q.Hooks.Spawned(r) }) // first in an empty queue: never missed
	}
}

func (q *hooks) output(s driver.Stream, p []byte) {
	if q.Hooks.Output == nil || len(p) == 0 {
		return
	}
	n := int64(len(p))
	if q.bytes.Add(n) > hookQueueBytes {
		q.bytes.Add(-n)
		q.missed.Add(1)
		return
	}
	own := append([]byte(nil), p...)
	if !q.push(func() { defer q.bytes.Add(-n); q.Hooks.Output(s, own) }) {
		q.bytes.Add(-n)
	}
}

func (q *hooks) reading(r agent.Reading) {
	if q.Hooks.Reading != nil {
		own := r // r itself in the function would cost every call an allocation
		q.push(func() { q.Hooks.Reading(own) })
	}
}

// close waits a little for the calls that are queued and gives up on a hook
// that does not return: its goroutine ends when it does.
func (q *hooks) close() (missed int64) {
	if q.quit != nil {
		// Not calls: a reading that comes late would panic on a closed channel.
		q.once.Do(func() { close(q.quit) })
	}
	t := time.NewTimer(hookPatience)
	defer t.Stop()
	select {
	case <-q.done:
	case <-t.C:
	}
	return q.missed.Load()
}
