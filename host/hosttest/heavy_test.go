//go:build real && linux

package hosttest

import (
	"testing"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/host/local"
)

// TestPlain shows that plain without a fault passes, so that TestBroken finds
// the faults and nothing else.
func TestPlain(t *testing.T) { Run(t, plainHarness(t, "")) }

// TestInProcess: the same server as a goroutine. Its own is little: nobody
// adopts orphans, and only the leader is waited for.
func TestInProcess(t *testing.T) {
	h := localHarness(t)
	h.Make = func(testing.TB) driver.Host { return local.New(nil) }
	h.Cut, h.Crash = nil, nil
	h.NoSpool = "none was asked for"
	h.NoCut = "there is no link: the keeper is a goroutine"
	h.NoCrash = "without a keeper of its own nothing outlives the process but what the marker finds"
	if h.Containment == driver.ByKeeper {
		h.Containment = driver.ByMarker
		h.NoEscapers = "a marker and a session are all there is without cgroup and keeper"
	}
	h.Weaker = []driver.Containment{driver.ByMarker}
	Run(t, h)
}

// TestFarInPlainSight is the far host without its wall, which is what it is for
// who is not root.
func TestFarInPlainSight(t *testing.T) {
	h := farHarness(t, &far.Options{Plain: true})
	h.Containment = "" // a cgroup where this process can make one
	Run(t, h)
}
