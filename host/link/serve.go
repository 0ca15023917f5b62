package link

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

const (
	// helloTime bounds the wait for the hello on an accepted transport.
	helloTime = 10 * time.Second
	// maxStrangers bounds the transports that have not said hello.
	maxStrangers = 16
)

// Serve returns the server's end of a link whose transports come from l and
// know key. It closes l when the link is over. The client's hello sets Lease and
// Ping; until it has come, those of o hold.
func Serve(l net.Listener, key Key, o *Options) *Conn {
	c := newConn(o)
	c.server, c.key = true, key
	c.close = func() { l.Close() }
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.work.Go(func() { c.accept(l) })
	c.work.Go(c.watch)
	return c
}

func (c *Conn) accept(l net.Listener) {
	strangers := make(chan struct{}, maxStrangers)
	for {
		t, err := l.Accept()
		if err != nil {
			if c.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				c.mu.Lock()
				c.lose(err)
				c.mu.Unlock()
				return
			}
			// Too many open files, and the like: it passes.
			select {
			case <-time.After(firstPause):
			case <-c.ctx.Done():
			}
			continue
		}
		select {
		case strangers <- struct{}{}:
			c.work.Go(func() { c.welcome(t, func() { <-strangers }) })
		default:
			t.Close()
		}
	}
}

// welcome takes one transport, and serves it until its end.
func (c *Conn) welcome(t io.ReadWriteCloser, known func()) {
	hangUp := func() { t.Close() }
	slow := time.AfterFunc(helloTime, hangUp)
	over := context.AfterFunc(c.ctx, hangUp)
	h, err := readHello(t)
	if !slow.Stop() || !over() {
		known()
		t.Close()
		return
	}
	var w *wire
	if err == nil {
		w, err = c.adopt(t, h)
	}
	known()
	if err != nil {
		var no *refusedError
		if errors.As(err, &no) {
			slow := time.AfterFunc(helloTime, hangUp)
			t.Write(appendRefusal(nil, no))
			slow.Stop()
		}
		t.Close()
		return
	}
	w.fail(w.read())
}

// adopt makes t the transport of the link. Its predecessor, if it is still
// there, is given up: the client would not have come otherwise.
func (c *Conn) adopt(t io.ReadWriteCloser, h *Hello) (*wire, error) {
	w := c.newWire(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.key.equal(h.Key):
		return nil, &refusedError{codeKey, "this is the link of somebody else"}
	case c.over:
		return nil, &refusedError{codeGone, ErrGone.Error()}
	case h.epoch <= c.epoch:
		return nil, &refusedError{codeStale, "a later transport has taken over"}
	}
	next, err := c.out.seek(h.received)
	if err != nil {
		return nil, &refusedError{codeOther, err.Error()}
	}
	if old := c.w; old != nil {
		c.w = nil
		old.kill(nil)
	}
	if c.up {
		c.resumes++
	}
	c.epoch, c.up, c.heard = h.epoch, true, time.Now()
	c.opt.Ping, c.opt.Lease = h.Ping, h.Lease
	select {
	case c.retime <- struct{}{}:
	default:
	}
	w.open, w.mayData, w.ackDue, w.next = true, true, true, next
	c.w, c.in.told = w, 0 // what the last transport was told may have been lost with it
	greeting := appendWelcome(nil, c.in.received)
	c.work.Go(func() { w.write(greeting) })
	return w, nil
}
