// Package host is the portable side of running a command: whatever every
// environment must do alike is done here, once.
//
// It owns the exactly-one end, the queue in front of stdin, the owner of a
// process and its cleanup, and the bounds of every wait. A driver (package
// driver) only reaches the environment.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// Options for New; nil and the zero value mean the defaults.
type Options struct {
	StartTimeout time.Duration // bounds Start, and Look; 0: 30 s
	KillTimeout  time.Duration // bounds Kill; 0: 10 s
	Grace        time.Duration // from terminate to kill when the owner ends and Spec.Grace is 0; 0: 1 s
}

// Host runs commands in one environment. Its methods may be called
// concurrently.
type Host struct {
	d   driver.Host
	opt Options
}

// New returns the host that d reaches.
func New(d driver.Host, o *Options) *Host {
	h := &Host{d: d}
	if o != nil {
		h.opt = *o
	}
	h.opt.StartTimeout = or(h.opt.StartTimeout, 30*time.Second)
	h.opt.KillTimeout = or(h.opt.KillTimeout, 10*time.Second)
	h.opt.Grace = or(h.opt.Grace, time.Second)
	return h
}

func or(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// Name is what a report calls the host: "local:", "ssh://…".
func (h *Host) Name() string {
	if n, ok := h.d.(interface{ Name() string }); ok {
		return n.Name()
	}
	return fmt.Sprintf("%T", h.d)
}

// Driver returns the driver, for its optional abilities.
func (h *Host) Driver() driver.Host { return h.d }

// Close ends what is still running and releases the environment.
func (h *Host) Close() error { return h.wrap("close", h.d.Close()) }

// Error is what went wrong with an environment. It never holds an argument or
// the value of a variable.
type Error struct {
	Op   string // "start", "look", "write", …
	Host string
	Err  error
}

// Error names the host only where it is another machine.
func (e *Error) Error() string {
	if e.Host == "local:" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s on %s: %v", e.Op, e.Host, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

func (h *Host) wrap(op string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Op: op, Host: h.Name(), Err: err}
}

// errTimeout says which bound was met.
func errTimeout(what string, d time.Duration) error {
	return fmt.Errorf("%s took longer than %v: %w", what, d, context.DeadlineExceeded)
}

// Look describes the environment and, with a name, resolves it there; see
// driver.Looker. A driver that cannot look answers with an error that matches
// errors.ErrUnsupported.
func (h *Host) Look(ctx context.Context, name string, env driver.Env) (*driver.Place, error) {
	l, ok := h.d.(driver.Looker)
	if !ok {
		return nil, h.wrap("look", errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.opt.StartTimeout, errTimeout("look", h.opt.StartTimeout))
	defer cancel()
	var place *driver.Place
	err := bounded(ctx, func() (err error) {
		place, err = l.Look(ctx, name, env)
		return err
	})
	if err != nil {
		return nil, h.wrap("look", err)
	}
	return place, nil
}

// bounded returns when f does or when ctx ends, whatever f thinks of ctx. What f
// writes may be read only when the error is f's own, or nil.
func bounded(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // both: the answer is worth more
	case err := <-done:
		return err
	default:
		return context.Cause(ctx)
	}
}

// ErrTooMuch is returned by Output when the command wrote more than the limit.
var ErrTooMuch = errors.New("more output than allowed")

// Output runs a short command of our own (Spec.Helper is set) to its end and
// returns what it wrote. limit is per stream, in bytes; 0: 1 MiB; a command that
// writes more is killed and the error matches ErrTooMuch. A command that exits
// with a code is no error: see exit.
func (h *Host) Output(ctx context.Context, spec *driver.Spec, limit int) (stdout, stderr []byte, exit driver.Exit, err error) {
	if limit <= 0 {
		limit = 1 << 20
	}
	s := *spec
	s.Helper = true
	c := &capture{limit: limit, full: make(chan struct{})}
	p, err := h.Start(ctx, &s, c)
	if err != nil {
		return nil, nil, exit, err
	}
	go func() {
		select {
		case <-c.full:
			_ = p.Kill(context.WithoutCancel(ctx))
		case <-p.Done():
		}
	}()
	// The context owns the process: when it ends, so does the process, and the
	// wait for that is bounded.
	exit, _ = p.Wait(context.WithoutCancel(ctx))
	switch {
	case c.spilt:
		err = h.wrap("run", ErrTooMuch)
	case ctx.Err() != nil && exit.Reason != driver.Exited:
		err = h.wrap("run", context.Cause(ctx))
	}
	return c.buf[0].Bytes(), c.buf[1].Bytes(), exit, err
}

type capture struct {
	limit int
	spilt bool
	full  chan struct{} // closed with spilt
	buf   [2]bytes.Buffer
}

func (c *capture) Data(s driver.Stream, p []byte) {
	b := &c.buf[s]
	if room := c.limit - b.Len(); len(p) > room {
		p = p[:room]
		if !c.spilt {
			c.spilt = true
			close(c.full)
		}
	}
	b.Write(p)
}
