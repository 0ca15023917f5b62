package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein/internal/disktest"
)

func TestState(t *testing.T) {
	s := open(t)
	r := create(t, s, "a")
	var v struct {
		ID      string    `json:"id"`
		Started time.Time `json:"started_at"`
		Text    string    `json:"text"`
	}
	st, err := r.ReadState(&v)
	if err != nil || st != Starting || v.ID != "a" || time.Since(v.Started) > patience {
		t.Fatal(st, v, err)
	}
	must(t, r.WriteState(Running, map[string]string{"text": "<a&b>"}))
	if b, _ := os.ReadFile(r.Path(stateFile)); !strings.Contains(string(b), "<a&b>") {
		t.Errorf("%s", b)
	}
	if err := r.WriteState(Starting, map[string]int{}); !errors.Is(err, ErrEnded) {
		t.Error("backwards:", err)
	}
	for _, bad := range []any{1, "x", nil, []int{}, map[string]string{"state": "ended"}, func() {}} {
		if err := r.WriteState(Running, bad); err == nil {
			t.Errorf("%T was taken", bad)
		}
	}
	if err := r.WriteState("walking", map[string]int{}); err == nil {
		t.Error("an unknown state was taken")
	}
	if st, err := r.ReadState(&v); err != nil || st != Running || v.Text != "<a&b>" {
		t.Fatal(st, v, err)
	}

	must(t, r.WriteState(Ended, struct{}{}))
	if b, _ := os.ReadFile(r.Path(stateFile)); !json.Valid(b) {
		t.Errorf("%s", b)
	}
	if err := r.WriteState(Running, map[string]int{}); !errors.Is(err, ErrEnded) {
		t.Error("a run that has ended began again:", err)
	}
	// Larger than the reserve, and once more after the end.
	must(t, r.WriteState(Ended, map[string]string{"text": strings.Repeat("x", 1<<20)}))
	if st, err := r.ReadState(&v); err != nil || st != Ended || len(v.Text) != 1<<20 {
		t.Fatal(st, len(v.Text), err)
	}
	ents, _ := os.ReadDir(r.Dir())
	for _, e := range ents {
		if e.Name() != stateFile && e.Name() != lockFile {
			t.Error("left:", e.Name())
		}
	}
}

func TestStateLargeAtOnce(t *testing.T) {
	r := create(t, open(t), "a")
	must(t, r.WriteState(Ended, map[string]string{"text": strings.Repeat("x", 200_000)}))
	var v struct{ Text string }
	if st, err := r.ReadState(&v); err != nil || st != Ended || len(v.Text) != 200_000 {
		t.Fatal(st, len(v.Text), err)
	}
}

// A reader never sees half a state, whoever writes.
func TestStateAtomic(t *testing.T) {
	r := create(t, open(t), "a")
	other := &Run{id: "a", dir: r.Dir()}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for i := range 200 {
			must(t, r.WriteState(Running, map[string]string{"text": strings.Repeat("x", i*100)}))
		}
		must(t, r.WriteState(Ended, map[string]string{"text": "short"}))
	})
	for {
		if _, err := other.ReadState(nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-stop:
			wg.Wait()
			return
		default:
		}
	}
}

