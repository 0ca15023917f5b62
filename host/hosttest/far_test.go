//go:build linux

package hosttest

import (
	"testing"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
)

func farHarness(t testing.TB, o *far.Options) Harness {
	there := far.New(t, o)
	return Harness{
		Make:        func(testing.TB) driver.Host { return there.Another() },
		Prog:        there.Prog(),
		Name:        "far-prog",
		Dir:         there.Home(),
		Containment: driver.ByKeeper,
		Cut:         func(_ testing.TB, d driver.Host) { d.(*far.Host).Cut() },
		NoCrash:     "for the other side, the death of this one is what Cut does",
		NoSpool:     "the spool is not on this machine",
	}
}

func TestFar(t *testing.T) { Run(t, farHarness(t, nil)) }
