package proctree

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrUnsettled is returned by Kill when, to the end of its wait, processes came
// and went too fast to be caught, although none was seen alive.
var ErrUnsettled = errors.New("processes of the tree still come and go")

const (
	reapWait   = 5 * time.Second
	stopRounds = 16 // looks in a row that only stop; a bomb that outruns them is killed as it stands
	minPause   = 500 * time.Microsecond
	maxPause   = 10 * time.Millisecond
)

// Kill ends every member and returns when two looks in a row, by two different
// means, found nobody alive. It sends SIGKILL at least once to everybody it
// sees, even when ctx has ended; ctx and t.Wait bound the wait after that.
//
// survivors names who is still alive: another user's process, one that the
// kernel does not let go, a storm that outlasted the wait. It is an error only
// when the tree could not be looked at, ctx ended first, or ErrUnsettled.
//
// When Root is the calling process and Leader is set, Kill also waits for
// (wait4) the dead children of the caller that it meets, except Leader and
// Exclude: their exit statuses belong to the caller. Without a Leader it waits
// for nobody, since it could not know whom the caller wants.
func (t *Tree) Kill(ctx context.Context) (survivors []Proc, err error) {
	wait := t.Wait
	if wait <= 0 {
		wait = reapWait
	}
	limit, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	k := killer{
		tree:    t,
		guard:   t.guard(),
		stopped: make(map[identity]bool),
		killed:  make(map[identity]bool),
		refused: make(map[identity]bool),
	}
	k.killHeld()
	settled, err := k.run(limit)
	switch {
	case err != nil:
		return k.alive, err
	case ctx.Err() != nil && (len(k.alive) > 0 || !settled):
		return k.alive, context.Cause(ctx)
	case len(k.alive) == 0 && !settled:
		return nil, ErrUnsettled
	}
	return k.alive, nil
}

type identity struct {
	pid   int
	start uint64
}

type killer struct {
	tree  *Tree
	guard map[int]bool

	stopped map[identity]bool // got SIGSTOP
	killed  map[identity]bool // got SIGKILL, which nothing can take back
	refused map[identity]bool // not ours to kill
	alive   []Proc            // at the last look
}

// killHeld lets the kernel do what it does atomically: nobody forks out of a
// dying cgroup or job. The lineage is gone through all the same, for a member
// may have left. Not done when one of the guarded is inside.
func (k *killer) killHeld() {
	for _, pid := range k.tree.held() {
		if k.guard[pid] {
			return
		}
	}
	// An error means that it is gone, or that the looks will have to do.
	if k.tree.Cgroup != nil {
		_ = k.tree.Cgroup.Kill()
	}
	if k.tree.Job != nil {
		_ = k.tree.Job.Kill()
	}
}

// run looks and signals until nobody is left or limit ends.
func (k *killer) run(limit context.Context) (settled bool, err error) {
	// Without a Root the first look is the deep one: who is tied to the others
	// only by the marker may be the parent of somebody tied by nothing, and
	// once the parent is dead that cannot be seen any more.
	deep := k.tree.Root == 0
	quiet, stops, pause := 0, 0, minPause
	for {
		all, settled, err := k.tree.look(deep, k.guard)
		if err != nil {
			return false, err
		}
		k.alive = k.remember(live(all))
		if settled && !k.anyKillable() {
			if quiet++; quiet >= 2 && deep {
				return true, nil
			}
			k.reap(all)
			deep = true
			continue
		}
		quiet, deep = 0, false

		// Stop first, and look again until nobody new turns up: then nobody can
		// fork any more, and where there is no subreaper no line of descent is
		// cut before it was followed to its end.
		if stops < stopRounds && limit.Err() == nil && k.stop() > 0 {
			stops++
			continue
		}
		stops = 0
		k.kill()
		k.reap(all)

		if len(k.alive) == 0 && limit.Err() == nil {
			continue // unsettled: only a quick look can catch it
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, maxPause)
		case <-limit.Done():
			timer.Stop()
			return k.last()
		}
	}
}

// last is the look after the wait is over. Whoever is met now for the first
// time gets his SIGKILL too, and a moment to follow it.
func (k *killer) last() (settled bool, err error) {
	for range 2 {
		var all []Proc
		if all, settled, err = k.tree.look(true, k.guard); err != nil {
			return false, err
		}
		if k.alive = k.remember(live(all)); len(k.alive) == 0 {
			break
		}
		k.kill()
		k.reap(all)
		time.Sleep(maxPause)
	}
	return settled, nil
}

// remember adds those who were sent SIGKILL, still live, and were not seen: the
// death of a parent can cut the only tie that they had to the tree, and being
// out of sight is not being dead.
func (k *killer) remember(alive []Proc) []Proc {
	seen := make(map[identity]bool, len(alive))
	for _, p := range alive {
		seen[identity{p.PID, p.Start}] = true
	}
	for id := range k.killed {
		if seen[id] {
			continue
		}
		if p, err := Read(id.pid); err == nil && p.Start == id.start && !p.Dead() {
			alive = append(alive, p)
		} else {
			delete(k.killed, id)
		}
	}
	return alive
}

// anyKillable says whether somebody is alive who has not refused to be killed.
func (k *killer) anyKillable() bool {
	for _, p := range k.alive {
		if !k.refused[identity{p.PID, p.Start}] {
			return true
		}
	}
	return false
}

// stop sends SIGSTOP to those who have not had it, and returns how many there
// were.
func (k *killer) stop() (n int) {
	if stopSignal == 0 {
		return 0
	}
	for _, p := range k.alive {
		if id := (identity{p.PID, p.Start}); !k.stopped[id] && !k.refused[id] && p.State != hiddenState {
			k.stopped[id] = true
			if Signal(p, stopSignal) == nil {
				n++
			}
		}
	}
	return n
}

// kill sends SIGKILL to those who have not had it, children before parents:
// the death of a parent orphans the group of its stopped children, and POSIX
// then has them continued.
func (k *killer) kill() {
	for i := len(k.alive) - 1; i >= 0; i-- {
		id := identity{k.alive[i].PID, k.alive[i].Start}
		if k.killed[id] {
			continue
		}
		if k.alive[i].State == hiddenState {
			k.refused[id] = true // who may not be seen may not be killed
			continue
		}
		switch err := Signal(k.alive[i], syscall.SIGKILL); {
		case err == nil:
			k.killed[id] = true
			delete(k.refused, id)
		case !errors.Is(err, os.ErrProcessDone):
			k.refused[id] = true
		}
	}
}

// reap waits for our own dead children, one by one and by pid: a wait for
// "anybody" would take the leader's exit status from the caller.
func (k *killer) reap(all []Proc) {
	self := os.Getpid()
	if k.tree.Root != self || k.tree.Leader.PID == 0 {
		return
	}
	for _, p := range all {
		if p.Dead() && p.PPID == self && p.PID != k.tree.Leader.PID && !k.guard[p.PID] {
			reap(p.PID)
		}
	}
}
