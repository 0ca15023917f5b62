package watch

import (
	"testing"
	"time"
)

// When this process itself was stopped, what the agent wrote meanwhile is still
// on its way when the timers fire.
func TestLateWakeUpIsDoubted(t *testing.T) {
	fresh := func() *state {
		return &state{clocks: Clocks{}.defaults(), running: true, spoke: true, heard: 1}
	}
	woke := time.Hour // Ctrl-Z, and an hour later fg

	s := fresh()
	s.clocks.Total = None
	v, again := s.judge(woke)
	if v != nil || again != woke+settle {
		t.Fatalf("judged at once: %+v, %s", v, again)
	}
	// woken for another reason before that
	if v, _ := s.judge(woke + settle/2); v != nil {
		t.Fatalf("judged too early: %+v", v)
	}
	s.count(woke+settle/2, 2) // there are the bytes
	if v, _ := s.judge(woke + settle); v != nil {
		t.Errorf("a healthy agent is ended: %+v", v)
	}
	if s.doubt != 0 {
		t.Error("the doubt stays")
	}

	s = fresh()
	s.clocks.Total = None
	s.judge(woke)
	if v, _ := s.judge(woke + settle); v == nil || v.Detail != Idle {
		t.Errorf("nothing came, and no verdict: %+v", v)
	}

	// on time, or as late as a loaded machine makes it
	s = fresh()
	if v, _ := s.judge(DefaultIdle + late); v == nil || v.Detail != Idle {
		t.Errorf("doubted without need: %+v", v)
	}
}

// Of all clocks that have run out when a late judge looks, the order decides.
func TestOrder(t *testing.T) {
	s := &state{clocks: Clocks{Startup: 1, Idle: 1, Tool: 1, Total: 1, Stall: 1, Completion: 1}, seen: true}
	want := []string{Startup, Idle, Tool, Total, Stall}
	for _, w := range want {
		s.verdict = nil
		if w == Tool { // only an open call has a tool clock, and while it pauses them idle and stall cannot run out
			s.calls = []*call{{}}
		}
		v, _ := s.judge(time.Second)
		if v == nil || v.Detail != w {
			t.Fatalf("got %+v, want %s", v, w)
		}
		switch w {
		case Startup:
			s.spoke = true
		case Idle:
			s.clocks.Idle = None
		case Tool:
			s.calls = nil
		case Total:
			s.clocks.Total = None
		}
	}
}
