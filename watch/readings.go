package watch

import (
	"fmt"
	"slices"
	"time"

	"github.com/rein-run/rein/agent"
)

// maxCalls bounds what an agent can make us remember. Further calls count as
// activity and have no clock of their own.
const maxCalls = 256

// maxWait bounds what an agent can ask for with one announced wait when there
// is no total clock to bound it: the longest window of a rate limit that any of
// the CLIs has is five hours.
const maxWait = 6 * time.Hour

// call is one open tool call.
type call struct {
	id, name, scope string // scope: the sub-agent that made it, "" for the agent itself
	spawns          bool
	began           time.Duration
	fresh           time.Duration // its clock runs from here
	passed          bool          // a later call of the same scope has ended
}

// Read takes the readings of the run, in their order.
func (w *Watch) Read(r agent.Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.alive, w.spoke = now, true // a reading is made of bytes
	w.work(now, r)
	if w.read(now, r) {
		w.wake()
	}
}

// read says whether a clock may now run out earlier than the loop believes.
func (s *state) read(now time.Duration, r agent.Reading) bool {
	own := r.SubAgent == "" // a sub-agent's turn is not the run's
	switch r.Kind {
	case agent.KindSession: // claude 2.1.332 tells its session anew with every turn
		if own {
			s.reopen(now)
		}
	case agent.KindTurnStarted:
		if own {
			s.reopen(now)
			s.drop(now, func(c *call) bool { return c.scope == "" })
		}
	case agent.KindText, agent.KindThinking:
		if own {
			s.reopen(now)
			s.denied, s.wait = 0, 0
		}
		// The model goes on although this call is open and another one of the
		// same scope was made and answered since: nobody waits for it. codex
		// 0.171.0 never tells the end of a command that it left running in the
		// background, and a dev server must not end the run after --tool.
		s.drop(now, func(c *call) bool { return c.passed && c.scope == r.SubAgent })
	case agent.KindToolStarted:
		if own {
			s.reopen(now)
			s.denied, s.wait = 0, 0
		}
		s.begin(now, r)
	case agent.KindToolFinished:
		s.finish(now, r)
	case agent.KindTasks:
		if n := max(r.Tasks, 0); n != s.tasks {
			s.tasks, s.tools = n, now
			if s.ended {
				s.endAt = now
			}
		}
	case agent.KindRetry:
		if own {
			s.reopen(now)
			s.retry(now, r)
		}
	case agent.KindTurnEnded:
		if own {
			s.drop(now, func(*call) bool { return true })
			s.ended, s.endAt, s.wait = true, now, 0
		}
	default:
		return false
	}
	return true
}

// reopen takes note that a new turn is under way after a terminal event.
func (s *state) reopen(now time.Duration) {
	if s.ended {
		s.ended = false
		s.resume = now
		if s.over != nil {
			s.decide(OverBudget, s.over.Limit, s.over.Text)
		}
	}
}

func (s *state) begin(now time.Duration, r agent.Reading) {
	s.tools, s.seen = now, true
	if r.Tool == nil || len(s.calls) >= maxCalls {
		return
	}
	// Told twice, it is still one call: else an agent that repeats itself
	// would move its own clock.
	if slices.ContainsFunc(s.calls, func(c *call) bool { return c.id == r.Tool.ID && c.scope == r.SubAgent }) {
		return
	}
	s.calls = append(s.calls, &call{
		id: r.Tool.ID, name: r.Tool.Name, scope: r.SubAgent, spawns: r.Tool.Spawns,
		began: now, fresh: now,
	})
}

func (s *state) finish(now time.Duration, r agent.Reading) {
	s.tools, s.seen = now, true
	if r.Tool == nil {
		return
	}
	id := r.Tool.ID
	s.drop(now, func(c *call) bool {
		// with a sub-agent's call all that the sub-agent left open is over
		return c.id == id && c.scope == r.SubAgent || id != "" && c.scope == id
	})
	for _, c := range s.calls {
		if c.scope == r.SubAgent {
			c.passed = true
		}
	}
}

// drop forgets calls.
func (s *state) drop(now time.Duration, gone func(*call) bool) {
	n := len(s.calls)
	s.calls = slices.DeleteFunc(s.calls, gone)
	if len(s.calls) < n {
		s.resume, s.tools = now, now
	}
}

// work refreshes the clock of the call that started a sub-agent when the
// sub-agent shows life: what bounds it are the calls that it makes itself, and
// the total clock. Healthy sub-agents work longer than any one tool.
func (s *state) work(now time.Duration, r agent.Reading) {
	if r.SubAgent == "" {
		return
	}
	known := false
	for _, c := range s.calls {
		if c.id == r.SubAgent {
			c.fresh, known = now, true
		}
	}
	if known {
		return
	}
	for _, c := range s.calls { // CLIs whose sub-agents are not named after the call
		if c.spawns {
			c.fresh = now
		}
	}
}

// retry: the CLI repeats a request by itself. Waiting can help, or cannot.
func (s *state) retry(now time.Duration, r agent.Reading) {
	f := r.Failure
	if f == nil {
		f = &agent.Failure{Class: agent.Other}
	}
	wait := r.After
	if wait <= 0 && f.Until != nil {
		wait = time.Until(*f.Until) // the agent's own wall-clock time: there is no other
	}
	left := maxWait
	if s.clocks.Total != None {
		left = s.clocks.Total - now
	}
	switch f.Class {
	case agent.Auth:
		// The first one may be a token that is being renewed. claude 2.1.332
		// repeats a 401 ten times, over several minutes.
		if s.denied++; s.denied >= 2 {
			s.decide(GaveUp, "auth", "the agent's credentials are refused; log in with the agent itself, then run again")
		}
	case agent.Billing:
		s.decide(GaveUp, "billing", "the account of the agent has no credit")
	case agent.RateLimit:
		if wait > left && s.clocks.Total != None {
			s.decide(GaveUp, "limit", fmt.Sprintf("rate limited: the agent waits %s and --total leaves %s", short(wait.Round(time.Second)), short(max(left, 0).Round(time.Second))))
		}
	}
	if wait > 0 {
		s.wait = max(s.wait, now+min(wait, max(left, 0)))
	}
}
