package link

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// wire is one transport of a link. Two goroutines: one reads, one writes. What
// is said of a wire below holds under the mu of its Conn.
type wire struct {
	c     *Conn
	t     io.ReadWriteCloser
	r     *bufio.Reader
	began time.Time
	last  atomic.Int64  // when a byte came last, nanoseconds since began
	ended chan struct{} // closed by kill

	wake    sync.Cond
	dead    bool
	why     error  // for a dead one; not to be changed any more
	open    bool   // the handshake is over
	mayData bool   // data may be sent
	next    uint64 // number of the chunk to be sent next
	pingDue bool
	ackDue  bool // although little was read
	finDue  bool // the fin of the peer is to be acknowledged
	finSent bool
	toldFin bool // and was
}

func (c *Conn) newWire(t io.ReadWriteCloser) *wire {
	w := &wire{c: c, t: t, began: time.Now(), ended: make(chan struct{})}
	w.r = bufio.NewReaderSize(w, 64<<10)
	w.wake.L = &c.mu
	return w
}

// Read counts as a sign of life whatever comes: on a slow line a whole frame
// takes longer than three pings.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.t.Read(p)
	if n > 0 {
		w.last.Store(int64(time.Since(w.began)))
	}
	return n, err
}

func (w *wire) lastHeard() time.Time { return w.began.Add(time.Duration(w.last.Load())) }

// kill gives the transport up; c.mu is held. Close is called on a goroutine of
// its own: that of an SSH channel writes, which on a dead line takes for ever.
func (w *wire) kill(err error) {
	if w.dead {
		return
	}
	w.dead, w.why = true, err
	c := w.c
	if w.open && w.lastHeard().After(c.heard) {
		c.heard = w.lastHeard()
	}
	if c.w == w {
		c.w = nil
		if err != nil && !c.over {
			c.cause = plain(err)
		}
		if errors.Is(err, errFrame) {
			if c.breaches++; c.breaches >= maxBreaches {
				c.lose(err)
			}
		}
		c.settle()
	}
	close(w.ended)
	w.wake.Signal()
	c.work.Go(func() { w.t.Close() })
}

// maxBreaches is how many transports may end in a protocol error without a byte
// of progress: what a dying transport prints last is not to end the link, a
// peer that is not ours is.
const maxBreaches = 8

// lastWords is how long a transport is read that can no longer be written.
const lastWords = 2 * time.Second

func (w *wire) fail(err error) {
	w.c.mu.Lock()
	w.kill(err)
	w.c.mu.Unlock()
}

// write writes what there is to be written, beginning with greeting.
func (w *wire) write(greeting []byte) {
	c, b := w.c, greeting
	for {
		c.mu.Lock()
		var big *chunk
		for {
			if w.dead {
				c.mu.Unlock()
				return
			}
			if b, big = w.fill(b); len(b) > 0 || big != nil {
				break
			}
			w.wake.Wait()
		}
		fin := w.finDue // answered in b
		w.finDue = false
		c.mu.Unlock()

		var err error
		if len(b) > 0 {
			_, err = w.t.Write(b)
		}
		if err == nil && big != nil {
			_, err = w.t.Write(big.b)
		}

		c.mu.Lock()
		if big != nil {
			big.busy = false
		}
		if err == nil && fin {
			w.toldFin = true
			c.settle()
		}
		c.mu.Unlock()
		if err != nil {
			// Whoever does not read any more may have said why: a refusal, or the
			// end of the stream. Its last words are read first.
			time.AfterFunc(lastWords, func() { w.fail(err) })
			return
		}
		b = b[:0]
	}
}

const (
	small  = 8 << 10  // a chunk that is copied behind others: one write for all
	enough = 32 << 10 // of them
)

// fill appends to b what is due, and returns a chunk to be written behind it.
func (w *wire) fill(b []byte) ([]byte, *chunk) {
	c := w.c
	if w.open {
		if n := c.in.read; n > c.in.told && (w.ackDue || n-c.in.told >= ackEvery || len(b) > 0) {
			b = head{kAck, n, 0}.append(b)
			c.in.told = n
		}
		w.ackDue = false
		if w.finDue {
			b = head{kFinAck, 0, 0}.append(b)
		}
	}
	if w.pingDue {
		b = head{kPing, 0, 0}.append(b)
		w.pingDue = false
	}
	if !w.mayData || c.in.fin { // nobody reads any more what we write
		return b, nil
	}
	for len(b) < enough {
		w.next = max(w.next, c.out.first)
		k := c.out.next(w.next)
		if k == nil {
			if !c.closed.IsZero() && !w.finSent {
				b = head{kFin, c.out.end, 0}.append(b)
				w.finSent = true
			}
			break
		}
		k.seal()
		w.next++
		c.out.sent = max(c.out.sent, k.end())
		if len(k.b) > small {
			k.busy = true
			return b, k
		}
		b = append(b, k.b...)
	}
	return b, nil
}

// read obeys the peer until the transport ends.
func (w *wire) read() error {
	var buf [headSize]byte
	for {
		h, err := readHead(w.r, &buf)
		if err != nil {
			return err
		}
		var p []byte
		if h.kind == kData {
			w.c.mu.Lock()
			p = w.c.mem.get(h.n)
			w.c.mu.Unlock()
			if _, err := io.ReadFull(w.r, p); err != nil {
				return err
			}
		}
		if err := w.obey(h, p); err != nil {
			return err
		}
	}
}

func (w *wire) obey(h head, p []byte) error {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.dead || c.over {
		return errHungUp // its successor may have delivered this already
	}
	switch h.kind {
	case kData:
		fresh, err := c.in.add(h.off, p, &c.mem)
		if err != nil || !fresh {
			return err
		}
		c.breaches = 0
		if !c.closed.IsZero() {
			c.in.drop()
			if c.in.read-c.in.told >= ackEvery {
				w.wake.Signal()
			}
			return nil
		}
		c.readable.Signal()
	case kAck:
		if err := c.out.ack(h.off, &c.mem); err != nil {
			return err
		}
		c.writable.Broadcast()
	case kFin:
		if h.off != c.in.received {
			return fmt.Errorf("%w: the end is at %d, %d bytes have come", errFrame, h.off, c.in.received)
		}
		c.in.fin = true
		w.finDue = true
		w.wake.Signal()
		c.readable.Broadcast()
		c.writable.Broadcast()
	case kFinAck:
		if !w.finSent {
			return fmt.Errorf("%w: an end was acknowledged that there was not", errFrame)
		}
		c.finish(nil)
	}
	return nil
}
