package proctree

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Tree is what belongs to one run: the union of everything that can prove
// membership. The fields are set before the first call; the methods may then be
// called concurrently. The zero Tree has no members.
type Tree struct {
	// Root is the process whose descendants are the members; it is no member
	// itself. It should be a subreaper (SetSubreaper), else what lost its
	// parent is out of sight. 0: none.
	Root int
	// Leader is the process that the run started. With Root 0 the members are
	// the leader, its descendants, and its session and group if it leads them;
	// that holds while the leader is there, if only as a zombie: do not wait
	// for it before the tree was ended. With Root set it only tells Kill
	// which exit status belongs to the caller.
	Leader Proc
	// Cgroup, when there is one: all in it and below are members.
	Cgroup *Cgroup
	// Job, when there is one (Windows): all in it are members.
	Job *Job
	// Marker, when there is one: who carries it in the environment is a member.
	// Looking costs a scan of every environment, so with Root set only Kill's
	// last look does it, and Sample never does.
	Marker string
	// Sessions of a record, for when there is nothing better left. The caller
	// has compared BootID.
	Sessions []Session
	// Exclude lists pids that are never touched. Neither are, in any case, pid
	// 1, the calling process, its ancestors, and Root. What descends from the
	// tree only through one of these is not a member either.
	Exclude map[int]bool
	// Wait bounds Kill's wait for the members to be gone. 0: 5 s.
	Wait time.Duration
}

// Members returns the live members, parents before their children.
func (t *Tree) Members() ([]Proc, error) {
	procs, _, err := t.look(t.Root == 0, t.guard(), nil)
	return live(procs), err
}

// Signal sends sig to every live member, parents first, and returns how many
// took it. A stopped member is continued afterwards, or it would not notice.
// Members that ended meanwhile are no error; the first refusal is, and does not
// keep the signal from the others.
func (t *Tree) Signal(sig syscall.Signal) (n int, err error) {
	procs, err := t.Members()
	var first error
	refused := 0
	for _, p := range procs {
		switch e := Signal(p, sig); {
		case e == nil:
			n++
			if p.State == 'T' && contSignal != 0 {
				_ = Signal(p, contSignal) // it may have ended: what we wanted
			}
		case errors.Is(e, os.ErrProcessDone):
		default:
			refused++
			if first == nil {
				first = e
			}
		}
	}
	if refused > 1 {
		first = fmt.Errorf("%w (and %d more processes refused it)", first, refused-1)
	}
	return n, errors.Join(err, first)
}

// Sample returns what the tree uses now: resident bytes of the live members
// (shared pages count once for each), their number, and the seconds of
// processor time used so far. The time covers members that ended and were
// waited for by another member, or by the caller when the caller is Root;
// who was waited for by nobody (SIGCHLD ignored) is not in it.
func (t *Tree) Sample() (rss int64, procs int, cpu float64, err error) {
	all, _, err := t.look(false, t.guard(), nil)
	for _, p := range all {
		// A zombie's time counts until its parent takes it over by waiting.
		cpu += p.CPU + p.Waited
		if !p.Dead() {
			rss += p.RSS
			procs++
		}
	}
	if t.Root == os.Getpid() {
		cpu += waitedCPU()
	}
	return rss, procs, cpu, err
}

