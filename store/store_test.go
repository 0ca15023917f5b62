package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	s, err := Open("")
	must(t, err)
	if want, _ := filepath.EvalSymlinks(dir); s.Dir != filepath.Join(want, "rein") {
		t.Error(s.Dir)
	}
	if runtime.GOOS == "windows" {
		return
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, v := range []string{"", "relative/path"} {
		t.Setenv("XDG_STATE_HOME", v)
		s, err := Open("")
		must(t, err)
		if want, _ := filepath.EvalSymlinks(home); s.Dir != filepath.Join(want, ".local/state/rein") {
			t.Errorf("XDG_STATE_HOME=%q: %s", v, s.Dir)
		}
	}
	r := create(t, s, "a")
	must(t, r.WriteFile("prompt.md", []byte("x")))
	filepath.WalkDir(filepath.Join(s.Dir, "runs"), func(path string, d os.DirEntry, _ error) error {
		st, _ := d.Info()
		if st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return nil
	})

	// Open to others, by a wrong umask or a copy: closed again.
	must(t, os.Chmod(filepath.Join(s.Dir, "runs"), 0o777))
	_, err = Open(s.Dir)
	must(t, err)
	if st, _ := os.Stat(filepath.Join(s.Dir, "runs")); st.Mode().Perm() != 0o700 {
		t.Error("mode", st.Mode())
	}
}

func TestCreateOnce(t *testing.T) {
	s := open(t)
	var won, exists atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			r, err := s.Create("same")
			switch {
			case err == nil:
				won.Add(1)
				t.Cleanup(func() { r.Close() })
			case errors.Is(err, ErrExists):
				exists.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || exists.Load() != 15 {
		t.Errorf("%d created it, %d were refused", won.Load(), exists.Load())
	}
	if _, err := s.Create("../x"); !errors.Is(err, ErrBadID) {
		t.Error(err)
	}
}

func TestGet(t *testing.T) {
	s := open(t)
	for _, id := range []string{"alpha", "alphabet", "beta"} {
		create(t, s, id)
	}
	for arg, want := range map[string]string{"alpha": "alpha", "alphab": "alphabet", "b": "beta", "beta": "beta"} {
		if r, err := s.Get(arg); err != nil || r.ID() != want {
			t.Errorf("%q: %v, %v", arg, r, err)
		}
	}
	_, err := s.Get("al")
	if !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "alpha, alphabet") {
		t.Error(err)
	}
	for _, arg := range []string{"", "gamma", "..", "../runs/alpha", "alpha/", ".", "/etc"} {
		if _, err := s.Get(arg); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", arg, err)
		}
	}
}

// A link in the place of a run leads out of the store.
func TestLinkedRun(t *testing.T) {
	s := open(t)
	out := create(t, open(t), "outside")
	must(t, out.WriteState(Ended, map[string]int{}))
	out.Close()
	link := filepath.Join(s.runs(), "inside")
	if err := os.Symlink(out.Dir(), link); err != nil {
		t.Skip("links cannot be made here:", err)
	}
	if _, err := s.Get("inside"); !errors.Is(err, ErrUnsafe) {
		t.Error("Get:", err)
	}
	if _, err := s.Get("insi"); !errors.Is(err, ErrUnsafe) {
		t.Error("Get by its beginning:", err)
	}
	if _, err := s.Create("inside"); !errors.Is(err, ErrExists) {
		t.Error("Create:", err)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || !errors.Is(list[0].Err, ErrUnsafe) {
		t.Errorf("List: %+v, %v", list, err)
	}
	if ids, _, err := s.GC(1, 0, 1); len(ids) > 0 || err != nil {
		t.Error("GC:", ids, err)
	}
	must(t, s.Remove("inside"))
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link is still there")
	}
	if _, err := os.Stat(out.Path(stateFile)); err != nil {
		t.Error("what it led to is gone:", err)
	}

	must(t, os.Rename(s.runs(), s.runs()+".moved"))
	must(t, os.Symlink(s.runs()+".moved", s.runs()))
	if _, err := Open(s.Dir); !errors.Is(err, ErrUnsafe) {
		t.Error("the folder of runs may not be a link:", err)
	}
}

func TestList(t *testing.T) {
	s := open(t)
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, id := range []string{"m", "z", "a"} {
		r := create(t, s, id)
		must(t, r.WriteState(Running, map[string]any{"started_at": base.Add(time.Duration(i) * time.Hour), "x": i}))
	}
	z := listed(t, s, "z").Run
	if err := z.WriteState(Ended, map[string]int{}); !errors.Is(err, ErrNotHeld) {
		t.Error("a run that is not held was written:", err)
	}

	// Garbage of every kind.
	must(t, os.Mkdir(filepath.Join(s.runs(), "empty"), 0o700))
	must(t, os.WriteFile(filepath.Join(s.runs(), "file"), nil, 0o600))
	for name, data := range map[string]string{"torn": `{"state":"runn`, "zeros": string(make([]byte, 100)), "odd": `{"state":"walking"}`, "array": `[]`} {
		must(t, os.Mkdir(filepath.Join(s.runs(), name), 0o700))
		must(t, os.WriteFile(filepath.Join(s.runs(), name, stateFile), []byte(data), 0o600))
	}
	must(t, os.MkdirAll(filepath.Join(s.runs(), "dir", stateFile), 0o700))
	must(t, os.WriteFile(filepath.Join(s.runs(), ".DS_Store"), nil, 0o600))

	list, err := s.List()
	must(t, err)
	var good, bad []string
	for _, e := range list {
		if e.Err != nil {
			bad = append(bad, e.ID)
			if !strings.Contains(e.Err.Error(), e.ID) {
				t.Errorf("the error does not say which: %v", e.Err)
			}
			if e.Unfinished() {
				t.Error("garbage is unfinished:", e.ID)
			}
			continue
		}
		good = append(good, e.ID)
		if !e.Live || e.State != Running || e.Unfinished() {
			t.Errorf("%+v", e)
		}
	}
	if fmt.Sprint(good) != "[a z m]" {
		t.Errorf("the runs are %v, newest first", good)
	}
	if len(bad) != 7 {
		t.Errorf("the rest is %v", bad)
	}
	must(t, s.Remove("torn"))
	must(t, s.Remove("empty"))
	must(t, s.Remove("file"))
}

