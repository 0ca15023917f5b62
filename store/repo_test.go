package store

import (
	"reflect"
	"testing"
	"time"
)

// Two runs of one repository know of each other, also when one has just ended,
// and a run that is over before the other began is nobody's concern.
func TestPeersOfARepository(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	join := func(common, id string) *Membership {
		t.Helper()
		m, err := s.JoinRepo("local:", common, Peer{ID: id, Top: "/wt/" + id, Branch: "refs/heads/" + id, Since: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	see := func(self string, since time.Time, want ...string) {
		t.Helper()
		ps, err := s.Peers("local:", "/r/.git", self, since)
		if err != nil || len(ps) != len(want) {
			t.Fatalf("%s sees %+v, %v; want %v", self, ps, err, want)
		}
		for i, p := range ps {
			if p.ID != want[i] || p.Branch != "refs/heads/"+want[i] || p.Top != "/wt/"+want[i] {
				t.Errorf("%s sees %+v, want %s", self, p, want[i])
			}
		}
	}
	see("a", begin)
	a, b := join("/r/.git", "a"), join("/r/.git", "b")
	other := join("/other/.git", "c")
	see("a", begin, "b")
	see("b", begin, "a")
	s.sweepLeases() // what is held stays
	see("b", begin, "a")

	left := &Left{Head: "refs/heads/b", Tips: map[string]string{"refs/heads/b": "1"}, Config: map[string]string{"refs/heads/b": "2"}}
	if err := b.Leave(left); err != nil {
		t.Fatal(err)
	}
	if ps, err := s.Peers("local:", "/r/.git", "a", begin); err != nil || len(ps) != 1 || !reflect.DeepEqual(ps[0].Left, left) {
		t.Errorf("it left %+v, %v", ps, err)
	}
	see("a", begin, "b")                     // it was there meanwhile
	see("a", time.Now().Add(time.Hour))      // it was not
	b = join("/r/.git", "b")                 // an id comes again
	a.lock.Close()                           // as when the process dies
	a.record.Close()                         //
	a.record, a.lock = nil, nil              //
	see("b", time.Now().Add(time.Hour), "a") // nobody knows what it did last
	if err := s.LeaveRepo("local:", "/r/.git", "b", nil); err == nil {
		t.Error("a run that works was said to be over")
	}
	if err := s.LeaveRepo("local:", "/r/.git", "a", nil); err != nil { // the reaper
		t.Fatal(err)
	}
	see("b", time.Now().Add(time.Hour))
	see("b", begin, "a")
	b.Leave(nil)
	other.Leave(nil)
	if err := other.Leave(nil); err != nil {
		t.Error("twice:", err)
	}
	s.sweepLeases()
	see("b", begin)
	(*Membership)(nil).Leave(nil)
}
