package proctree

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keepConfig says what a keeper of these tests does. The test binary itself
// never becomes a subreaper: other tests' orphans would come to it.
type keepConfig struct {
	NoSubreaper bool     // then the tree is the leader's
	Children    []string // kinds of children of the leader
	Ready       int      // announcements to wait for, the leader's among them
	Marker      string
	Cgroup      string // name of a cgroup to put the leader in
	Helper      bool   // start a child of the keeper's own, to be left alone
	Foreign     bool   // start a child as root, then become nobody
	HidePID     bool   // in a /proc that hides other users' processes
	Cancelled   bool   // give Kill a context that has ended
}

type keepResult struct {
	Ready     []int
	Members   []Proc // before Kill
	Survivors []Proc
	KillErr   string
	Millis    float64 // Kill's
	CPUMillis float64 // of Kill, the keeper's own
	Signal    syscall.Signal
	Left      []Proc // live descendants of the keeper after Kill
	Zombies   int    // dead children left after Kill
	Helper    Proc
	HelperOK  bool
	Foreign   Proc
	CgroupErr string
	Sample    struct {
		RSS   int64
		Procs int
		CPU   float64
	}
}

const nobody = 65534

// keep is the process of a keeper.
func keep(config string) {
	var c keepConfig
	var res keepResult
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(json.Unmarshal([]byte(config), &c))
	if !c.NoSubreaper {
		must(SetSubreaper())
	}
	if c.HidePID {
		must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"))
	}
	r, w, err := os.Pipe()
	must(err)
	exclude := make(map[int]bool)
	begin := func(args ...string) *exec.Cmd {
		cmd := childCommand(w, args...)
		cmd.Env = append(os.Environ(), markerName+"="+c.Marker)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd
	}
	mustRead := func(pid int) Proc {
		p, err := Read(pid)
		must(err)
		return p
	}
	if c.Foreign {
		cmd := begin("sleep")
		must(cmd.Start())
		_, err := readPIDs(r, 1)
		must(err)
		res.Foreign = mustRead(cmd.Process.Pid)
		must(syscall.Setgroups(nil))
		must(syscall.Setgid(nobody))
		must(syscall.Setuid(nobody))
	}
	if c.Helper {
		cmd := begin("sleep")
		must(cmd.Start())
		_, err := readPIDs(r, 1)
		must(err)
		res.Helper = mustRead(cmd.Process.Pid)
		exclude[cmd.Process.Pid] = true
	}

	cmd := begin(append([]string{"parent"}, c.Children...)...)
	tree := &Tree{Root: os.Getpid(), Marker: c.Marker, Exclude: exclude}
	if c.Cgroup != "" {
		tree.Cgroup, err = NewCgroup(c.Cgroup)
		must(err)
		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = tree.Cgroup.FD()
	}
	must(cmd.Start())
	tree.Leader = mustRead(cmd.Process.Pid)
	if c.NoSubreaper {
		tree.Root = 0
	}
	res.Ready, err = readPIDs(r, c.Ready)
	must(err)
	res.Members, err = tree.Members()
	must(err)
	res.Sample.RSS, res.Sample.Procs, res.Sample.CPU, err = tree.Sample()
	must(err)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.Cancelled {
		cancel()
	}
	before := ownCPU()
	begun := time.Now()
	res.Survivors, err = tree.Kill(ctx)
	res.Millis = float64(time.Since(begun)) / float64(time.Millisecond)
	res.CPUMillis = ownCPU() - before
	if err != nil {
		res.KillErr = err.Error()
	}

	all, err := Descendants(os.Getpid())
	must(err)
	res.Left = live(all)
	for _, p := range all {
		if p.Dead() && p.PPID == os.Getpid() && p.PID != cmd.Process.Pid {
			res.Zombies++
		}
	}
	// The leader's exit status is still ours to take.
	_ = cmd.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		res.Signal = ws.Signal()
	}
	if c.Helper {
		res.HelperOK = !over(res.Helper)
		_ = Signal(res.Helper, syscall.SIGKILL)
		_, _ = syscall.Wait4(res.Helper.PID, nil, 0, nil)
	}
	if tree.Cgroup != nil {
		if err := tree.Cgroup.Remove(); err != nil {
			res.CgroupErr = err.Error()
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(res))
}