func listed(t *testing.T, s *Store, id string) Entry {
	t.Helper()
	list, err := s.List()
	must(t, err)
	for _, e := range list {
		if e.ID == id {
			return e
		}
	}
	t.Fatalf("%s is not listed", id)
	return Entry{}
}

func TestRemove(t *testing.T) {
	s := open(t)
	r := create(t, s, "a")
	if err := s.Remove("a"); !errors.Is(err, ErrLive) {
		t.Error("live:", err)
	}
	r.Close()
	if err := s.Remove("a"); !errors.Is(err, ErrUnfinished) {
		t.Error("unfinished:", err)
	}
	if _, err := os.Stat(r.Path(stateFile)); err != nil {
		t.Fatal("a refused Remove took something:", err)
	}
	must(t, r.Hold())
	must(t, r.WriteState(Ended, map[string]int{}))
	r.Close()
	must(t, s.Remove("a"))
	if _, err := os.Stat(r.Dir()); err == nil {
		t.Error("it is still there")
	}
	if err := s.Remove("a"); !errors.Is(err, ErrNotFound) {
		t.Error("twice:", err)
	}
	if err := r.Hold(); !errors.Is(err, ErrNotFound) {
		t.Error("Hold of a removed run:", err)
	}
	if err := s.Remove("../runs"); !errors.Is(err, ErrBadID) {
		t.Error(err)
	}
	if ents, _ := os.ReadDir(s.runs()); len(ents) > 0 {
		t.Error("left:", ents)
	}
}

func TestGC(t *testing.T) {
	s := open(t)
	now := time.Now()
	// Ten ended runs of about 100 KiB, one a day, the newest is r0.
	for i := range 10 {
		r := create(t, s, fmt.Sprint("r", i))
		must(t, r.WriteFile("transcript", make([]byte, 100_000)))
		at := now.AddDate(0, 0, -i)
		must(t, r.WriteState(Ended, map[string]any{"started_at": at.Add(-time.Hour), "ended_at": at}))
		r.Close()
	}
	old := now.AddDate(-1, 0, 0)
	live := create(t, s, "live")
	must(t, live.WriteState(Running, map[string]any{"started_at": old}))
	left := create(t, s, "left")
	must(t, left.WriteState(Running, map[string]any{"started_at": old}))
	left.Close()
	held := create(t, s, "held") // ended, and somebody is still at it
	must(t, held.WriteState(Ended, map[string]any{"started_at": old, "ended_at": old}))
	must(t, os.Mkdir(filepath.Join(s.runs(), "garbage"), 0o700))
	must(t, os.MkdirAll(filepath.Join(s.runs(), goneDir+"x", "y"), 0o700))
	lease, err := s.LeaseDir("local:", t.TempDir(), "x", false)
	must(t, err)
	defer lease.Release()

	gc := func(older time.Duration, keep int, max int64, want ...string) {
		t.Helper()
		ids, freed, err := s.GC(older, keep, max)
		if err != nil || fmt.Sprint(ids) != fmt.Sprint(want) {
			t.Fatalf("removed %v (%v), want %v", ids, err, want)
		}
		if min := int64(len(ids)) * 100_000; freed < min || freed > min*11/10 {
			t.Fatalf("%d bytes freed by %v", freed, ids)
		}
	}
	gc(0, 0, 0)
	gc(8*24*time.Hour-time.Hour, 0, 0, "r9", "r8")
	gc(time.Hour, 7, 0, "r7")
	gc(0, 4, 350_000, "r6", "r5", "r4") // three left of it would do, four are kept
	gc(0, 0, 500_000, "r3")             // the reserves of the unfinished ones count
	gc(time.Nanosecond, 0, 1, "r2", "r1", "r0")
	for _, id := range []string{"live", "left", "held", "garbage"} {
		if _, err := s.Get(id); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.runs(), goneDir+"x")); err == nil {
		t.Error("what a crashed Remove left is still there")
	}
	if ents, _ := os.ReadDir(s.leases()); len(ents) != 1 {
		t.Errorf("%d leases, one is held", len(ents))
	}
	for _, bad := range []func() ([]string, int64, error){
		func() ([]string, int64, error) { return s.GC(-1, 0, 0) },
		func() ([]string, int64, error) { return s.GC(0, -1, 0) },
		func() ([]string, int64, error) { return s.GC(0, 0, -1) },
	} {
		if _, _, err := bad(); err == nil {
			t.Error("a negative limit was taken")
		}
	}
}