// Unproven returns the live processes that sit in a recorded session that can
// no longer be proved to be the same one: to be named, not to be ended.
func (t *Tree) Unproven() ([]Proc, error) {
	if len(t.Sessions) == 0 {
		return nil, nil
	}
	all, err := table()
	if err != nil {
		return nil, err
	}
	guard := t.guard()
	member := make(map[int]bool)
	for _, p := range t.closure(all, true, guard, nil) {
		member[p.PID] = true
	}
	var out []Proc
	for _, s := range t.Sessions {
		if s.SID <= 0 || s.proves(all) || reused(s, all) {
			continue
		}
		for _, p := range all {
			if p.SID == s.SID && !p.Dead() && !guard[p.PID] && !member[p.PID] {
				member[p.PID] = true
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// reused says that s's number belongs to another process by now, which proves
// that the recorded session is empty.
func reused(s Session, table []Proc) bool {
	for _, p := range table {
		if p.PID == s.SID {
			return p.Start != s.Start
		}
	}
	return false
}

// guard returns the pids that are never touched.
func (t *Tree) guard() map[int]bool {
	g := map[int]bool{0: true, 1: true}
	if t.Root > 0 {
		g[t.Root] = true
	}
	for _, pid := range ancestors(os.Getpid()) {
		g[pid] = true
	}
	for pid, on := range t.Exclude {
		if on {
			g[pid] = true
		}
	}
	return g
}

// look returns the members, dead ones included, parents before children. Deep
// also reads every environment for the marker, and with Root set finds the
// descendants in a second way: by the table of all processes besides the lists
// of children, since those lists may skip somebody while his siblings end
// (proc_pid_children(5)). settled is false when members came and went so fast
// that nobody alive does not mean nobody there.
func (t *Tree) look(deep bool, guard map[int]bool, known []Proc) (procs []Proc, settled bool, err error) {
	settled = true
	have := make(map[int]bool)
	add := func(more []Proc) {
		for _, p := range more {
			if !have[p.PID] && !guard[p.PID] {
				have[p.PID] = true
				procs = append(procs, p)
			}
		}
	}
	if t.Root > 0 {
		var found []Proc
		if found, settled, err = walk(t.Root, guard); err != nil {
			return found, false, err
		}
		add(found)
	}
	if t.Root > 0 && !deep {
		for _, pid := range t.held() {
			if have[pid] {
				continue
			}
			if p, err := Read(pid); err == nil {
				add([]Proc{p})
			}
		}
		for _, k := range known {
			if have[k.PID] {
				continue
			}
			if p, err := Read(k.PID); err == nil && p.Start == k.Start {
				add([]Proc{p})
			}
		}
		return procs, settled, nil
	}
	if t.Root <= 0 && t.Leader.PID <= 0 && len(t.Sessions) == 0 && t.Marker == "" && t.Cgroup == nil && t.Job == nil {
		return nil, true, nil
	}
	all, err := table()
	if err != nil {
		return procs, false, err
	}
	add(t.closure(all, deep, guard, known))
	return procs, settled, nil
}

// held returns the pids that the kernel holds together for us. An error means
// that the cgroup or job is gone, and so are its processes.
func (t *Tree) held() []int {
	var pids []int
	if t.Cgroup != nil {
		pids, _ = t.Cgroup.Procs()
	}
	if t.Job != nil {
		more, _ := t.Job.Procs()
		pids = append(pids, more...)
	}
	return pids
}

// closure returns the processes of all that are members by themselves, and what
// descends from them: a child that cleared its environment and made its own
// session is as much a member as its parent.
func (t *Tree) closure(all []Proc, deep bool, guard map[int]bool, known []Proc) []Proc {
	kids := make(map[int][]int, len(all))
	at := make(map[int]int, len(all))
	for i, p := range all {
		kids[p.PPID] = append(kids[p.PPID], i)
		at[p.PID] = i
	}
	var out []Proc
	seen := make(map[int]bool)
	add := func(i int) {
		if p := all[i]; !seen[p.PID] && !guard[p.PID] {
			seen[p.PID] = true
			out = append(out, p)
		}
	}
	expand := func(parent Proc) {
		for _, i := range kids[parent.PID] {
			// Where the pid of a parent may have been given away again
			// (Windows), a child older than its parent is not his.
			if ppidIsStale && all[i].Start < parent.Start {
				continue
			}
			add(i)
		}
	}

	if i, ok := at[t.Root]; ok && t.Root > 0 {
		expand(all[i])
	}
	if i, ok := at[t.Leader.PID]; ok && t.Root == 0 && t.Leader.PID > 1 && all[i].Start == t.Leader.Start {
		add(i)
		l := all[i]
		for i, p := range all {
			if p.SID == l.PID || p.PGID == l.PID {
				add(i)
			}
		}
	}
	for _, s := range t.Sessions {
		if s.SID > 1 && s.proves(all) {
			for i, p := range all {
				if p.SID == s.SID {
					add(i)
				}
			}
		}
	}
	for _, pid := range t.held() {
		if i, ok := at[pid]; ok {
			add(i)
		}
	}
	if deep && t.Marker != "" {
		for i, p := range all {
			if !seen[p.PID] && !guard[p.PID] && marked(p, t.Marker) {
				add(i)
			}
		}
	}
	next := 0
	breadthFirst := func() {
		for ; next < len(out); next++ { // out grows below our feet
			expand(out[next])
		}
	}
	breadthFirst()
	for _, k := range known {
		if i, ok := at[k.PID]; ok && all[i].Start == k.Start {
			add(i)
		}
	}
	breadthFirst()
	return out
}

func live(procs []Proc) []Proc {
	var out []Proc
	for _, p := range procs {
		if !p.Dead() {
			out = append(out, p)
		}
	}
	return out
}
