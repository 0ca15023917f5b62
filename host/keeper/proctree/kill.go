package proctree

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

// ErrUnsettled is returned by Kill when, to the end of its wait, processes came
// and went too fast to be caught, although none was seen alive.
var ErrUnsettled = errors.New("processes of the tree still come and go")

const (
	reapWait = 5 * time.Second
	minPause = 500 * time.Microsecond
	maxPause = 10 * time.Millisecond
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
	// A bomb that outruns the stopping for half of the time is killed as it
	// stands.
	stopUntil := time.Now().Add(wait / 2)

	k := killer{
		tree:    t,
		stopEnd: stopUntil,
		guard:   t.guard(),
		stopped: make(map[identity]bool),
		killed:  make(map[identity]bool),
		refused: make(map[identity]bool),
	}
	defer k.vigil.close()
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
	tree    *Tree
	guard   map[int]bool
	stopEnd time.Time

	stopped map[identity]bool // got SIGSTOP
	killed  map[identity]bool // got SIGKILL, which nothing can take back
	refused map[identity]bool // not ours to kill
	alive   []Proc            // at the last look; members as long as they live
	still   bool              // everybody was stopped then
	vigil   vigil
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
	// Stopping first costs as much again as killing. Without a Root it is
	// needed, or the death of a parent cuts a line of descent that was not
	// followed to its end. With a Root the lines lead there at any time, and it
	// is needed only when somebody has forked faster than we killed.
	stopFirst := k.tree.Root == 0
	quiet, pause := 0, minPause
	for {
		begun := time.Now()
		all, settled, err := k.look(deep)
		if err != nil {
			return false, err
		}
		cost := time.Since(begun)
		if settled && !k.anyKillable() {
			if quiet++; quiet >= 2 && deep {
				return true, nil
			}
			k.reap(all)
			deep = true
			continue
		}
		quiet, deep = 0, false

		if stopFirst && !k.stop(limit, cost) {
			continue
		}
		k.still = false
		if k.kill(stopFirst) > 0 {
			stopFirst, pause = true, minPause // whoever turns up from now on is a storm
		}
		k.reap(all)

		if len(k.alive) == 0 && limit.Err() == nil {
			continue // unsettled: only a quick look can catch it
		}
		// To look costs the dying the processor that they need to die: at most
		// every third moment is spent looking, and less and less as long as
		// nobody new turns up.
		pause = min(max(pause, 2*cost), maxWatch)
		if !k.watch(limit, pause) {
			return k.last()
		}
		pause *= 2
	}
}

// watch waits until those who got SIGKILL are dead, at most d. It returns false
// when limit ended.
func (k *killer) watch(limit context.Context, d time.Duration) bool {
	for begun, step := time.Now(), minPause; !k.vigil.over(); step = min(2*step, maxPause) {
		left := d - time.Since(begun)
		if left <= 0 {
			break
		}
		if !wait(limit, min(step, left)) {
			return false
		}
	}
	return limit.Err() == nil
}

// wait returns after d, or false when limit ended.
func wait(limit context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-limit.Done():
		return false
	}
}

// last is the look after the wait is over. Whoever is met now for the first
// time gets his SIGKILL too, and a moment to follow it.
func (k *killer) last() (settled bool, err error) {
	for range 2 {
		var all []Proc
		if all, settled, err = k.look(true); err != nil {
			return false, err
		}
		if len(k.alive) == 0 {
			break
		}
		k.kill(false)
		k.reap(all)
		time.Sleep(maxPause)
	}
	return settled, nil
}

// look looks at the tree and keeps who is alive, for now and for the next look.
func (k *killer) look(deep bool) (all []Proc, settled bool, err error) {
	all, settled, err = k.tree.look(deep, k.guard, k.alive)
	if err == nil {
		k.alive = live(all)
	}
	return all, settled, err
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

// stop sends SIGSTOP to those who have not had it. It returns true when there
// is nothing more to be had from stopping: two looks in a row met nobody new,
// and everybody stopped. One look is not enough, nor is the signal: whoever is
// inside of fork(2) when it comes ends that first, and his child may turn up
// behind the look that saw him.
func (k *killer) stop(limit context.Context, cost time.Duration) bool {
	if stopSignal == 0 || limit.Err() != nil || time.Now().After(k.stopEnd) {
		return true
	}
	fresh, running := 0, 0
	for _, p := range k.alive {
		id := identity{p.PID, p.Start}
		switch {
		case k.killed[id] || k.refused[id]:
		case !k.stopped[id] && p.State != hiddenState:
			k.stopped[id] = true
			if Signal(p, stopSignal) == nil {
				fresh++
			}
		case p.State == 'R' || p.State == 'S':
			running++ // the others are stopped, or in a wait that is no fork
		}
	}
	was := k.still
	k.still = fresh == 0 && running == 0
	if fresh == 0 && running > 0 {
		wait(limit, min(max(cost, time.Millisecond), maxPause)) // to stop takes a turn on the processor
	}
	return was && k.still
}

// kill sends SIGKILL to those who have not had it, and returns how many got it.
//
// Parents come first, so that they do not answer the death of a child. Where
// they were stopped the children do: the death of a parent orphans the process
// group of its stopped children, and POSIX then has them continued.
func (k *killer) kill(childrenFirst bool) (n int) {
	order := slices.Clone(k.alive)
	if childrenFirst {
		slices.Reverse(order)
	}
	for _, p := range order {
		id := identity{p.PID, p.Start}
		if k.killed[id] {
			continue
		}
		if p.State == hiddenState {
			k.refused[id] = true // who may not be seen may not be killed
			continue
		}
		switch err := k.vigil.kill(p); {
		case err == nil:
			n++
			k.killed[id] = true
			delete(k.refused, id)
		case !errors.Is(err, os.ErrProcessDone):
			k.refused[id] = true
		}
	}
	return n
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
