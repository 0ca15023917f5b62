package keeper

import (
	"slices"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// usage looks at the tree from time to time: what it uses, and which sessions
// it has, for the record.
type usage struct {
	tree *proctree.Tree
	out  *outbox
	seen func([]proctree.Session) // or nil

	mu     sync.Mutex
	rssMax int64
	cpu    float64
	sample *driver.Sample // to be told; a newer one takes its place
}

// The pace of looking: soon, since short commands are to be seen at all; seldom
// while nothing happens, since on kernels without lists of children a look
// reads the whole process table.
const (
	firstLook = 20 * time.Millisecond
	soonLook  = 250 * time.Millisecond
	busyLook  = time.Second
	idleLook  = 2 * time.Second
)

// watch looks until done is closed.
func (u *usage) watch(done <-chan struct{}) {
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	var pause time.Duration
	var last driver.Sample
	var known []proctree.Session
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		s, ok := u.look()
		switch {
		case !ok:
			pause = busyLook
		case s.Procs != last.Procs || pause == 0:
			pause = soonLook
		case s.CPU-last.CPU < 0.01:
			pause = min(2*pause, idleLook)
		default:
			pause = min(2*pause, busyLook)
		}
		if ok {
			u.tell(s)
			if now := proctree.Ticks(); u.seen != nil {
				if members, err := u.tree.Members(); err == nil {
					next := proctree.Sessions(known, members, now)
					if s.Procs != last.Procs || !sameSessions(known, next) {
						u.seen(next)
					}
					known = next
				}
			}
			last = s
		}
		timer.Reset(pause)
	}
}

func (u *usage) tell(s driver.Sample) {
	u.mu.Lock()
	u.sample = &s
	u.mu.Unlock()
	u.out.poke()
}

// next appends the latest sample.
func (u *usage) next(b []byte) []byte {
	u.mu.Lock()
	s := u.sample
	u.sample = nil
	u.mu.Unlock()
	if s != nil {
		b = appendFrame(b, kSample, encode(s))
	}
	return b
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

// total returns the highest values; cpu and rss are other lower bounds.
func (u *usage) total(cpu float64, rss int64) (rssMax int64, cpuAll float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(u.rssMax, rss), max(u.cpu, cpu)
}

// sameSessions compares the sessions themselves, not when they were seen.
func sameSessions(a, b []proctree.Session) bool {
	return slices.EqualFunc(a, b, func(x, y proctree.Session) bool {
		return x.SID == y.SID && x.Start == y.Start
	})
}
