//go:build real && linux

package ssh

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/host/remote"
	"github.com/rein-run/rein/test/sshd"
)

func TestMain(m *testing.M) {
	hosttest.Main()
	far.Main() // the keeper
	os.Exit(m.Run())
}

// patience bounds what a test waits for on a loaded machine.
const patience = time.Minute

// self makes this test binary the keeper.
func self(string, string) (*remote.Program, error) {
	exe, err := os.Executable()
	return &remote.Program{File: exe, Args: []string{"far-keeper"}}, err
}

func connect(t testing.TB, url string, o Options) *Host {
	t.Helper()
	if o.Program == nil {
		o.Program = self
	}
	h, err := New(url, &o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// cut severs all connections of a host, without a word to either side.
func cut(h *Host) {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	for _, c := range h.pool.clients {
		c.close(nil)
	}
}

func each(t *testing.T, f func(t *testing.T, o sshd.Options)) {
	users := map[string]bool{"self": false}
	if os.Geteuid() == 0 {
		users = map[string]bool{"root": false, "ordinary": true}
	}
	for name, ordinary := range users {
		t.Run(name, func(t *testing.T) { f(t, sshd.Options{Ordinary: ordinary}) })
	}
}

// The whole kit, unchanged, against OpenSSH, as root and as an ordinary user.
func TestKit(t *testing.T) {
	each(t, func(t *testing.T, o sshd.Options) {
		s := sshd.Start(t, &o)
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		prog := s.Program(exe, "ssh-prog")
		profile(t, s)
		held := driver.ByKeeper
		if !o.Ordinary && mayCgroup() {
			held = driver.ByCgroup
		}
		hosttest.Run(t, hosttest.Harness{
			Make:        func(t testing.TB) driver.Host { return connect(t, s.URL(), Options{Config: s.Config}) },
			Prog:        prog,
			Name:        "ssh-prog",
			Dir:         s.Place("work"),
			Containment: held,
			Weaker:      []driver.Containment{driver.ByMarker},
			Cut:         func(_ testing.TB, d driver.Host) { cut(d.(*Host)) },
			NoCrash:     "for the other side, the death of this one is what Cut does",
			NoSpool:     "the spool is not on this machine",
			Patience:    5 * time.Minute, // 1 GiB, encrypted and decrypted on two cores that others use too
		})
	})
}

// profile puts the programs of a test on the PATH of the login shell, and
// nowhere else.
func profile(t testing.TB, s *sshd.Server) {
	if os.Geteuid() != 0 {
		t.Fatal("run this as root: the test needs a home directory of its own")
	}
	text := "echo Welcome to this machine.\nPATH=$PATH:" + s.Dir + "/bin\necho no newline at the end | tr -d '\\n'\n"
	for _, name := range []string{".profile", ".bashrc"} {
		if err := os.WriteFile(s.Home+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func mayCgroup() bool {
	g, err := proctree.NewCgroup("ssh-probe")
	if err != nil {
		return false
	}
	defer g.Close()
	return g.Remove() == nil
}

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