// ownCPU is the processor time of this process so far, in milliseconds.
func ownCPU() float64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// runKeeper runs a keeper to its end.
func runKeeper(t testing.TB, c keepConfig, attr *syscall.SysProcAttr) keepResult {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self(), childArg, "keeper", string(config))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("keeper %s: %v", config, err)
	}
	var res keepResult
	if err := json.Unmarshal(out, &res); err != nil {
		t.Fatalf("keeper %s said %q: %v", config, out, err)
	}
	return res
}

// asUsers runs f as the present user, and as nobody too when that is root.
func asUsers(t *testing.T, f func(t *testing.T, attr *syscall.SysProcAttr)) {
	t.Run("self", func(t *testing.T) { f(t, nil) })
	if os.Geteuid() == 0 {
		t.Run("nobody", func(t *testing.T) { f(t, asNobody()) })
	}
}

func asNobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

var markers atomic.Int64

// newMarker returns a marker that no other test uses, nor another run of the
// tests.
func newMarker() string {
	return fmt.Sprintf("proctree-test-%d-%d", os.Getpid(), markers.Add(1))
}

// checkAllOver fails the test for everything of the tree that is alive.
func checkAllOver(t *testing.T, c keepConfig, res keepResult) {
	t.Helper()
	if len(res.Survivors) > 0 || res.KillErr != "" {
		t.Errorf("Kill = %+v, %q", res.Survivors, res.KillErr)
	}
	for _, p := range res.Members {
		if !over(p) {
			t.Errorf("alive: %+v", p)
			_ = Signal(p, syscall.SIGKILL)
		}
	}
	// Looked for in another way than Kill's first one: a storm forks members
	// that nobody has listed, but all of them carry the marker.
	marked, err := Marked(c.Marker)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range marked {
		t.Errorf("alive, found by the marker: %+v", p)
		_ = Signal(p, syscall.SIGKILL)
	}
	// And in a third: nobody is in a session that a member led.
	all, err := table()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range live(all) {
		if slices.ContainsFunc(res.Members, func(m Proc) bool { return m.PID == m.SID && m.SID == p.SID }) {
			t.Errorf("alive, found by the session: %+v", p)
			_ = Signal(p, syscall.SIGKILL)
		}
	}
	if res.Signal != syscall.SIGKILL {
		t.Errorf("the leader's exit status says signal %v, want %v", res.Signal, syscall.SIGKILL)
	}
}

func TestKillUnderSubreaper(t *testing.T) {
	tests := []struct {
		name     string
		children []string
	}{
		{"plain", []string{"sleep"}},
		{"setsid", []string{"setsid sleep"}},
		{"double fork", []string{"orphan sleep"}},
		{"double fork and setsid, twice", []string{"orphan setsid orphan setsid sleep"}},
		{"no environment, own session, orphan", []string{"orphan bare sleep"}},
		{"TERM ignored", []string{"deaf"}},
		{"name with parentheses", []string{"named"}},
		{"stopped", []string{"stopped"}},
		{"first thread ended", []string{"leaderless"}},
		{"all together", []string{"sleep", "setsid deaf", "orphan bare deaf", "named", "stopped", "bare leaderless"}},
	}
	asUsers(t, func(t *testing.T, attr *syscall.SysProcAttr) {
		for _, tt := range tests {
			if attr != nil && tt.name != "all together" {
				continue // every kind is among those
			}
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				c := keepConfig{Children: tt.children, Ready: 1 + len(tt.children), Marker: newMarker()}
				res := runKeeper(t, c, attr)
				checkAllOver(t, c, res)
				for _, pid := range res.Ready {
					if !slices.ContainsFunc(res.Members, func(p Proc) bool { return p.PID == pid }) {
						t.Errorf("%d was no member before Kill", pid)
					}
				}
				if len(res.Left) > 0 || res.Zombies > 0 {
					t.Errorf("after Kill: %d zombies and %+v", res.Zombies, res.Left)
				}
				if res.Sample.Procs < len(tt.children)+1 || res.Sample.RSS <= 0 || res.Sample.CPU < 0 {
					t.Errorf("sample = %+v", res.Sample)
				}
			})
		}
	})
}

