package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func taken(t *testing.T, err error, ids ...string) {
	t.Helper()
	var le *LeaseError
	if !errors.As(err, &le) {
		t.Fatalf("got %v, want a LeaseError", err)
	}
	have := map[string]bool{}
	for _, h := range le.Holders {
		have[h.ID] = true
		if d := time.Since(h.Since); d < 0 || d > patience {
			t.Errorf("%s holds it since %v", h.ID, h.Since)
		}
	}
	for _, id := range ids {
		if !have[id] {
			t.Errorf("%s is not named: %v", id, err)
		}
	}
	if len(have) != len(ids) {
		t.Errorf("named are %v, want %v", le.Holders, ids)
	}
}

func TestLease(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	take := func(id string, shared bool) (*Lease, error) { return s.LeaseDir("local:", dir, id, shared) }

	w, err := take("w", false)
	must(t, err)
	_, err = take("w2", false)
	taken(t, err, "w")
	if !strings.Contains(err.Error(), "run w writes there since") {
		t.Error(err)
	}
	_, err = take("r", true)
	taken(t, err, "w")
	// Another directory, and the same one on another host.
	o, err := s.LeaseDir("local:", t.TempDir(), "w3", false)
	must(t, err)
	must(t, o.Release())
	o, err = s.LeaseDir("ssh://box", dir, "w3", false)
	must(t, err)
	must(t, o.Release())
	must(t, w.Release())
	must(t, w.Release())

	r1, err := take("r1", true)
	must(t, err)
	r2, err := take("r2", true)
	must(t, err)
	_, err = take("w", false)
	taken(t, err, "r1", "r2")
	must(t, r1.Release())
	_, err = take("w", false)
	taken(t, err, "r2")
	must(t, r2.Release())
	w, err = take("w", false)
	must(t, err)
	must(t, w.Release())

	if _, err := take("../x", false); !errors.Is(err, ErrBadID) {
		t.Error(err)
	}
	if _, err := s.LeaseDir("local:", filepath.Join(dir, "none"), "w", false); err == nil {
		t.Error("a directory that does not exist")
	}
}

// The same directory by another name is the same directory.
func TestLeaseNames(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip("links cannot be made here:", err)
	}
	l, err := s.LeaseDir("local:", dir, "a", false)
	must(t, err)
	defer l.Release()
	for _, name := range []string{link, dir + "/", dir + "/../" + filepath.Base(dir)} {
		_, err := s.LeaseDir("local:", name, "b", false)
		taken(t, err, "a")
	}
	l2, err := s.LeaseDir("ssh://box", "/srv/x", "a", false)
	must(t, err)
	defer l2.Release()
	_, err = s.LeaseDir("ssh://box", "/srv/./y/../x/", "b", false)
	taken(t, err, "a")
}

func TestLeaseOfTheDead(t *testing.T) {
	s := open(t)
	w := start(t, "lease", s.Dir, "/srv/x", "w", "exclusive")
	if w.err != "" {
		t.Fatal(w.err)
	}
	_, err := s.LeaseDir("ssh://box", "/srv/x", "me", false)
	taken(t, err, "w")
	w.kill(t)
	r := start(t, "lease", s.Dir, "/srv/x", "r", "shared")
	if r.err != "" {
		t.Fatal("the dead hold it:", r.err)
	}
	_, err = s.LeaseDir("ssh://box", "/srv/x", "me", false)
	taken(t, err, "r") // and not w, whose record is still there
	r.kill(t)
	l, err := s.LeaseDir("ssh://box", "/srv/x", "w", false)
	must(t, err)
	must(t, l.Release())
}

// Of many that try at the same moment at most one writes, the others are told
// who it is, and sweeping lets nobody in beside it.
func TestLeaseRace(t *testing.T) {
	s := open(t)
	var inside, won atomic.Int32
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 6 {
		wg.Go(func() {
			for range 30 {
				l, err := s.LeaseDir("h", "/d", "w"+string(rune('a'+i)), false)
				if err == nil {
					if inside.Add(1) != 1 {
						t.Error("two writers")
					}
					won.Add(1)
					for range 3 {
						if l, err := s.LeaseDir("h", "/d", "intruder", true); err == nil {
							t.Error("a reader beside a writer")
							l.Release()
						}
					}
					inside.Add(-1)
					must(t, l.Release())
					continue
				}
				if le := new(LeaseError); !errors.As(err, &le) {
					t.Error(err)
				}
			}
		})
	}
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.sweepLeases()
			}
		}
	})
	wg.Wait()
	close(stop)
	sweeper.Wait()
	if won.Load() == 0 {
		t.Error("nobody got it")
	}
}
