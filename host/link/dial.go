package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Dial makes a link over transports that connect makes, the first of them
// before Dial returns and with its ctx, which bounds nothing else. An error of
// this first connect is returned as it is.
//
// Dial does not wait for the other end: what is written next goes right behind
// the hello. A link that never comes up fails Read and Write.
//
// connect is called again whenever a transport has ended, with a context that
// ends with the link or after three pings (10 s at least). An error means that it is called
// again later, with pauses of up to 5 s, unless it matches ErrFinal. A transport
// outlives the context of its connect; its Close is called once, and makes its
// Read and Write return.
func Dial(ctx context.Context, connect func(context.Context) (io.ReadWriteCloser, error), o *Options) (*Conn, error) {
	c := newConn(o)
	c.key, c.connect = newKey(), connect
	t, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.heard = time.Now()
	c.work.Go(func() { c.redial(t) })
	c.work.Go(c.watch)
	return c, nil
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// maxMute is how many transports may end before the first word of the other
	// end: it may be a cut, and five times it is a program that is not there.
	maxMute = 5
	// answerTime is granted to a transport until the answer, at least, and three
	// times that to a link until it is up: a program is to be started there, by a
	// login shell on a busy machine.
	answerTime = 10 * time.Second
)

// redial keeps the link on a transport until it is over.
func (c *Conn) redial(t io.ReadWriteCloser) {
	mute, pause := 0, firstPause
	for {
		if t != nil {
			spoke, err := c.carry(t)
			switch {
			case spoke:
				pause = firstPause
			case errors.Is(err, ErrFinal) || errors.Is(err, ErrRefused) && !stale(err):
				c.giveUp(err)
			case !errors.Is(err, errSilent) && !c.wasUp():
				if mute++; mute >= maxMute {
					c.giveUp(err)
				}
			}
		}
		// Jitter: a hundred links of one host that comes back do not come at once.
		sleep := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-sleep.C:
		case <-c.ctx.Done():
			sleep.Stop()
			return
		}
		pause = min(2*pause, lastPause)
		var err error
		if t, err = c.dialOnce(); err != nil {
			t = nil
			c.mu.Lock()
			c.cause = err
			c.mu.Unlock()
			if errors.Is(err, ErrFinal) {
				c.giveUp(err)
			}
		}
	}
}

func (c *Conn) dialOnce() (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithTimeout(c.ctx, max(3*c.opt.Ping, answerTime))
	defer cancel()
	t, err := c.connect(ctx)
	if err == nil && t == nil {
		err = errors.New("connect returned nothing")
	}
	return t, err
}

func stale(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && r.code == codeStale
}

func (c *Conn) wasUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}

// giveUp ends the link because of err. Somebody who is gone need not be told
// that we have closed.
func (c *Conn) giveUp(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, ErrGone) && c.up && (!c.closed.IsZero() || c.in.fin) {
		c.finish(nil)
		return
	}
	c.lose(err)
}

// carry uses the transport until its end. It says whether the other end took the
// link up on it, and why it ended.
func (c *Conn) carry(t io.ReadWriteCloser) (spoke bool, err error) {
	w := c.newWire(t)
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		t.Close()
		return false, nil
	}
	c.epoch++
	h := &Hello{Key: c.key, Create: !c.up, Ping: c.opt.Ping, Lease: c.opt.Lease, epoch: c.epoch, received: c.in.received}
	if h.Create {
		// The server can have nothing, or has it twice and drops the second.
		w.mayData, w.next = true, c.out.first
	}
	c.w = w
	c.work.Go(func() { w.write(h.append(nil)) })
	c.mu.Unlock()

	err = w.greet()
	if err == nil {
		spoke = true
		err = w.read()
	}
	w.fail(plain(err))
	return spoke, w.why
}

// greet reads the answer to the hello.
func (w *wire) greet() error {
	received, noise, err := readAnswer(w.r)
	if err != nil {
		if len(noise) > 0 {
			err = fmt.Errorf("%w; it said %q", plain(err), noise)
		}
		return err
	}
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.dead || c.over {
		return errHungUp
	}
	next, err := c.out.seek(received)
	if err != nil {
		return err
	}
	if !w.mayData {
		w.mayData, w.next = true, next
	}
	w.open, w.ackDue, c.in.told = true, true, 0 // what the last transport was told may have been lost with it
	if c.up {
		c.resumes++
	}
	c.up, c.heard = true, time.Now()
	w.wake.Signal()
	return nil
}

// plain keeps the end of a transport from looking like a clean end of the link.
func plain(err error) error {
	switch {
	case err == io.EOF:
		return errHungUp
	case !errors.Is(err, io.EOF):
		return err
	case errors.Is(err, ErrFinal):
		return fmt.Errorf("%w (%v)", ErrFinal, err)
	}
	return fmt.Errorf("%w (%v)", errHungUp, err)
}
