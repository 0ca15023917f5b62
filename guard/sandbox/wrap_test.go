package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/guard/sandbox"
)

func options() sandbox.Options {
	return sandbox.Options{
		Dir: "/home/u/w", Home: "/home/u", UID: 1000, Blank: "/home/u/s/runs/1/blank",
		Write: []string{"/home/u/.cli"}, Fixed: []string{"/home/u/.cli/settings.json"},
		Hide: []string{"/home/u/s"}, Reach: []string{"/home/u/s/runs/1/ask", "/tmp/bin"},
		Exists: func(string) bool { return true },
	}
}

func wrap(t *testing.T, o sandbox.Options) []string {
	t.Helper()
	argv, err := sandbox.Wrap(o, []string{"agent", "-p"})
	if err != nil {
		t.Fatal(err)
	}
	return argv
}

// at is where words stand in argv one after the other; -1 when they do not.
func at(argv []string, words ...string) int {
	for i := range len(argv) - len(words) + 1 {
		if slices.Equal(argv[i:i+len(words)], words) {
			return i
		}
	}
	return -1
}

// A later mount lies over an earlier one: the order is the boundary.
func TestOrderOfMounts(t *testing.T) {
	argv := wrap(t, options())
	last := -1
	for _, words := range [][]string{
		{"--ro-bind", "/", "/"},
		{"--tmpfs", "/tmp"},
		{"--ro-bind", "/tmp/bin", "/tmp/bin"},
		{"--bind-try", "/home/u/.cli", "/home/u/.cli"},
		{"--bind", "/home/u/w", "/home/u/w"},
		{"--ro-bind", "/home/u/.cli/settings.json", "/home/u/.cli/settings.json"},
		{"--tmpfs", "/home/u/s"},
		{"--ro-bind", "/home/u/s/runs/1/ask", "/home/u/s/runs/1/ask"},
		{"--remount-ro", "/home/u/s"},
		{"--", "agent", "-p"},
	} {
		i := at(argv, words...)
		if i <= last {
			t.Errorf("%q stands at %d, and what comes before it at %d\n%q", words, i, last, argv)
		}
		last = i
	}
	for _, words := range [][]string{{"--unshare-net"}, {"--disable-userns"}, {"--die-with-parent"}} {
		if at(argv, words...) < 0 {
			t.Errorf("no %s", words)
		}
	}
	o := options()
	o.Network, o.UID, o.ReadOnly = true, 0, true
	argv = wrap(t, o)
	if at(argv, "--unshare-net") >= 0 || at(argv, "--cap-drop", "ALL") < 0 || at(argv, "--ro-bind", o.Dir, o.Dir) < 0 || at(argv, "--bind", o.Dir, o.Dir) >= 0 {
		t.Errorf("%q", argv)
	}
}

func TestRefusedDirectories(t *testing.T) {
	for _, dir := range []string{"/", "/proc/self", "/dev/shm", "/tmp", "/home/u", "/home", "/home/u/s/runs/2", "w", "/home/u/w/../../.."} {
		o := options()
		o.Dir = dir
		if _, err := sandbox.Wrap(o, []string{"agent"}); !errors.Is(err, sandbox.ErrDir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestRepository(t *testing.T) {
	o := options()
	git := "/home/u/r/.git"
	o.Git = &sandbox.Git{CommonDir: git, GitDir: git + "/worktrees/w", Top: "/home/u/w"}
	argv := wrap(t, o)
	if i := at(argv, "--ro-bind", git, git); i < 0 || at(argv, "--bind", git+"/objects", git+"/objects") < i || at(argv, "--bind", git, git) >= 0 ||
		at(argv, "--ro-bind", "/home/u/w/.git", "/home/u/w/.git") < i || at(argv, "--bind", git+"/refs/heads", git+"/refs/heads") >= 0 {
		t.Errorf("linked: %q", argv)
	}
	o.Branch = "refs/heads/team/side"
	if argv = wrap(t, o); at(argv, "--bind", git+"/refs/heads/team", git+"/refs/heads/team") < 0 || at(argv, "--bind", git+"/refs/heads", git+"/refs/heads") >= 0 {
		t.Errorf("with commits: %q", argv)
	}
	o.Branch, o.Git.GitDir, o.Dir = "", git, "/home/u/r"
	argv = wrap(t, o)
	rw := at(argv, "--bind", git, git)
	for _, name := range []string{"refs", "packed-refs", "HEAD", "config", "hooks", "logs", "worktrees", "modules", "commondir", "reftable"} {
		if p := git + "/" + name; at(argv, "--ro-bind", p, p) < rw {
			t.Errorf("main: %s", name)
		}
	}
	o.Exists = func(string) bool { return false }
	if argv = wrap(t, o); at(argv, "--ro-bind", o.Blank, git+"/hooks") < 0 || at(argv, "--ro-bind", o.Blank+"/file", git+"/packed-refs") < 0 {
		t.Errorf("what is missing: %q", argv)
	}
}

func TestStubs(t *testing.T) {
	dir := t.TempDir()
	o := sandbox.Options{Git: &sandbox.Git{CommonDir: dir, GitDir: dir}, Exists: func(p string) bool { _, err := os.Lstat(p); return err == nil }}
	common, ok := sandbox.CommonStub(o)
	if !ok || !strings.HasPrefix(common.Path, dir) {
		t.Fatalf("%+v %v", common, ok)
	}
	all := []sandbox.Stub{common, {Path: filepath.Join(dir, "settings.json")}, {Path: filepath.Join(dir, "plugins"), Dir: true}}
	for range 2 { // a second run finds them
		for _, s := range all {
			if err := s.Place(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, ok := sandbox.CommonStub(o); ok {
		t.Error("twice")
	}
	if b, _ := os.ReadFile(all[1].Path); string(b) != "{}\n" {
		t.Errorf("no JSON: %q", b)
	}
	sandbox.Remove(all)
	for i, s := range all {
		if o.Exists(s.Path) != (i > 0) {
			t.Errorf("%s", s.Path)
		}
	}
	// Of what somebody else wrote there, nothing is removed.
	if err := os.WriteFile(common.Path, []byte("/elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if sandbox.Remove(all); !o.Exists(common.Path) {
		t.Error("somebody else's was removed")
	}
}
