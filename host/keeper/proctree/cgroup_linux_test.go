package proctree

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newCgroup makes a cgroup for a test, or says why there is none to be had.
func newCgroup(t *testing.T, name string) *Cgroup {
	t.Helper()
	c, err := NewCgroup(name)
	if err != nil {
		if os.Geteuid() != 0 || errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrPermission) || noCgroup2() {
			t.Skip("no cgroup can be had here:", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(c.Path()); err == nil {
			_ = c.Kill()
			poll(t, "an empty cgroup", func() bool { pids, _ := c.Procs(); return len(pids) == 0 })
			_ = c.Remove()
		}
	})
	return c
}

func noCgroup2() bool {
	mounts, err := cgroupMounts()
	return err == nil && len(mounts) == 0
}

// startIn starts a child in c.
func startIn(t *testing.T, c *Cgroup, args ...string) (*exec.Cmd, Proc) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := childCommand(w, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: c.FD()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := readPIDs(r, 1); err != nil {
		t.Fatal(err)
	}
	p, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, p
}

func TestCgroup(t *testing.T) {
	c := newCgroup(t, newMarker())
	if _, err := NewCgroup(strings.TrimPrefix(filepath.Base(c.Path()), cgroupPrefix)); !errors.Is(err, os.ErrExist) {
		t.Errorf("NewCgroup of the same name = %v", err)
	}
	first, p := startIn(t, c, "sleep")
	second, q := startIn(t, c, "deaf")
	// An agent may make cgroups of its own, a container engine say.
	sub := filepath.Join(c.Path(), "sub", "sub")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "cgroup.procs"), []byte(strconv.Itoa(q.PID)), 0); err != nil {
		t.Fatal(err)
	}
	pids, err := c.Procs()
	slices.Sort(pids)
	want := []int{p.PID, q.PID}
	slices.Sort(want)
	if err != nil || !slices.Equal(pids, want) {
		t.Errorf("Procs = %v, %v, want %v", pids, err, want)
	}
	if err := c.Remove(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Remove with processes in it = %v, want EBUSY", err)
	}

	// Another process opens it by its path: reap.
	again, err := OpenCgroup(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = first.Process.Wait()
	_, _ = second.Process.Wait()
	if !over(p) || !over(q) {
		t.Error("alive after Kill")
	}
	if err := again.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}
	// The other handle is on something that is gone: no error, nothing done.
	if err := c.Kill(); err != nil {
		t.Errorf("Kill of what is gone = %v", err)
	}
	if pids, err := c.Procs(); err != nil || len(pids) > 0 {
		t.Errorf("Procs of what is gone = %v, %v", pids, err)
	}
	if err := c.Remove(); err != nil {
		t.Errorf("Remove of what is gone = %v", err)
	}
	if _, err := OpenCgroup(again.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenCgroup of what is gone = %v", err)
	}
}

// In the cgroup and nowhere else: not a descendant, no marker, own session.
func TestTreeEndsTheCgroup(t *testing.T) {
	c := newCgroup(t, newMarker())
	cmd, p := startIn(t, c, "deaf")
	tree := &Tree{Cgroup: c}
	members, err := tree.Members()
	if err != nil || len(members) != 1 || members[0].PID != p.PID {
		t.Errorf("Members = %+v, %v", members, err)
	}
	if survivors, err := tree.Kill(context.Background()); err != nil || len(survivors) > 0 {
		t.Errorf("Kill = %+v, %v", survivors, err)
	}
	if !over(p) {
		t.Error("alive after Kill")
	}
	_ = cmd.Wait()
}

// Who must not be touched stays alive even inside of the cgroup.
func TestCgroupKillSparesTheExcluded(t *testing.T) {
	c := newCgroup(t, newMarker())
	_, spared := startIn(t, c, "sleep")
	_, p := startIn(t, c, "sleep")
	tree := &Tree{Cgroup: c, Exclude: map[int]bool{spared.PID: true}}
	if survivors, err := tree.Kill(context.Background()); err != nil || len(survivors) > 0 {
		t.Errorf("Kill = %+v, %v", survivors, err)
	}
	if over(spared) || !over(p) {
		t.Errorf("excluded dead: %v, member dead: %v", over(spared), over(p))
	}
}

