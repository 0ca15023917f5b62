//go:build linux && real

package hosttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
)

// brokenFront makes package host break one of its promises.
func brokenFront(fault string) func(driver.Host, *host.Options) front {
	return func(d driver.Host, o *host.Options) front {
		if o == nil {
			o = new(host.Options)
		}
		f := badFront{fault: fault, d: d, opt: *o}
		if fault == "has no bounds" {
			f.opt.StartTimeout, f.opt.KillTimeout = time.Hour, time.Hour
		}
		return f
	}
}

type badFront struct {
	fault string
	d     driver.Host
	opt   host.Options
}

func (f badFront) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (process, error) {
	s := *spec
	switch f.fault {
	case "forgets its owner":
		ctx = context.WithoutCancel(ctx)
	case "gives half of the input":
		if s.Input != nil {
			s.Input = io.LimitReader(s.Input, 1000)
		}
	case "takes half an input for a whole one":
		s.Input = untilError{s.Input}
	case "hides abilities":
		out = struct{ driver.Output }{out}
	}
	under := &between{Host: f.d, out: out, through: f.fault == "lets everything through"}
	p, err := host.New(under, &f.opt).Start(ctx, &s, out)
	switch {
	case err == nil:
		return &badOwner{Process: p, fault: f.fault, under: under.p}, nil
	case f.fault == "tells no types":
		return nil, errors.New(err.Error())
	case f.fault == "wraps twice":
		return nil, &host.Error{Op: "start", Host: "bad:", Err: err}
	}
	return nil, err
}

func (f badFront) Output(ctx context.Context, spec *driver.Spec, limit int) (stdout, stderr []byte, exit driver.Exit, err error) {
	if f.fault == "takes any amount of output" {
		limit = 8 << 20
	}
	return host.New(f.d, &f.opt).Output(ctx, spec, limit)
}

// between keeps the driver's process, for a front that goes around package host.
type between struct {
	driver.Host
	out     driver.Output
	through bool // Output is not guarded
	p       driver.Process
}

func (d *between) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	if d.through {
		out = d.out
	}
	p, err := d.Host.Start(ctx, spec, out)
	d.p = p
	return p, err
}

// untilError takes an error for the end.
type untilError struct{ io.Reader }

func (r untilError) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

type badOwner struct {
	*host.Process
	fault  string
	under  driver.Process
	writes atomic.Int32
	kills  atomic.Int32
}

func (p *badOwner) Write(ctx context.Context, b []byte) error {
	switch p.fault {
	case "writes through":
		return p.under.Write(ctx, b)
	case "drops early writes":
		if p.writes.Add(1) == 1 {
			return nil
		}
	case "keeps the caller's buffer":
		go func() {
			// Until the caller has used its buffer again, as it may.
			given := bytes.Clone(b)
			for end := time.Now().Add(10 * time.Second); bytes.Equal(given, b) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			_ = p.Process.Write(ctx, b)
		}()
		return nil
	}
	err := p.Process.Write(ctx, b)
	if errors.Is(err, driver.ErrBusy) {
		switch p.fault {
		case "takes part of what it refuses":
			_ = p.Process.Write(ctx, b[:1])
		case "is never busy":
			return nil
		}
	}
	return err
}

func (p *badOwner) Kill(ctx context.Context) error {
	err := p.Process.Kill(ctx)
	switch {
	case p.fault == "says that every kill worked":
		return nil
	case p.fault == "kills only once" && p.kills.Add(1) > 1:
		return errors.New("no such process")
	}
	return err
}

func (p *badOwner) Stop(ctx context.Context, steps ...host.Step) error {
	if p.fault == "stops by force" {
		return p.Process.Kill(ctx)
	}
	return p.Process.Stop(ctx, steps...)
}

func (p *badOwner) Wait(ctx context.Context) (driver.Exit, error) {
	if p.fault == "asks for the end each time" {
		return p.under.Wait(ctx)
	}
	return p.Process.Wait(ctx)
}

func (p *badOwner) Exit() driver.Exit {
	e := p.Process.Exit()
	if p.fault == "tells another end" {
		e.Reason = driver.Lost
	}
	return e
}
