//go:build real && linux

package ssh

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/test/sshd"
)

// The keeper is put there once, for its owner alone, and found again by the
// next Rein.
func TestKeeperIsPutOnce(t *testing.T) {
	s := sshd.Start(t, nil)
	whoami(t, connect(t, s.URL(), Options{Config: s.Config}))
	all, err := filepath.Glob(s.Home + "/.cache/rein/*")
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	fi, err := os.Lstat(all[0])
	if err != nil || fi.Mode() != 0o700 {
		t.Fatalf("%v, %v", fi, err)
	}
	if dir, err := os.Lstat(filepath.Dir(all[0])); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", dir, err)
	}
	whoami(t, connect(t, s.URL(), Options{Config: s.Config}))
	again, err := os.Lstat(all[0])
	if err != nil || !os.SameFile(fi, again) {
		t.Errorf("it was put there again: %v", err)
	}
}

// A home directory from which nothing may be executed, and a link where the
// folder in /tmp should be.
func TestNoexecHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run this as root: it mounts a file system")
	}
	s := sshd.Start(t, &sshd.Options{Ordinary: true, NoexecHome: true})
	trap := t.TempDir()
	tmp := "/tmp/rein-54321"
	os.Remove(tmp)
	if err := os.Symlink(trap, tmp); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp); os.RemoveAll("/dev/shm/rein-54321") })
	h := connect(t, s.URL(), Options{Config: s.Config})
	place, err := h.Look(background(t), "", nil)
	h.Close()
	if err != nil || !strings.HasPrefix(place.Keeper[0], "/dev/shm/rein-54321/keeper-") {
		t.Fatalf("%+v, %v", place, err)
	}
	if all, _ := os.ReadDir(trap); len(all) > 0 {
		t.Errorf("a link was followed: %v", all)
	}
	os.Remove(tmp)
	os.RemoveAll("/dev/shm/rein-54321")
	h = connect(t, s.URL(), Options{Config: s.Config})
	defer h.Close()
	if place, err = h.Look(background(t), "", nil); err != nil || !strings.HasPrefix(place.Keeper[0], tmp+"/keeper-") {
		t.Fatalf("%+v, %v", place, err)
	}
}

// PATH is the login shell's, whatever else its profile does.
func TestLoginPath(t *testing.T) {
	for name, c := range map[string]struct{ profile, shell, want string }{
		"plain":        {"PATH=/own/bin:$PATH", "/bin/bash", "/own/bin:"},
		"dash":         {"PATH=/own/bin:$PATH\nexport PATH", "/bin/sh", "/own/bin:"},
		"banner":       {"yes hello | head -c 200000; PATH=/own/bin:$PATH; echo $PATH", "/bin/bash", "/own/bin:"},
		"fails":        {"PATH=/own/bin:$PATH\nexit 3", "/bin/bash", ""},
		"without end":  {"yes", "/bin/bash", ""},
		"waits":        {"sleep 3600", "/bin/bash", ""},
		"leaves a job": {"PATH=/own/bin:$PATH; (trap '' HUP TERM; sleep 3601) & sleep 3602 &", "/bin/bash", "/own/bin:"},
		"empty":        {"PATH=", "/bin/bash", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshd.Start(t, &sshd.Options{Profile: c.profile + "\n", Shell: c.shell})
			h := connect(t, s.URL(), Options{Config: s.Config})
			defer h.Close()
			out, err := output(t, h, "/bin/sh", "-c", "echo $PATH")
			if err != nil || !strings.HasPrefix(out, c.want) || !strings.Contains(out, "/usr/bin") {
				t.Errorf("%q, %v", out, err)
			}
			h.Close()
			await(t, "end of what the profile started", func() bool { return len(below(t, s.Home)) == 0 })
		})
	}
}

// below are the processes whose HOME this is.
func below(t testing.TB, home string) (out []string) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains("\x00"+string(b), "\x00HOME="+home+"\x00") {
			out = append(out, f)
		}
	}
	return out
}

// No value of a variable is in an argv there, at any time that can be seen.
func TestEnvironmentIsNotSeen(t *testing.T) {
	s := sshd.Start(t, nil)
	h := connect(t, s.URL(), Options{Config: s.Config})
	defer h.Close()
	out := &lines{}
	p, err := h.Start(background(t), &driver.Spec{
		Argv: []string{"sh", "-c", "echo $TOKEN; exec sleep 3600"}, Env: driver.Env{"TOKEN": "canary-" + s.Port},
	}, out)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the variable", func() bool { return out.text() == "canary-"+s.Port+"\n" })
	if seen := running(t, "canary-"+s.Port); len(seen) > 0 {
		t.Errorf("in the argv of %v", seen)
	}
	if strings.Contains(s.Log(), "canary") {
		t.Error("in the log of the server")
	}
	if err := p.Kill(background(t)); err != nil {
		t.Error(err)
	}
}

// A command without a directory runs in that of the URL.
func TestDirOfURL(t *testing.T) {
	s := sshd.Start(t, nil)
	work := s.Place("work")
	if err := os.Mkdir(s.Home+"/own", 0o755); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{s.URL() + work: work, s.URL() + "/~/own": s.Home + "/own", s.URL(): s.Home, s.URL() + "/": s.Home} {
		h := connect(t, url, Options{Config: s.Config})
		if out, err := output(t, h, "pwd"); err != nil || out != want+"\n" {
			t.Errorf("%s: %q, %v, want %s", url, out, err, want)
		}
		h.Close()
	}
}
