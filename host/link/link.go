// Package link makes one stream out of many transports: a duplex byte stream
// that survives when the connection below it drops, stalls or is half open, and
// loses, repeats and reorders nothing.
//
//	keeper's client                      keeper's server
//	└ Dial: Conn                         └ Serve: Conn
//	  └ transports, one after another      └ unix socket ← Attach copies stdio, one process per transport
//
// Both ends keep what they have sent until the other has read it. A full buffer
// makes Write block, which is how a link that is down holds an agent back.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Options of a link; nil and the zero value are fine. Those of the client hold
// for both ends: the hello carries them.
type Options struct {
	// Lease is how long a silent link is waited for, counted at each end from
	// the last byte that it has heard. Then the client reports ErrLost and the
	// server ends its stream, which ends what runs there. It is also how long an
	// agent runs on when its supervisor has died, which from there looks the
	// same: short enough for that, and long enough to notice a dead link (three
	// pings) and to come back after a change of network or a restart of a
	// server. 0: 2 min. At least 1 s, at most 24 h.
	Lease time.Duration
	// Ping is how often each end says that it is there. A transport that was
	// silent for three of them is given up. 0: 15 s. At least 10 ms, at most an
	// hour.
	Ping time.Duration
	// Buffer is how many bytes Write takes, per link and direction, beyond what
	// the peer has read. It bounds the throughput at Buffer per round trip.
	// 0: 2 MiB, which is what an SSH channel has. At least 256 KiB, at most
	// 4 MiB.
	Buffer int
}

const (
	defaultLease  = 2 * time.Minute
	defaultPing   = 15 * time.Second
	defaultBuffer = 2 << 20

	minPing, maxPing   = 10 * time.Millisecond, time.Hour
	minLease, maxLease = time.Second, 24 * time.Hour
)

func (o *Options) resolve() Options {
	r := Options{Lease: defaultLease, Ping: defaultPing, Buffer: defaultBuffer}
	if o == nil {
		return r
	}
	if o.Lease > 0 {
		r.Lease = min(max(o.Lease, minLease), maxLease)
	}
	if o.Ping > 0 {
		r.Ping = min(max(o.Ping, minPing), maxPing)
	}
	if o.Buffer > 0 {
		r.Buffer = min(max(o.Buffer, minBuffer), maxBuffer)
	}
	return r
}

var (
	// ErrLost is matched by every *LostError.
	ErrLost = errors.New("the link is lost")
	// ErrFinal is for transports: an error of connect, or of a transport's Read,
	// that matches it says that trying again is in vain (no such program there,
	// access denied), and ends the link.
	ErrFinal = errors.New("trying again is in vain")
	// ErrRefused: the other end does not take this transport.
	ErrRefused = errors.New("the link was refused")
	// ErrGone: there is no such link at the other end, or no longer.
	ErrGone = errors.New("there is no such link, or no longer")

	errHungUp = errors.New("the other end hung up") // in place of io.EOF, which means a clean end
	errSilent = errors.New("nothing was heard of the other end")
)

// LostError is why a link ended otherwise than by Close of one of its ends. It
// matches ErrLost, and what Cause matches.
type LostError struct {
	Up       bool          // the two ends have spoken to each other at all
	Down     time.Duration // since the last byte was heard
	Received int64         // bytes that came; Read returns them before the error
	Sent     int64         // bytes that the other end is known to have read
	Cause    error         // of the last attempt
}

func (e *LostError) Error() string {
	if !e.Up {
		return fmt.Sprintf("the link never came up: %v", e.Cause)
	}
	return fmt.Sprintf("the link is lost: down for %v, after %d bytes received and %d sent: %v",
		e.Down.Round(time.Millisecond), e.Received, e.Sent, e.Cause)
}

func (e *LostError) Is(target error) bool { return target == ErrLost }

func (e *LostError) Unwrap() error { return e.Cause }

// Conn is one end of a link. One goroutine may read while another writes; Close
// and Wait may be called at any time.
type Conn struct {
	server  bool
	key     Key
	connect func(context.Context) (io.ReadWriteCloser, error)
	close   func() // the server's listener

	ctx    context.Context // ends with the link
	cancel context.CancelFunc

	reading, writing sync.Mutex // one Read and one Write at a time

	mu                 sync.Mutex
	readable, writable sync.Cond
	opt                Options
	w                  *wire  // the transport in use; nil while there is none
	epoch              uint64 // of the last transport
	up                 bool   // the ends have spoken
	resumes            int
	heard              time.Time
	cause              error // why the last transport ended
	breaches           int   // protocol errors since the last progress

	out    outgoing
	in     incoming
	mem    memory
	closed time.Time // zero: not yet

	over bool  // no transport will follow
	err  error // and this is why; nil after a clean end
	work sync.WaitGroup
	done chan struct{} // over, and every goroutine has ended

	retime chan struct{} // opt.Ping has changed
}

func newConn(o *Options) *Conn {
	c := &Conn{opt: o.resolve(), heard: time.Now(), done: make(chan struct{}), retime: make(chan struct{}, 1)}
	c.readable.L, c.writable.L = &c.mu, &c.mu
	return c
}

