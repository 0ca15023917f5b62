//go:build linux && real

package hosttest

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/local"
)

// brokenLocal is the real local host with something wrong between it and the
// kit: what only a host with a spool and a keeper promises.
func brokenLocal(t testing.TB, fault string) Harness {
	h := localHarness(t)
	whole := h.Make
	h.Make = func(t testing.TB) driver.Host { return spoolBreaker{whole(t), fault} }
	crashed := h.Crash
	h.Crash = func(t testing.TB, spec *driver.Spec, keepers bool) func() Wreck {
		o := local.Options{Keeper: []string{testBinary(t), "far-keeper"}, Spool: resolved(t, t.TempDir())}
		switch fault {
		case "nobody stays beside the agent":
			return crash(t, o, spec, true, false)
		case "nobody comes back":
			return crash(t, o, spec, keepers, false)
		}
		after := crashed(t, spec, keepers)
		return func() Wreck {
			w := after()
			if fault == "loses the last byte" {
				fi, err := os.Stat(w.Stdout)
				if err == nil {
					err = os.Truncate(w.Stdout, fi.Size()-1)
				}
				if err != nil {
					t.Error(err)
				}
			}
			return w
		}
	}
	return h
}

// spoolBreaker stands between a host and the reader of its spool.
type spoolBreaker struct {
	driver.Host
	fault string
}

func (d spoolBreaker) Look(ctx context.Context, name string, env driver.Env) (*driver.Place, error) {
	return d.Host.(driver.Looker).Look(ctx, name, env)
}

func (d spoolBreaker) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	if d.fault == "drops the reason of an answer" || d.fault == "answers for nobody" {
		return d.Host.Start(ctx, spec, brokenAnswer{out, d.fault})
	}
	so, ok := out.(driver.SpoolOutput)
	if !ok {
		return d.Host.Start(ctx, spec, out)
	}
	killed := new(atomic.Bool)
	p, err := d.Host.Start(ctx, spec, brokenSpool{so, d.fault, killed})
	if err != nil {
		return nil, err
	}
	return noteKill{p, killed}, nil
}

type brokenAnswer struct {
	driver.Output
	fault string
}

func (o brokenAnswer) Ask(q []byte) driver.Reply {
	a, ok := o.Output.(driver.Asker)
	if !ok {
		return driver.Reply{}
	}
	r := a.Ask(q)
	r.Stderr = nil
	return r
}

type brokenSpool struct {
	driver.SpoolOutput
	fault  string
	killed *atomic.Bool
}

func (o brokenSpool) Spool(stdout, stderr string) {
	if o.fault == "is for everybody to read" {
		_ = os.Chmod(stdout, 0o644)
	}
	o.SpoolOutput.Spool(stdout, stderr)
}

func (o brokenSpool) Spooled(s driver.Stream, n int64) {
	switch {
	case o.fault == "announces more than there is":
		n++
	case o.fault == "announces what is not there yet":
		o.SpoolOutput.Spooled(s, n+1<<40) // more than can have been written meanwhile
	case o.fault == "stops announcing at the kill" && o.killed.Load():
		return
	}
	o.SpoolOutput.Spooled(s, n)
}

type noteKill struct {
	driver.Process
	killed *atomic.Bool
}

func (p noteKill) Kill(ctx context.Context) error {
	p.killed.Store(true)
	return p.Process.Kill(ctx)
}
