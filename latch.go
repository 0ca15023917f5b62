package rein

import (
	"sync/atomic"
	"time"
)

// latch lets one caller in at a time, until it is shut for ever. What an output
// does with the bytes stands behind one: a call that hangs outlives the run (the
// host gives it up after its KillTimeout, because nothing can end a call), and
// must then find that there is nothing left for it to do. Make it with newLatch.
type latch struct {
	in   chan struct{} // holds one value while somebody is inside
	over atomic.Bool
	late func() // instead of what shut was given, by the one who was inside
	done bool   // one of both was called; of whoever is inside
}

func newLatch(late func()) *latch { return &latch{in: make(chan struct{}, 1), late: late} }

// pass calls f, or nothing when the latch is shut.
func (l *latch) pass(f func()) {
	l.in <- struct{}{}
	if !l.over.Load() {
		f()
	}
	<-l.in
	// Out first: shut says that it is over before it looks a last time whether
	// somebody is inside, so that one of both sees the other.
	if l.over.Load() {
		l.last(l.late)
	}
}

// shut lets nobody in from now on, waits for the one who is inside, calls f and
// returns true. When the wait is longer than patience it returns false, f is
// never called, and late is, as soon as the one inside comes out.
func (l *latch) shut(patience time.Duration, f func()) bool {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case l.in <- struct{}{}:
		l.over.Store(true)
		l.done = true
		f()
		<-l.in
		return true
	case <-t.C:
		l.over.Store(true)
		return l.last(f)
	}
}

// last calls f when nobody is inside and it is the first to come here.
func (l *latch) last(f func()) bool {
	select {
	case l.in <- struct{}{}:
	default:
		return false
	}
	defer func() { <-l.in }()
	if l.done {
		return false
	}
	l.done = true
	f()
	return true
}
