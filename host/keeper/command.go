package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

const (
	defaultGrace = time.Second
	defaultDrain = time.Second
	// orphanGrace bounds Spec.Grace when nobody is left to wait for it: all
	// must be over within 5 s of the client's death.
	orphanGrace = 2 * time.Second
	// settle is how long a member may take to leave by itself after the pipes
	// have reached their end: an exiting process closes its files some time
	// before it counts as dead, and is not a leftover.
	settle = 100 * time.Millisecond
	// quiet ends the reading of a pipe that somebody beyond our reach holds;
	// stubborn does so when he goes on writing.
	quiet    = 250 * time.Millisecond
	stubborn = 2 * time.Second
)

// command is one running command and all that is needed to end it.
type command struct {
	spec   *driver.Spec
	how    driver.Containment
	lead   *leader
	tree   *proctree.Tree
	spool  *spool
	in     *stdin
	outs   [2]*stream
	out    *outbox
	usage  *usage
	asks   *asks   // nil: nobody may ask
	folder *folder // nil: nothing was placed

	urgent chan struct{}      // closed when the tree is to be ended now: why says for what, nil for a kill
	orphan chan struct{}      // closed when the client is gone
	extend chan time.Duration // a new time to live

	killing sync.Mutex // one kill at a time

	using  sync.RWMutex // held by requests while they use the tree
	closed bool         // the tree is gone, and its cgroup with it

	mu        sync.Mutex
	asked     bool // urgent is closed
	why       *stopReason
	signalled bool // a signal of ours was sent before the leader was over
	survivors []proctree.Proc
	spoolErr  error
}

// stopReason is why the keeper itself ends the tree.
type stopReason struct {
	detail string
	grace  time.Duration // at most; 0: Spec.Grace
}

// stop asks for the end of the tree; it never blocks. The first reason counts,
// and none counts after a kill.
func (c *command) stop(why *stopReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked {
		c.asked, c.why = true, why
		close(c.urgent)
	}
}

// abandon is stop for when the client is gone.
func (c *command) abandon(detail string) {
	c.mu.Lock()
	select {
	case <-c.orphan:
	default:
		close(c.orphan)
	}
	c.mu.Unlock()
	c.stop(&stopReason{detail: detail, grace: orphanGrace})
}

func (c *command) isUrgent() bool { return closed(c.urgent) }

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// spoolFailed is called by the streams.
func (c *command) spoolFailed(err error) {
	c.mu.Lock()
	if c.spoolErr == nil {
		c.spoolErr = err
	}
	c.mu.Unlock()
	c.stop(&stopReason{detail: spoolDetail(err)})
}

func spoolDetail(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return "spool: " + err.Error()
}

// noteSignal decides whether the leader is over before the signal that is about
// to be sent. If it is, the command has exited by itself, whatever comes now.
func (c *command) noteSignal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.signalled && !c.lead.isOver() {
		c.signalled = true
	}
}

func (c *command) signal(sig driver.Signal) error {
	n, ok := signalNumber(sig)
	if !ok {
		return fmt.Errorf("unknown signal %q", sig)
	}
	c.using.RLock()
	defer c.using.RUnlock()
	if c.closed {
		return nil
	}
	c.noteSignal()
	_, err := c.tree.Signal(n)
	return err
}

// kill ends the tree because somebody asked for it, and proves it.
func (c *command) kill(ctx context.Context) ([]proctree.Proc, error) {
	c.using.RLock()
	defer c.using.RUnlock()
	if c.closed {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.survivors, nil
	}
	c.noteSignal()
	c.stop(nil)
	return c.sweep(ctx)
}

// sweep ends whatever is alive and proves it. Callers queue up: the second one
// finds nobody.
func (c *command) sweep(ctx context.Context) ([]proctree.Proc, error) {
	c.killing.Lock()
	defer c.killing.Unlock()
	var left []proctree.Proc
	var err error
	if !c.gone() {
		left, err = c.tree.Kill(ctx)
	}
	c.mu.Lock()
	c.survivors = left
	c.mu.Unlock()
	return left, err
}

