package keeper

import (
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// usage looks at the tree from time to time: what it uses, and which sessions
// it has, for the record.
type usage struct {
	tree *proctree.Tree
	tell func(driver.Sample) // or nil
	seen func([]proctree.Session)

	mu     sync.Mutex
	rssMax int64
	cpu    float64
}

// The pace of looking: soon, since short commands are to be seen at all; seldom
// while nothing happens, since on kernels without lists of children a look
// reads the whole process table.
const (
	firstLook = 20 * time.Millisecond
	busyLook  = 250 * time.Millisecond
	slowLook  = time.Second
	idleLook  = 2 * time.Second
)

// watch looks until done is closed.
func (u *usage) watch(done <-chan struct{}) {
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	pause := firstLook
	var lastCPU float64
	lastProcs := -1
	var known []proctree.Session
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		s, ok := u.look()
		if ok && u.tell != nil {
			u.tell(s)
		}
		if ok && u.seen != nil {
			now := proctree.Ticks()
			if members, err := u.tree.Members(); err == nil {
				if next := proctree.Sessions(known, members, now); changed(known, next) || s.Procs != lastProcs {
					known = next
					u.seen(known)
				}
			}
		}
		switch quiet := s.Procs == lastProcs && s.CPU-lastCPU < 0.01; {
		case pause < busyLook || !quiet && s.Procs != lastProcs:
			pause = busyLook
		case quiet:
			pause = min(pause*2, idleLook)
		default:
			pause = min(pause*2, slowLook)
		}
		lastProcs, lastCPU = s.Procs, s.CPU
		timer.Reset(pause)
	}
}

func (u *usage) look() (driver.Sample, bool) {
	rss, procs, cpu, err := u.tree.Sample()
	if err != nil {
		return driver.Sample{}, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rssMax = max(u.rssMax, rss)
	u.cpu = max(u.cpu, cpu) // a meter never goes down
	return driver.Sample{RSS: rss, Procs: procs, CPU: u.cpu}, true
}

// total returns the highest values; cpu is another lower bound.
func (u *usage) total(cpu float64) (int64, float64) {
	_, _ = u.look() // who was waited for meanwhile
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rssMax, max(u.cpu, cpu)
}

// changed compares the sessions themselves, not when they were seen.
func changed(a, b []proctree.Session) bool {
	if len(a) != len(b) {
		return true
	}
	for i := range a {
		if a[i].SID != b[i].SID || a[i].Start != b[i].Start {
			return true
		}
	}
	return false
}