func TestKillStorms(t *testing.T) {
	tests := []struct {
		name     string
		children []string
	}{
		{"510 processes that fork while they are killed", []string{"bomb"}},
		{"2,000 short children passing through", []string{"pass 2000"}},
		{"3,000 hops, each forks and ends", []string{"hop 3000"}},
	}
	asUsers(t, func(t *testing.T, attr *syscall.SysProcAttr) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				c := keepConfig{Children: tt.children, Ready: 2, Marker: newMarker()}
				res := runKeeper(t, c, attr)
				checkAllOver(t, c, res)
				if len(res.Left) > 0 {
					t.Errorf("after Kill: %+v", res.Left)
				}
			})
		}
	})
}

// Without a subreaper the orphan is found by its marker or its session, and
// what hangs on it by nothing but descent, through it.
func TestKillWithoutSubreaper(t *testing.T) {
	tests := []struct {
		name     string
		children []string
		ready    int
	}{
		{"orphan in the session", []string{"orphan sleep"}, 2},
		{"orphan with the marker", []string{"orphan setsid sleep"}, 2},
		{"unmarked child of a marked orphan", []string{"orphan setsid parent bare+sleep"}, 3},
		{"bomb", []string{"bomb"}, 2},
		// Tied to the leader by nothing but descent: once a parent is dead, who
		// was forked after the look could not be found any more.
		{"bomb without environment in a session of its own", []string{"bare bomb"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := keepConfig{NoSubreaper: true, Children: tt.children, Ready: tt.ready, Marker: newMarker()}
			res := runKeeper(t, c, nil)
			checkAllOver(t, c, res)
			for _, pid := range res.Ready {
				if !slices.ContainsFunc(res.Members, func(p Proc) bool { return p.PID == pid }) {
					t.Errorf("%d was no member before Kill", pid)
				}
			}
		})
	}
}

func TestKillLeavesTheExcluded(t *testing.T) {
	c := keepConfig{Children: []string{"sleep"}, Ready: 2, Helper: true, Marker: newMarker()}
	res := runKeeper(t, c, nil)
	checkAllOver(t, c, res)
	if !res.HelperOK {
		t.Error("the excluded child is dead")
	}
	if slices.ContainsFunc(res.Members, func(p Proc) bool { return p.PID == res.Helper.PID }) {
		t.Error("the excluded child was a member")
	}
}

// Every way out signals, also one whose context is over already.
func TestKillWithEndedContext(t *testing.T) {
	c := keepConfig{Children: []string{"setsid deaf"}, Ready: 2, Cancelled: true, Marker: newMarker()}
	res := runKeeper(t, c, nil)
	if len(res.Ready) != 2 || len(res.Members) != 2 {
		t.Fatalf("ready %v, members %+v", res.Ready, res.Members)
	}
	// Kill may return before they are dead, but they got the signal.
	for _, p := range res.Members {
		poll(t, fmt.Sprintf("%+v to die", p), func() bool { return over(p) })
	}
}

// A keeper that is nobody has a child that is root's, as sudo would give it.
func TestKillNamesWhatItMayNot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of root's")
	}
	for _, hide := range []bool{false, true} {
		t.Run("hidepid="+strconv.FormatBool(hide), func(t *testing.T) {
			c := keepConfig{Children: []string{"sleep", "orphan bare deaf"}, Ready: 3, Foreign: true, HidePID: hide, Marker: newMarker()}
			var attr *syscall.SysProcAttr
			if hide {
				attr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
			}
			res := runKeeper(t, c, attr)
			defer func() { _ = Signal(res.Foreign, syscall.SIGKILL) }()
			if len(res.Survivors) != 1 || res.Survivors[0].PID != res.Foreign.PID || res.KillErr != "" {
				t.Errorf("Kill = %+v, %q, want the survivor %+v", res.Survivors, res.KillErr, res.Foreign)
			}
			if over(res.Foreign) {
				t.Error("root's process is dead: the test proves nothing")
			}
			for _, p := range res.Members {
				if p.PID != res.Foreign.PID && !over(p) {
					t.Errorf("alive: %+v", p)
				}
			}
			if limit := float64(reapWait.Milliseconds()); res.Millis >= limit {
				t.Errorf("Kill waited %v ms for a process that it cannot end", res.Millis)
			}
		})
	}
}