// gone says that the tree is proved to be gone without a look at all processes.
func (c *command) gone() bool {
	if !c.lead.childless() {
		return false
	}
	if c.tree.Cgroup == nil {
		return true
	}
	pids, err := c.tree.Cgroup.Procs()
	return err == nil && len(pids) == 0
}

func (c *command) members() ([]proctree.Proc, error) {
	if c.gone() {
		return nil, nil
	}
	return c.tree.Members()
}

// run waits for the end, brings it about when it must, and returns it. Every
// wait in it is bounded but two: for the leader, which is the agent's own time,
// and for a client that is there and takes the output slowly.
func (c *command) run() driver.Exit {
	exit := driver.Exit{Containment: c.how}
	c.awaitLeader()
	for _, s := range c.outs {
		s.setDrain()
	}
	c.in.abort()
	exit.Leftovers, exit.HeldBy = c.endTree()
	for _, s := range c.outs {
		exit.HeldBy = append(exit.HeldBy, c.finish(s)...)
	}
	exit.HeldBy = unique(exit.HeldBy)
	c.lead.release()
	c.fill(&exit)
	return exit
}

// awaitLeader returns when the leader is over or was ended.
func (c *command) awaitLeader() {
	ttl := newTTL(c.spec.TTL)
	defer ttl.stop()
	for {
		select {
		case <-c.lead.over:
			return
		case <-c.urgent:
			c.ladder()
			return
		case d := <-c.extend:
			ttl.reset(d)
		case <-ttl.c:
			c.stop(&stopReason{detail: "time to live of " + ttl.d.String() + " reached"})
		}
	}
}

// ladder ends the tree while the leader lives: terminate, grace, kill. A kill
// that was asked for is being carried out already; sweep joins it.
func (c *command) ladder() {
	c.mu.Lock()
	why := c.why
	c.mu.Unlock()
	if why != nil {
		grace := or(c.spec.Grace, defaultGrace)
		if why.grace > 0 {
			grace = min(grace, why.grace)
		}
		for _, s := range c.outs {
			s.setDrain() // what is printed on the way out is kept
		}
		// An error is a member that may not be signalled: the others had it.
		_ = c.signal(driver.Terminate)
		c.awaitNobody(grace, nil)
		c.noteSignal()
	}
	_, _ = c.sweep(context.Background()) // bounded by proctree's own wait
	// The news of a death that has happened already; a survivor has none.
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-c.lead.over:
	case <-t.C:
	}
}

