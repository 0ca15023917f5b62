//go:build linux

package hosttest

import (
	"os"
	"testing"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/host/local"
)

func testBinary(t testing.TB) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// localHarness is this machine with a keeper of its own for each command.
func localHarness(t testing.TB) Harness {
	spool := resolved(t, t.TempDir())
	return Harness{
		Make: func(testing.TB) driver.Host {
			return local.New(&local.Options{Keeper: []string{testBinary(t), "far-keeper"}, Spool: spool})
		},
		Prog:       testBinary(t),
		Dir:        resolved(t, t.TempDir()),
		NoName:     "the test binary is on no PATH",
		NoCrash:    "later",
		NoCut:      "later",
		NoCutSweep: "later",
	}
}

func TestLocal(t *testing.T) { Run(t, localHarness(t)) }

func TestInProcess(t *testing.T) {
	h := localHarness(t)
	h.Make = func(testing.TB) driver.Host { return local.New(nil) }
	h.NoSpool = "none was asked for"
	Run(t, h)
}

func TestFar(t *testing.T) {
	there := far.New(t, nil)
	Run(t, Harness{
		Make:        func(testing.TB) driver.Host { return there.Another() },
		Prog:        there.Prog(),
		Name:        "far-prog",
		Dir:         there.Home(),
		Containment: driver.ByKeeper,
		Cut:         func(_ testing.TB, d driver.Host) { d.(*far.Host).Cut() },
		NoCrash:     "nothing of it outlives the test but what Cut leaves",
		NoSpool:     "the spool is not on this machine",
	})
}
