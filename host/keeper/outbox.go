package keeper

import (
	"io"
	"sync"
)

// outbox is the only writer of a stream. Control frames are queued and never
// wait behind data: what can be computed at the moment of writing (data,
// offsets, acknowledgements) comes from fill and so never piles up. No caller
// ever blocks on the peer.
type outbox struct {
	w    io.Writer
	fill func(b []byte) []byte // appends the next frames to b; nothing to do: returns b as it is
	wake chan struct{}         // one token
	done chan struct{}         // closed when run has returned

	mu    sync.Mutex
	queue []byte
	final []byte      // the last frame
	ready func() bool // it may be written now
	told  bool        // it was written
	err   error
}

func newOutbox(w io.Writer, fill func([]byte) []byte) *outbox {
	return &outbox{w: w, fill: fill, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// poke makes the writer look again.
func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// frame queues a control frame.
func (o *outbox) frame(k kind, parts ...[]byte) {
	o.mu.Lock()
	if o.err == nil {
		o.queue = appendFrame(o.queue, k, parts...)
	}
	o.mu.Unlock()
	o.poke()
}

// last sets the last frame. It is written when ready says so and nothing else
// is to be written; then run returns.
func (o *outbox) last(ready func() bool, k kind, parts ...[]byte) {
	o.mu.Lock()
	o.final, o.ready = appendFrame(nil, k, parts...), ready
	o.mu.Unlock()
	o.poke()
}

// run writes until the last frame, a write error, or fail.
func (o *outbox) run() {
	defer close(o.done)
	var spare, b []byte
	for {
		o.mu.Lock()
		b, o.queue = o.queue, spare[:0]
		final, ready, err := o.final, o.ready, o.err
		o.mu.Unlock()
		if err != nil {
			return
		}
		if len(b) == 0 {
			b = o.fill(b)
		}
		spare = b
		last := len(b) == 0 && final != nil && ready()
		switch {
		case last:
			b = final
		case len(b) == 0:
			<-o.wake
			continue
		}
		if _, err := o.w.Write(b); err != nil {
			o.fail(err)
			return
		}
		if last {
			o.mu.Lock()
			o.told = true
			o.mu.Unlock()
			return
		}
		if cap(spare) > 4*chunk { // the start frame may have been large
			spare = nil
		}
	}
}

// fail makes run return and every later frame vanish.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.queue = nil
	o.mu.Unlock()
	o.poke()
}

// broken says whether something could not be written to the peer.
func (o *outbox) broken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil && !o.told
}