// awaitNobody waits until no member lives, at most limit or until cut. It
// returns who is left.
func (c *command) awaitNobody(limit time.Duration, cut <-chan struct{}) []proctree.Proc {
	deadline, pause := time.Now().Add(limit), time.Millisecond
	for {
		members, err := c.members()
		left := time.Until(deadline)
		if len(members) == 0 && err == nil || left <= 0 || closed(cut) {
			return members
		}
		t := time.NewTimer(min(pause, left))
		select {
		case <-t.C:
		case <-cut:
			t.Stop()
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// endTree reads on while members that outlived the leader still write, ends
// those that stay, and proves that nobody is left. It returns whom it had to
// end, and who of them held the pipes too long. When the end is urgent it goes
// straight to the proof, and nobody is a leftover.
func (c *command) endTree() (leftovers, held []driver.Proc) {
	var members []proctree.Proc
	if c.awaitEOF(or(c.spec.Drain, defaultDrain)) {
		if c.spec.Helper {
			// Nobody asks what a helper leaves behind; two looks are enough.
			c.stop(nil)
		} else {
			members = c.awaitNobody(settle, c.urgent)
		}
	} else if !c.isUrgent() {
		members, _ = c.members()
		held = holders(c.outs[:], func(pid int) bool {
			for _, m := range members {
				if m.PID == pid {
					return true
				}
			}
			return false
		})
	}
	if len(members) > 0 && !c.isUrgent() {
		leftovers = procs(members)
		_, _ = c.tree.Signal(syscall.SIGTERM)
		c.awaitNobody(or(c.spec.Grace, defaultGrace), c.urgent)
	}
	// Always, and even when nobody was seen: this is the proof.
	_, _ = c.sweep(context.Background())
	return leftovers, held
}

// awaitEOF waits for the end of both pipes while a member lives, at most limit.
func (c *command) awaitEOF(limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	pause := 5 * time.Millisecond
	for {
		look := time.NewTimer(pause)
		select {
		case <-c.outs[0].ended:
			select {
			case <-c.outs[1].ended:
				look.Stop()
				return true
			case <-look.C:
			case <-deadline.C:
				return false
			case <-c.urgent:
				return false
			}
		case <-look.C:
		case <-deadline.C:
			return false
		case <-c.urgent:
			return false
		}
		look.Stop()
		// Who holds the pipe without being a member is none of ours to wait
		// for; finish gives him his moment.
		if m, err := c.members(); err == nil && len(m) == 0 {
			return false
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// finish reads to the end of the pipe, now that the tree is dead. A pipe that
// stays open is held by a survivor or by a process that is not of the tree: it
// is read until it has been quiet for a moment, and the holder is returned.
func (c *command) finish(s *stream) []driver.Proc {
	const step = 10 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	var last int64
	var silent, total time.Duration
	before := time.Now()
	for {
		select {
		case <-s.ended:
			return nil
		case <-tick.C:
		}
		// Real time, but only a few steps of it at once: after a pause of the
		// whole machine the pump deserves its turn first.
		now := time.Now()
		past := min(now.Sub(before), 3*step)
		before = now
		kept, waits := s.progress()
		if waits {
			if closed(c.orphan) {
				s.setDiscard() // nobody to give it to, nowhere to keep it
			}
			continue // the client's time, not the pipe's
		}
		total += past
		if silent += past; kept != last {
			silent, last = 0, kept
		}
		if silent >= quiet || total >= stubborn {
			held := holders([]*stream{s}, nil)
			s.stop()
			return held
		}
	}
}

// fill decides how the command came to its end.
func (c *command) fill(exit *driver.Exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	code, sig, known := c.lead.status()
	exit.Code, exit.Signal = code, sig
	switch {
	case c.spoolErr != nil:
		exit.Reason, exit.Detail = driver.Failed, spoolDetail(c.spoolErr)
	case c.signalled:
		exit.Reason = driver.Killed
		if c.why != nil {
			exit.Detail = c.why.detail
		}
	case !known:
		exit.Reason, exit.Detail = driver.Lost, "another wait in this process took the exit status"
	case sig != "":
		exit.Reason = driver.Signaled
	default:
		exit.Reason = driver.Exited
	}
	exit.Survivors = procs(c.survivors)
	exit.Stdout, _ = c.outs[driver.Stdout].progress()
	exit.Stderr, _ = c.outs[driver.Stderr].progress()
	exit.RSSMax, exit.CPU = c.usage.total(c.lead.used())
}

func unique(ps []driver.Proc) []driver.Proc {
	var out []driver.Proc
	seen := make(map[driver.Proc]bool)
	for _, p := range ps {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

func or(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// ttl is a timer that may be none.
type ttl struct {
	d time.Duration
	t *time.Timer
	c <-chan time.Time
}

func newTTL(d time.Duration) *ttl {
	t := new(ttl)
	t.reset(d)
	return t
}

// reset starts it anew; 0 or less means none.
func (t *ttl) reset(d time.Duration) {
	t.stop()
	t.d, t.t, t.c = d, nil, nil
	if d > 0 {
		t.t = time.NewTimer(d)
		t.c = t.t.C
	}
}

func (t *ttl) stop() {
	if t.t != nil {
		t.t.Stop()
	}
}