// Read returns what the other end wrote. io.EOF: it has closed, and all its
// bytes were returned. ErrLost: the link is lost, and all bytes that came were
// returned.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case !c.closed.IsZero():
			return 0, io.ErrClosedPipe
		case len(p) == 0:
			return 0, nil
		case len(c.in.queue) > 0:
			n := c.in.take(p, &c.mem)
			if c.in.read-c.in.told >= ackEvery {
				c.poke()
			}
			return n, nil
		case c.in.fin:
			return 0, io.EOF
		case c.err != nil:
			return 0, c.err
		}
		c.readable.Wait()
	}
}

// Write returns when p is in the buffer. It blocks while the buffer is full,
// which it is once the link is down or the other end does not read.
// io.ErrClosedPipe: one of the ends has closed.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		room := c.opt.Buffer - int(c.out.end-c.out.base)
		switch {
		case !c.closed.IsZero() || c.in.fin:
			return n, io.ErrClosedPipe
		case c.err != nil:
			return n, c.err
		case room <= 0:
			c.writable.Wait()
			continue
		}
		m := c.out.add(p, room, &c.mem)
		p, n = p[m:], n+m
		c.poke()
	}
	return n, nil
}

// Close ends the stream in both directions and does not block: what was written
// is delivered in the background, then the other end reads io.EOF. Wait waits
// for that.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed.IsZero() {
		return nil
	}
	c.closed = time.Now()
	c.in.drop()
	c.readable.Broadcast()
	c.writable.Broadcast()
	c.settle()
	c.poke()
	return nil
}

// Wait waits until the link is over: either end has closed and the other knows
// of it, or it is lost. Nothing of it is left then. The error is that of ctx,
// an ErrLost, or nil. A client that has closed gives up on an end that cannot
// be reached after 20 s, and in any case after the lease.
func (c *Conn) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Resumes returns how many transports have taken over from an earlier one.
func (c *Conn) Resumes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resumes
}

// poke makes the writer look again; c.mu is held.
func (c *Conn) poke() {
	if c.w != nil {
		c.w.wake.Signal()
	}
}

// settle ends the link when there is nothing more to be said; c.mu is held. The
// end of the stream of whoever has closed is known at both ends when it was
// acknowledged.
func (c *Conn) settle() {
	if c.over || !c.in.fin {
		return
	}
	// The server's last word may be lost: then the client comes back and is
	// told that there is nobody. The client's must not: the server would wait.
	if c.w == nil && c.server || c.w != nil && c.w.toldFin {
		c.finish(nil)
	}
}

// lose ends the link with an error; c.mu is held.
func (c *Conn) lose(cause error) {
	if cause == nil {
		cause = errHungUp
	}
	c.finish(&LostError{
		Up: c.up, Down: time.Since(c.heard), Cause: plain(cause),
		Received: int64(c.in.received), Sent: int64(c.out.base),
	})
}

// finish ends the link; c.mu is held.
func (c *Conn) finish(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	c.cancel()
	if c.w != nil {
		c.w.kill(nil)
	}
	c.out.chunks, c.mem.free = nil, nil
	c.readable.Broadcast()
	c.writable.Broadcast()
	if c.close != nil {
		c.work.Go(c.close)
	}
	go func() {
		c.work.Wait()
		close(c.done)
	}()
}

const (
	// linger is how long a client that has closed tries to reach a silent
	// server; the server's lease does the rest.
	linger = 20 * time.Second
	// unread is how long a server that has closed waits for a client that is
	// there and does not read. It is what a keeper grants its client.
	unread = 10 * time.Minute
)

// watch pings, and notices silence.
func (c *Conn) watch() {
	for n := 1; ; n++ {
		c.mu.Lock()
		pause := c.opt.Ping / 3
		c.mu.Unlock()
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-c.retime:
			t.Stop()
			continue
		case <-c.ctx.Done():
			t.Stop()
			return
		}
		c.mu.Lock()
		c.look(n%3 == 0)
		c.mu.Unlock()
	}
}

// look is what watch does; c.mu is held.
func (c *Conn) look(ping bool) {
	if w := c.w; w != nil {
		heard := w.lastHeard()
		if w.open && heard.After(c.heard) {
			c.heard = heard
		}
		patience := 3 * c.opt.Ping
		if !w.open {
			patience = max(patience, answerTime)
		}
		if time.Since(heard) >= patience {
			w.kill(fmt.Errorf("%w for %v", errSilent, time.Since(heard).Round(time.Millisecond)))
		} else if ping {
			w.pingDue = true
			w.wake.Signal()
		}
	}
	silent, lease := time.Since(c.heard), c.opt.Lease
	if !c.up {
		lease = max(lease, 3*answerTime)
	}
	if silent >= lease {
		c.lose(c.cause)
		return
	}
	if c.closed.IsZero() {
		return
	}
	since, bound := time.Since(c.closed), c.opt.Lease
	if c.server {
		bound = max(bound, unread)
	}
	if since < bound && (c.server || min(since, silent) < linger) {
		return
	}
	if c.in.fin { // both have closed, and nobody has more to say
		c.finish(nil)
		return
	}
	c.lose(c.cause)
}