func TestWriteFile(t *testing.T) {
	r := create(t, open(t), "a")
	must(t, r.WriteFile("prompt.md", []byte("one")))
	must(t, r.WriteFile("prompt.md", []byte("two")))
	if b, _ := os.ReadFile(r.Path("prompt.md")); string(b) != "two" {
		t.Errorf("%q", b)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../x", "/etc/x", stateFile, lockFile, journalFile} {
		if err := r.WriteFile(name, nil); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	must(t, os.WriteFile(out, []byte("keep"), 0o600))
	if err := os.Symlink(out, r.Path("linked")); err != nil {
		t.Skip("links cannot be made here:", err)
	}
	must(t, os.Symlink(out, r.Path("linked.tmp")))
	must(t, r.WriteFile("linked", []byte("mine")))
	if b, _ := os.ReadFile(out); string(b) != "keep" {
		t.Errorf("a link was followed: %q", b)
	}

	must(t, os.Remove(r.Path(stateFile)))
	must(t, os.WriteFile(out, []byte(`{"state":"ended"}`), 0o600))
	must(t, os.Symlink(out, r.Path(stateFile)))
	if st, err := r.ReadState(nil); err == nil {
		t.Error("a state was read through a link:", st)
	}
}

// The report can be written when nothing else can, even while somebody else
// takes every block that becomes free.
func TestFullDisk(t *testing.T) {
	disktest.Small(t, 1<<20, func(dir string) {
		s, err := Open(dir)
		must(t, err)
		r := create(t, s, "a")
		must(t, r.WriteState(Running, map[string]int{"n": 1}))
		must(t, r.WriteFile("prompt.md", []byte("kept")))

		ballast, err := os.Create(filepath.Join(dir, "ballast"))
		must(t, err)
		full := make(chan struct{})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			var once sync.Once
			for p := bytes.Repeat([]byte{1}, 4096); ; {
				if _, err := ballast.Write(p); errors.Is(err, syscall.ENOSPC) {
					once.Do(func() { close(full) })
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		<-full
		err = r.WriteFile("prompt.md", make([]byte, 50_000))
		if !errors.Is(err, syscall.ENOSPC) {
			t.Error("the disk is not full:", err)
		}
		if b, _ := os.ReadFile(r.Path("prompt.md")); string(b) != "kept" {
			t.Errorf("a failed write changed the file: %.20q", b)
		}
		if err := r.WriteState(Running, map[string]string{"text": strings.Repeat("x", 50_000)}); !errors.Is(err, syscall.ENOSPC) {
			t.Error("the disk is not full:", err)
		}
		reserve, err := os.Stat(r.Path(reserveFile))
		must(t, err)
		must(t, r.WriteState(Ended, map[string]string{"text": strings.Repeat("x", 50_000)}))
		close(stop)
		wg.Wait()
		// The same blocks from beginning to end. To give them back and to ask
		// for others would succeed too, on most days.
		if st, err := os.Stat(r.Path(stateFile)); err != nil || !os.SameFile(st, reserve) {
			t.Error("the report was not written into the reserve", err)
		}
		var v struct{ Text string }
		if st, err := r.ReadState(&v); err != nil || st != Ended || len(v.Text) != 50_000 {
			t.Error(st, len(v.Text), err)
		}
	})
}

// A killed supervisor is seen at once, although a child of it lives on.
func TestKilledSupervisor(t *testing.T) {
	s := open(t)
	p := start(t, "run", s.Dir, "a")
	if p.err != "" {
		t.Fatal(p.err)
	}
	if !s.Live("a") || !listed(t, s, "a").Live {
		t.Fatal("it is not live")
	}
	r, err := s.Get("a")
	must(t, err)
	if err := r.Hold(); !errors.Is(err, ErrLive) {
		t.Error("Hold:", err)
	}
	if err := r.Claim(); !errors.Is(err, ErrLive) {
		t.Error("Claim:", err)
	}
	if un, _ := s.Unfinished(); len(un) != 0 {
		t.Error("unfinished:", un)
	}
	p.kill(t)
	if s.Live("a") {
		t.Fatal("it is still live: a child has inherited the lock")
	}
	un, err := s.Unfinished()
	if err != nil || len(un) != 1 || un[0].ID != "a" || un[0].State != Running {
		t.Fatal("unfinished:", un, err)
	}

	// Of many reapers one gets it, and here it dies as well.
	var got atomic.Int32
	var wg sync.WaitGroup
	procs := make([]*other, 3)
	for i := range procs {
		wg.Go(func() {
			if procs[i] = start(t, "claim", s.Dir, "a"); procs[i].err == "" {
				got.Add(1)
			} else if !strings.Contains(procs[i].err, ErrLive.Error()) {
				t.Error(procs[i].err)
			}
		})
	}
	wg.Wait()
	if got.Load() != 1 {
		t.Fatalf("%d processes claimed it", got.Load())
	}
	if un, _ := s.Unfinished(); len(un) != 0 {
		t.Error("somebody is at it, and yet it is unfinished")
	}
	for _, p := range procs {
		if p.err == "" {
			p.kill(t)
		}
	}
	must(t, r.Claim())
	must(t, r.WriteState(Ended, map[string]int{}))
	must(t, r.Close())
	again, err := s.Get("a")
	must(t, err)
	if err := again.Claim(); !errors.Is(err, ErrEnded) {
		t.Error("a finished run was claimed:", err)
	}
	if s.Live("a") {
		t.Error("a refused claim holds the run")
	}
}

func TestClaimOnce(t *testing.T) {
	s := open(t)
	create(t, s, "a").Close()
	var got atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			r := s.run("a")
			if err := r.Claim(); err == nil {
				got.Add(1)
				t.Cleanup(func() { r.Close() })
			} else if !errors.Is(err, ErrLive) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got.Load() != 1 {
		t.Errorf("%d claimed it", got.Load())
	}
}

// Neither looking at a run nor starting processes, which have all descriptors
// until they are another program, makes it look held to others.
func TestLookingDisturbsNobody(t *testing.T) {
	s := open(t)
	r := create(t, s, "a")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					os.StartProcess(r.Path("no such program"), []string{"x"}, &os.ProcAttr{})
				}
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.Live("a")
				}
			}
		})
	}
	for range 300 {
		must(t, r.Close())
		if err := r.Hold(); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	wg.Wait()
	must(t, r.Hold()) // held already
}

func TestCreateCleansUp(t *testing.T) {
	// The directory fits, the reserve of 64 KiB does not.
	disktest.Small(t, 32<<10, func(dir string) {
		s, err := Open(dir)
		must(t, err)
		if _, err := s.Create("a"); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("created on a disk without room: %v", err)
		}
		if left, err := os.ReadDir(s.runs()); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

func BenchmarkRun(b *testing.B) {
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := s.Create(NewID(time.Now()))
		if err == nil {
			err = r.WriteState(Running, map[string]int{})
		}
		if err == nil {
			err = r.WriteState(Ended, map[string]int{})
		}
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

func BenchmarkList(b *testing.B) {
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for range 1000 {
		r, err := s.Create(NewID(time.Now()))
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
	for b.Loop() {
		if l, err := s.List(); err != nil || len(l) != 1000 {
			b.Fatal(len(l), err)
		}
	}
}
