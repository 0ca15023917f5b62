package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func pending(t *testing.T, j *Journal) string {
	t.Helper()
	es, err := j.Pending()
	must(t, err)
	var parts []string
	for _, e := range es {
		parts = append(parts, fmt.Sprintf("%d:%s%s", e.N, e.Undo, e.Args))
	}
	return strings.Join(parts, " ")
}

func TestJournal(t *testing.T) {
	s := open(t)
	r := create(t, s, "a")
	j, err := r.Journal()
	must(t, err)
	if have := pending(t, j); have != "" {
		t.Error(have)
	}
	for i, kind := range []string{"remove", "restore", "worktree"} {
		if n, err := j.Add(kind, map[string]int{"i": i}); err != nil || n != i+1 {
			t.Fatal(n, err)
		}
	}
	must(t, j.Done(2))
	const want = `3:worktree{"i":2} 1:remove{"i":0}`
	if have := pending(t, j); have != want {
		t.Errorf("%s, want %s", have, want)
	}
	if _, err := j.Add("", nil); err == nil {
		t.Error("a side effect that cannot be undone")
	}
	if _, err := j.Add("x", func() {}); err == nil {
		t.Error("args that cannot be written")
	}
	must(t, r.Close())

	// Another process, after a crash in the middle of a line.
	f, err := os.OpenFile(r.Path(journalFile), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	f.WriteString(`{"n":4,"undo":"never made","args":{"i`)
	f.Close()
	if _, err := r.Journal(); !errors.Is(err, ErrNotHeld) {
		t.Error("journal of a run that is not held:", err)
	}
	must(t, r.Claim())
	j, err = r.Journal()
	must(t, err)
	if have := pending(t, j); have != want {
		t.Errorf("after a crash: %s, want %s", have, want)
	}
	n, err := j.Add("later", nil)
	must(t, err)
	if n != 4 || pending(t, j) != `4:laternull `+want {
		t.Errorf("%d, %s", n, pending(t, j))
	}
	for _, n := range []int{4, 3, 1} {
		must(t, j.Done(n))
	}
	if have := pending(t, j); have != "" {
		t.Error(have)
	}
}

// Whatever half of the file is left, what is whole in it counts.
func TestJournalAnyPrefix(t *testing.T) {
	r := create(t, open(t), "a")
	j, err := r.Journal()
	must(t, err)
	for range 3 {
		_, err := j.Add("k", "v")
		must(t, err)
	}
	must(t, j.Done(1))
	must(t, r.Close())
	whole, _ := os.ReadFile(r.Path(journalFile))
	for n := range len(whole) + 1 {
		must(t, os.WriteFile(r.Path(journalFile), whole[:n], 0o600))
		// A line is whole when only its newline is missing.
		lines := strings.Count(string(whole[:min(n+1, len(whole))]), "\n")
		want := lines
		if lines == 4 {
			want = 2
		}
		must(t, r.Hold())
		j, err := r.Journal()
		must(t, err)
		if es, err := j.Pending(); err != nil || len(es) != want {
			t.Fatalf("%d bytes: %v, %v", n, es, err)
		}
		num, err := j.Add("next", nil)
		must(t, err)
		if es, err := j.Pending(); err != nil || len(es) != want+1 || es[0].N != num {
			t.Fatalf("%d bytes and one more: %v, %v", n, es, err)
		}
		must(t, r.Close())
	}
}
