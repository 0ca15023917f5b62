package store

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNewID(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z][a-z0-9]{5,25}$`)
	now := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	last := ""
	for now.Year() < 3000 {
		id := NewID(now)
		if !shape.MatchString(id) || ValidID(id) != nil {
			t.Fatalf("%q (%v)", id, ValidID(id))
		}
		if id <= last {
			t.Fatalf("%q of %v does not sort behind %q", id, now, last)
		}
		last = id
		now = now.AddDate(0, 1, 3).Add(time.Millisecond)
	}
	if id := NewID(time.Time{}); ValidID(id) != nil {
		t.Error("the zero time:", id)
	}
}

// No two alike: in one millisecond, in many goroutines and processes.
func TestNewIDUnique(t *testing.T) {
	now := time.Now()
	seen := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5000 {
				id := NewID(now)
				mu.Lock()
				if seen[id] {
					t.Error("twice:", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()

	s := open(t)
	var procs [3]*other
	for i := range procs {
		wg.Go(func() { procs[i] = start(t, "create", s.Dir) })
	}
	wg.Wait()
	n := 0
	for _, p := range procs {
		n += len(p.said)
		if p.err != "" {
			t.Error(p.err)
		}
	}
	if list, err := s.List(); err != nil || n != 150 || len(list) != n {
		t.Errorf("%d created, %d listed, %v", n, len(list), err)
	}
}

func TestValidID(t *testing.T) {
	for _, id := range []string{"a", "A", "7", "issue-12_v1.2", "0a", strings.Repeat("x", 64), "a-b", "console", "com", "nightly.locked"} {
		if err := ValidID(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{
		"", "-a", "_a", ".a", "a.", "a-", "..", ".", "a..b", "a/b", `a\b`, "a b", "a\x00", "a\n", "ä", "a:b", "a*",
		strings.Repeat("x", 65), "nul", "CON", "con.txt", "com1", "LPT9.x", "x.lock", "x.LOCK", "../../etc/passwd", "%2e",
		strings.Repeat("/", 10000),
	} {
		if err := ValidID(id); !errors.Is(err, ErrBadID) {
			t.Errorf("%.80q: %v", id, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("the error has %d characters", len(err.Error()))
		}
	}
}

func FuzzValidID(f *testing.F) {
	f.Add("a..b")
	f.Fuzz(func(t *testing.T, id string) {
		if ValidID(id) == nil && !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`).MatchString(id) {
			t.Errorf("%q", id)
		}
	})
}
