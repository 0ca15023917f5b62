package proctree

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Everywhere: a leader and its child, found and ended without a subreaper.
func TestKillLeaderAndChild(t *testing.T) {
	cmd, pids := start(t, 2, "parent", "sleep")
	leader, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	tree := &Tree{Leader: leader}
	members, err := tree.Members()
	if err != nil {
		t.Fatal(err)
	}
	got, want := pidsOf(members), slices.Sorted(slices.Values(pids))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("members (-want +got):\n%s", diff)
	}
	survivors, err := tree.Kill(context.Background())
	if err != nil || len(survivors) > 0 {
		t.Fatalf("Kill = %v, %v", survivors, err)
	}
	for _, m := range members {
		if !over(m) {
			t.Errorf("%+v is alive", m)
		}
	}
	// Kill again: nobody is left, and that is no error.
	if survivors, err := tree.Kill(context.Background()); err != nil || len(survivors) > 0 {
		t.Fatalf("second Kill = %v, %v", survivors, err)
	}
}

func TestSignalComparesStart(t *testing.T) {
	cmd, _ := start(t, 1, "sleep")
	p, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Start++
	if err := Signal(other, syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal to another start time = %v, want os.ErrProcessDone", err)
	}
	if over(p) {
		t.Fatal("the process was ended although its start time differs")
	}
	if err := Signal(p, syscall.SIGKILL); err != nil {
		t.Errorf("Signal = %v", err)
	}
	_ = cmd.Wait()
	if err := Signal(p, syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal after the end = %v, want os.ErrProcessDone", err)
	}
}

func TestSignalRefusesEverybody(t *testing.T) {
	for _, pid := range []int{1, 0, -1, -1000} {
		// Signal 0 does nothing, should it get through.
		if err := Signal(Proc{PID: pid}, 0); err == nil || errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Signal to pid %d = %v, want a refusal", pid, err)
		}
	}
}

func TestReadGone(t *testing.T) {
	cmd, _ := start(t, 1, "sleep")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := Read(cmd.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Read = %v, want os.ErrProcessDone", err)
	}
	if got, err := Descendants(cmd.Process.Pid); err != nil || len(got) > 0 {
		t.Errorf("Descendants = %v, %v, want none", got, err)
	}
}

func TestReadSelf(t *testing.T) {
	p, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if p.PPID != os.Getppid() || p.Start == 0 || p.Dead() || p.Name == "" {
		t.Errorf("Read = %+v", p)
	}
	if now := Ticks(); p.Start > now {
		t.Errorf("started at %d, after now, %d", p.Start, now)
	}
	first, second := BootID(), BootID()
	if runtime.GOOS != "windows" && (first == "" || first != second) {
		t.Errorf("BootID = %q, then %q", first, second)
	}
}

// The caller and what is above it are safe even from a tree that names them.
func TestNeverEndsTheCaller(t *testing.T) {
	self, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	parent, err := Read(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	for _, leader := range []Proc{self, parent} {
		members, err := (&Tree{Leader: leader}).Members()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if m.PID == self.PID || m.PID == parent.PID || m.PID <= 1 {
				t.Errorf("a tree led by %d has member %+v", leader.PID, m)
			}
		}
	}
}

func TestMarkedAs(t *testing.T) {
	tests := []struct {
		value, marker string
		want          bool
	}{
		{"outer", "outer", true},
		{"outer/inner", "outer", true},
		{"outer/inner/more", "outer/inner", true},
		{"outer2", "outer", false},
		{"outer", "outer/inner", false},
		{"inner", "outer", false},
		{"x/outer", "outer", false},
		{"outer@a", "outer", true},
		{"outer@a/inner@b", "outer@a", true},
		{"outer@a", "outer@b", false},
		{"outer@ab", "outer@a", false},
		{"", "outer", false},
		{"", "", false},
		{"/x", "", false},
	}
	for _, tt := range tests {
		if got := markedAs(tt.value, tt.marker); got != tt.want {
			t.Errorf("markedAs(%q, %q) = %v", tt.value, tt.marker, got)
		}
	}
	for env, want := range map[string]bool{
		"A=1\x00REIN_RUN=r\x00B=2\x00":          true,
		"REIN_RUN=r/s":                          true,
		"XREIN_RUN=r\x00":                       false,
		"A=REIN_RUN=r\x00":                      false,
		"REIN_RUN=other\x00REIN_RUN=r\x00":      true,
		"REIN_RUN\x00=r\x00":                    false,
		"":                                      false,
		"REIN_RUNNER=r\x00REIN_RUN=rr\x00\x00=": false,
	} {
		if got := environMarked([]byte(env), "r"); got != want {
			t.Errorf("environMarked(%q) = %v", env, got)
		}
	}
}

