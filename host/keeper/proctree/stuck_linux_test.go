package proctree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// freezer makes a cgroup of the v1 freezer: a process frozen in it does not
// follow SIGKILL until it is thawed, as one that hangs in a dead NFS mount.
func freezer(t *testing.T) string {
	t.Helper()
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(info)) {
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); strings.HasPrefix(after, "cgroup ") && strings.Contains(after, "freezer") && len(f) > 4 {
			dir := filepath.Join(unescape(f[4]), newMarker())
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Skip("no freezer of our own:", err)
			}
			t.Cleanup(func() {
				poll(t, "the freezer to be empty", func() bool { return os.Remove(dir) == nil })
			})
			return dir
		}
	}
	t.Skip("nothing here makes a process immune to SIGKILL: no cgroup v1 freezer")
	return ""
}

func TestKillNamesTheStuck(t *testing.T) {
	dir := freezer(t)
	write := func(name, s string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0); err != nil {
			t.Fatal(err)
		}
	}
	cmd, pids := start(t, 2, "parent", "sleep")
	leader, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stuck := pids[0]
	if stuck == leader.PID {
		stuck = pids[1]
	}
	write("cgroup.procs", strconv.Itoa(stuck))
	write("freezer.state", "FROZEN")
	defer write("freezer.state", "THAWED")

	tree := &Tree{Leader: leader, Wait: 200 * time.Millisecond}
	// Its parent dies meanwhile: it is named all the same.
	survivors, err := tree.Kill(context.Background())
	if err != nil || len(survivors) != 1 || survivors[0].PID != stuck {
		t.Errorf("Kill = %+v, %v, want the stuck one, %d", survivors, err, stuck)
	}
	if !over(leader) {
		t.Error("the leader is alive")
	}
	// The caller's own bound: it is told that it was too short.
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	p, err := Read(stuck)
	if err != nil {
		t.Fatal(err)
	}
	survivors, err = (&Tree{Leader: p}).Kill(ctx)
	if !errors.Is(err, cause) || len(survivors) != 1 {
		t.Errorf("Kill with an ended context = %+v, %v, want %v", survivors, err, cause)
	}
	write("freezer.state", "THAWED")
	poll(t, "the thawed one to follow its SIGKILL", func() bool { return over(p) })
}

func TestWatchEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var k killer
	if k.watch(ctx, time.Hour) {
		t.Error("watch does not notice that its context has ended")
	}
}