func TestKeeperWithCgroup(t *testing.T) {
	newCgroup(t, newMarker()) // or skip
	c := keepConfig{Children: []string{"orphan bare deaf", "bomb"}, Ready: 3, Cgroup: newMarker(), Marker: newMarker()}
	res := runKeeper(t, c, nil)
	checkAllOver(t, c, res)
	if res.CgroupErr != "" {
		t.Error(res.CgroupErr)
	}
}

// A user's own cgroup, as systemd delegates one, is found and used without
// being root.
func TestDelegatedCgroup(t *testing.T) {
	own := newCgroup(t, newMarker())
	if os.Geteuid() != 0 {
		t.Skip("only root can delegate a cgroup to nobody")
	}
	for _, f := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		if err := os.Chown(filepath.Join(own.Path(), f), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	attr := asNobody()
	attr.UseCgroupFD, attr.CgroupFD = true, own.FD()
	c := keepConfig{Children: []string{"orphan bare deaf", "sleep"}, Ready: 3, Cgroup: newMarker(), Marker: newMarker()}
	res := runKeeper(t, c, attr)
	checkAllOver(t, c, res)
	if res.CgroupErr != "" {
		t.Error(res.CgroupErr)
	}
	if left, _ := filepath.Glob(filepath.Join(own.Path(), cgroupPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOpenCgroupRefuses(t *testing.T) {
	c := newCgroup(t, newMarker())
	defer c.Close()
	parent := filepath.Dir(c.Path())
	dir := t.TempDir()
	fake := filepath.Join(dir, "rein-x")
	if err := os.Mkdir(fake, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "rein-link")
	if err := os.Symlink(c.Path(), link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{
		"", ".", "/", "rein-x", parent, filepath.Join(parent, "rein-"),
		fake, link,
		c.Path() + "/", c.Path() + "/..", c.Path() + "/../" + filepath.Base(c.Path()),
		filepath.Join(c.Path(), "cgroup.procs"),
	} {
		if got, err := OpenCgroup(p); err == nil {
			got.Close()
			t.Errorf("OpenCgroup(%q) is not refused", p)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a b", ".hidden", "x\x00", strings.Repeat("x", 300)} {
		if got, err := NewCgroup(name); err == nil {
			_ = got.Remove()
			t.Errorf("NewCgroup(%q) is not refused", name)
		}
	}
}

func TestCgroupPaths(t *testing.T) {
	const info = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw
31 30 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
40 30 0:37 / /sys/fs/cgroup/unified rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw
41 30 0:37 /docker/ab /mnt/with\040space\134 rw - cgroup2 none rw
42 30 0:38 / /x - y rw - ext4 none rw
bad line - cgroup2 x
`
	mounts := parseMounts(info)
	want := []cgroupMount{{"/", "/sys/fs/cgroup/unified"}, {"/docker/ab", `/mnt/with space\`}}
	if diff := cmp.Diff(want, mounts, cmp.AllowUnexported(cgroupMount{})); diff != "" {
		t.Fatalf("mounts (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		mount int
		own   string
		want  string
	}{
		{0, "/", "/sys/fs/cgroup/unified"},
		{0, "/user.slice/a", "/sys/fs/cgroup/unified/user.slice/a"},
		{1, "/docker/ab/c", `/mnt/with space\/c`},
		{1, "/docker/ab", `/mnt/with space\`},
		{1, "/docker/abc", ""},
		{1, "/", ""},
		{0, "/../other", ""}, // outside of the cgroup namespace
	} {
		if got, ok := mounts[tt.mount].dir(tt.own); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%v.dir(%q) = %q, %v, want %q", mounts[tt.mount], tt.own, got, ok, tt.want)
		}
	}
	for file, want := range map[string]string{
		"9:name=systemd:/\n0::/a/b\n": "/a/b",
		"0::/\n":                      "/",
		"4:memory:/x\n":               "",
		"":                            "",
	} {
		if got, ok := unifiedPath(file); got != want || ok != (want != "") {
			t.Errorf("unifiedPath(%q) = %q, %v", file, got, ok)
		}
	}
}