func TestSignalReachesTheStopped(t *testing.T) {
	cmd, _ := start(t, 1, "stopped")
	leader, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	tree := &Tree{Leader: leader}
	poll(t, "the child to stop", func() bool {
		p, err := Read(leader.PID)
		return err == nil && p.State == 'T'
	})
	if n, err := tree.Signal(syscall.SIGTERM); err != nil || n != 1 {
		t.Errorf("Signal = %d, %v", n, err)
	}
	poll(t, "the stopped child to follow SIGTERM", func() bool { return over(leader) })
}

func TestSignalReachesAll(t *testing.T) {
	cmd, pids := start(t, 4, "parent", "sleep", "setsid parent sleep")
	leader, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	tree := &Tree{Leader: leader}
	members, err := tree.Members()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := tree.Signal(syscall.SIGTERM); err != nil || n != len(pids) {
		t.Errorf("Signal = %d, %v, want %d", n, err, len(pids))
	}
	for _, p := range members {
		poll(t, fmt.Sprintf("%+v to follow SIGTERM", p), func() bool { return over(p) })
	}
}

func TestMarked(t *testing.T) {
	marker := newMarker()
	begin := func(value string) int {
		t.Setenv(markerName, value)
		cmd, _ := start(t, 1, "sleep")
		return cmd.Process.Pid
	}
	outer := begin(marker)
	inner := begin(marker + "/inner")
	other := begin(marker + "2")
	bare, _ := start(t, 1, "bare", "sleep")
	leaderless, _ := start(t, 1, "leaderless") // marker2, too
	for m, want := range map[string][]int{
		marker:            {outer, inner},
		marker + "/inner": {inner},
		marker + "2":      {other, leaderless.Process.Pid},
		marker + "/":      nil,
		"":                nil,
	} {
		procs, err := Marked(m)
		if err != nil {
			t.Fatal(err)
		}
		got := pidsOf(procs)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("Marked(%q) = %v, want %v (the unmarked one is %d)", m, got, want, bare.Process.Pid)
		}
	}
}

// The record of a run is all that is left: its leader and keeper are gone.
func TestReapBySession(t *testing.T) {
	cmd, pids := start(t, 2, "setsid", "parent", "sleep")
	leader, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pids, func(pid int) bool { return pid != leader.PID })
	orphan, err := Read(pids[i])
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "the clock to pass the child's start", func() bool { return Ticks() > orphan.Start })
	now := Ticks()
	members, err := (&Tree{Leader: leader}).Members()
	if err != nil {
		t.Fatal(err)
	}
	sessions := Sessions(nil, members, now)
	if want := (Session{SID: leader.PID, Start: leader.Start, Seen: now}); len(sessions) != 1 || sessions[0] != want {
		t.Fatalf("Sessions = %+v, want %+v", sessions, want)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	late := &Tree{Leader: leader, Sessions: []Session{{SID: leader.PID, Start: leader.Start}}}
	if got, err := late.Members(); err != nil || len(got) > 0 {
		t.Errorf("members of a session that was never seen again = %+v, %v", got, err)
	}
	got, err := late.Unproven()
	if err != nil || len(got) != 1 || got[0].PID != orphan.PID {
		t.Errorf("Unproven = %+v, %v, want %+v", got, err, orphan)
	}
	tree := &Tree{Leader: leader, Sessions: sessions}
	if got, err := tree.Unproven(); err != nil || len(got) > 0 {
		t.Errorf("Unproven of a proved session = %+v, %v", got, err)
	}
	survivors, err := tree.Kill(context.Background())
	if err != nil || len(survivors) > 0 || !over(orphan) {
		t.Errorf("Kill = %+v, %v; orphan dead: %v", survivors, err, over(orphan))
	}
}