// What is a member, on a table made by hand.
func TestClosure(t *testing.T) {
	all := []Proc{
		{PID: 10, PPID: 1, PGID: 10, SID: 10, Start: 5},  // the keeper
		{PID: 20, PPID: 10, PGID: 20, SID: 20, Start: 6}, // the leader
		{PID: 21, PPID: 20, PGID: 20, SID: 20, Start: 7}, // its child
		{PID: 22, PPID: 21, PGID: 22, SID: 22, Start: 8}, // a grandchild with a session
		{PID: 23, PPID: 1, PGID: 20, SID: 20, Start: 9},  // an orphan in the leader's session
		{PID: 24, PPID: 23, PGID: 24, SID: 24, Start: 9}, // the orphan's child, session of its own
		{PID: 30, PPID: 1, PGID: 30, SID: 30, Start: 9},  // a stranger
		{PID: 40, PPID: 1, PGID: 40, SID: 22, Start: 9},  // an orphan in the grandchild's session
		{PID: 50, PPID: 10, PGID: 10, SID: 10, Start: 6}, // the keeper's helper
		{PID: 51, PPID: 50, PGID: 10, SID: 10, Start: 6}, // and its child
	}
	leader := all[1]
	reusedLeader := leader
	reusedLeader.Start = 4
	guest := Proc{PID: 50, PGID: 10, SID: 10, Start: 6} // leads neither session nor group
	tests := []struct {
		name string
		tree Tree
		want []int
	}{
		{"root", Tree{Root: 10}, []int{20, 21, 22, 50, 51}},
		{"root without the helper", Tree{Root: 10, Exclude: map[int]bool{50: true}}, []int{20, 21, 22}},
		{"leader", Tree{Leader: leader}, []int{20, 21, 22, 23, 24}},
		{"leader's number given away", Tree{Leader: reusedLeader}, nil},
		{"leader in somebody else's session", Tree{Leader: guest}, []int{50, 51}},
		{"session led by one who is there", Tree{Sessions: []Session{{SID: 22, Start: 8}}}, []int{22, 40}},
		{"session's number given away", Tree{Sessions: []Session{{SID: 22, Start: 7, Seen: 100}}}, nil},
		{"no root that is there", Tree{Root: 99}, nil},
		{"nothing", Tree{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, pidsOf(tt.tree.closure(all, false, tt.tree.guard(), nil))); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		})
	}
}

// Who was seen as a member stays one when his parents are gone.
func TestClosureKnown(t *testing.T) {
	all := []Proc{
		{PID: 21, PPID: 1, Start: 7},
		{PID: 22, PPID: 21, Start: 8}, // forked since
		{PID: 30, PPID: 1, Start: 9},  // the number of a known one, given away
	}
	known := []Proc{{PID: 21, Start: 7}, {PID: 30, Start: 5}, {PID: 40, Start: 5}}
	tree := &Tree{Leader: Proc{PID: 20, Start: 6}}
	if diff := cmp.Diff([]int{21, 22}, pidsOf(tree.closure(all, false, tree.guard(), known))); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

func TestSessionProves(t *testing.T) {
	s := Session{SID: 70, Start: 100, Seen: 200}
	member := func(pid int, start uint64) Proc { return Proc{PID: pid, SID: 70, Start: start} }
	tests := []struct {
		name  string
		table []Proc
		want  bool
	}{
		{"leader", []Proc{member(70, 100)}, true},
		{"leader given away", []Proc{member(70, 101), member(71, 150)}, false},
		{"leader's number outside of the session", []Proc{{PID: 70, SID: 3, Start: 100}}, false},
		{"born while it was seen", []Proc{member(71, 150)}, true},
		{"one proves the other", []Proc{member(71, 300), member(72, 199)}, true},
		{"born after", []Proc{member(71, 300)}, false},
		{"born in the same tick", []Proc{member(71, 200)}, false},
		{"older than the session", []Proc{member(71, 99)}, false},
		{"empty", nil, false},
	}
	for _, tt := range tests {
		if got := s.proves(tt.table); got != tt.want {
			t.Errorf("%s: proves = %v", tt.name, got)
		}
	}
}

func TestSessions(t *testing.T) {
	leader := Proc{PID: 70, SID: 70, Start: 100}
	in := Proc{PID: 71, SID: 70, Start: 110}
	guest := Proc{PID: 72, SID: 5, Start: 110} // in the user's terminal
	first := Sessions(nil, []Proc{in, leader, guest}, 200)
	if diff := cmp.Diff([]Session{{SID: 70, Start: 100, Seen: 200}}, first); diff != "" {
		t.Errorf("with the leader (-want +got):\n%s", diff)
	}
	second := Sessions(first, []Proc{in, guest}, 300)
	if diff := cmp.Diff([]Session{{SID: 70, Start: 100, Seen: 300}}, second); diff != "" {
		t.Errorf("without the leader (-want +got):\n%s", diff)
	}
	if third := Sessions(second, []Proc{guest}, 400); len(third) > 0 {
		t.Errorf("without members = %v", third)
	}
	if got := Sessions(nil, []Proc{in}, 400); len(got) > 0 {
		t.Errorf("a session whose leader was never a member = %v", got)
	}
}

func TestDead(t *testing.T) {
	for _, tt := range []struct {
		p    Proc
		want bool
	}{
		{Proc{State: 'Z', Threads: 1}, true},
		{Proc{State: 'Z', Threads: 2}, false},
		{Proc{State: 'X'}, true},
		{Proc{State: 'T', Threads: 1}, false},
		{Proc{State: 'D', Threads: 1}, false},
	} {
		if got := tt.p.Dead(); got != tt.want {
			t.Errorf("%c with %d threads: Dead = %v", tt.p.State, tt.p.Threads, got)
		}
	}
}

func pidsOf(procs []Proc) []int {
	var pids []int
	for _, p := range procs {
		pids = append(pids, p.PID)
	}
	slices.Sort(pids)
	return pids
}