// Both ways to look see the same, and the same as the kernel tells of us.
func TestWalkAndTableAgree(t *testing.T) {
	cmd, _ := start(t, 6, "parent", "sleep", "parent leaderless", "threaded sleep")
	walked, settled, err := walk(cmd.Process.Pid, nil)
	if err != nil || !settled {
		t.Fatal(err, settled)
	}
	tabled, err := walkTable(cmd.Process.Pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pidsOf(walked), pidsOf(tabled)) || len(walked) != 5 {
		t.Errorf("walk = %v, walkTable = %v", pidsOf(walked), pidsOf(tabled))
	}
}

func TestSignalByPID(t *testing.T) {
	cmd, _ := start(t, 1, "sleep")
	p, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Start--
	if err := signalByPID(other, syscall.SIGKILL); err != os.ErrProcessDone {
		t.Errorf("signalByPID to another start time = %v", err)
	}
	if over(p) {
		t.Fatal("the process was ended although its start time differs")
	}
	if err := signalByPID(p, syscall.SIGKILL); err != nil {
		t.Errorf("signalByPID = %v", err)
	}
	poll(t, "the process to die", func() bool { return over(p) })
}

func TestReapKeeps(t *testing.T) {
	kept, _ := start(t, 1, "sleep")
	other, _ := start(t, 1, "sleep")
	for _, cmd := range []*exec.Cmd{kept, other} {
		p, err := Read(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Kill()
		poll(t, "a zombie", func() bool { return over(p) })
	}
	if n, err := Reap(kept.Process.Pid); n != 1 || err != nil {
		t.Errorf("Reap = %d, %v, want 1", n, err)
	}
	if err := kept.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Wait for the kept one = %v, want its own exit status", err)
	}
	if _, err := Read(other.Process.Pid); err != os.ErrProcessDone {
		t.Errorf("Read of the reaped one = %v", err)
	}
}

func TestNoDescriptorIsLeft(t *testing.T) {
	cmd, _ := start(t, 2, "parent", "sleep")
	leader, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	tree := &Tree{Leader: leader, Marker: newMarker()}
	before := count()
	for range 20 {
		if _, err := tree.Members(); err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Signal(0); err != nil {
			t.Fatal(err)
		}
	}
	// The longest way through Kill: its context is over, and it watches.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = tree.Kill(ctx)
	var v vigil
	_ = v.kill(Proc{PID: os.Getpid(), Start: 1}) // somebody else by now
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// BenchmarkKill500 measures from the first signal to the proof that all 500
// descendants are dead. cpu-ms is what the keeper itself used for it: the rest
// is the kernel's work of taking 500 processes down, and other load.
func BenchmarkKill500(b *testing.B) {
	for _, bb := range []struct {
		name     string
		children []string
	}{
		{"sleep", []string{"exec 250 sleep 120", "setsid exec 247 sleep 120"}},
		{"forked", []string{"fork 250", "setsid fork 247"}}, // of a Go program: each a large address space
	} {
		b.Run(bb.name, func(b *testing.B) {
			var millis, cpu []float64
			for b.Loop() {
				res := runKeeper(b, keepConfig{Children: bb.children, Ready: 3, Marker: newMarker()}, nil)
				if len(res.Members) != 500 || len(res.Survivors) > 0 || res.KillErr != "" || len(res.Left) > 0 {
					b.Fatalf("%d members, %d survivors, %d left, %s", len(res.Members), len(res.Survivors), len(res.Left), res.KillErr)
				}
				millis = append(millis, res.Millis)
				cpu = append(cpu, res.CPUMillis)
			}
			b.ReportMetric(median(millis), "ms/op")
			b.ReportMetric(median(cpu), "cpu-ms/op")
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
