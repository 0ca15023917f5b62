package watch

import (
	"fmt"
	"math"
	"time"
)

// state is what the verdict is made of. Its times are times since the spawn.
// It reads no clock and starts nothing: given the same calls it says the same.
type state struct {
	clocks  Clocks
	limits  Limits
	running bool
	verdict *Verdict // the first one stands

	heard int64         // bytes that were taken notice of
	deaf  time.Duration // no listening before this
	alive time.Duration // last byte or reading
	spoke bool          // there was a byte or a reading
	doubt time.Duration // a late wake-up is believed from here; 0: none was seen

	calls  []*call
	resume time.Duration // end of the last pause by tool calls
	tools  time.Duration // last beginning or end of a tool call
	seen   bool          // a tool call was ever seen
	wait   time.Duration // end of the wait that the agent announced
	tree   look

	ended  bool          // a terminal event was seen and no new turn since
	endAt  time.Duration // the completion clock runs from here
	tasks  int           // open background tasks of the agent's own
	denied int           // authentication retries since the model last answered
	over   *Excess       // a spending budget that was found exceeded after the result
}

const (
	never = time.Duration(math.MaxInt64)
	// late is how late a wake-up may be before it is doubted, and settle what
	// is waited then. When this process was stopped (Ctrl-Z, a frozen virtual
	// machine), output and readings of the whole time are still on their way
	// to us when the timer fires: judging at once would end a healthy agent.
	late   = 2 * time.Second
	settle = time.Second
)

// clock is one clock at one moment.
type clock struct {
	name   string
	limit  time.Duration // None: off
	at     time.Duration // when it runs out; never: off, over or paused
	paused bool
	call   *call // tool: the oldest open call
}

// The places of the clocks in what table returns: the order of precedence.
const (
	iStartup = iota
	iIdle
	iTool
	iTotal
	iStall
	iCompletion
)

// table says when each clock runs out, in the order in which they win when
// several have.
func (s *state) table(now time.Duration) [6]clock {
	c := s.clocks
	pause := s.pause()
	paused := now < pause
	t := [6]clock{
		{name: Startup, limit: c.Startup, at: never},
		{name: Idle, limit: c.Idle, at: never, paused: paused},
		{name: Tool, limit: c.Tool, at: never},
		{name: Total, limit: c.Total, at: after(0, c.Total)},
		{name: Stall, limit: c.Stall, at: never, paused: paused || s.ended},
		{name: Completion, limit: c.Completion, at: never},
	}
	if !s.spoke {
		t[iStartup].at = after(0, c.Startup)
	}
	if !paused {
		t[iIdle].at = after(max(s.alive, s.resume, s.wait, pause), c.Idle)
	}
	if !t[iStall].paused {
		t[iStall].at = after(max(s.tools, s.tree.changed, s.resume, s.wait, pause), c.Stall)
	}
	for _, x := range s.calls {
		if at := after(x.fresh, c.Tool); at < t[iTool].at {
			t[iTool].at, t[iTool].call = at, x
		}
	}
	if s.ended {
		t[iCompletion].at = after(s.endAt, c.Completion)
		if s.tasks > 0 && c.Completion != None {
			t[iCompletion].limit = max(c.Idle, c.Completion)
			t[iCompletion].at = after(max(s.endAt, s.alive), t[iCompletion].limit)
			if c.Idle == None {
				t[iCompletion].limit, t[iCompletion].at = None, never
			}
		}
	}
	return t
}

// after is t+d, and never when the clock is off.
func after(t, d time.Duration) time.Duration {
	if d <= 0 || t > never-d {
		return never
	}
	return t + d
}

// pause is the moment until which open calls hold idle and stall back, 0 when
// none does.
func (s *state) pause() time.Duration {
	bound := s.clocks.Tool
	if bound == None {
		bound = s.clocks.Total
	}
	if bound == None {
		bound = DefaultTotal
	}
	var until time.Duration
	for _, x := range s.calls {
		until = max(until, after(x.fresh, bound))
	}
	return until
}

// judge returns the verdict, or when to ask again at the latest.
func (s *state) judge(now time.Duration) (*Verdict, time.Duration) {
	if s.verdict != nil {
		return s.verdict, 0
	}
	t := s.table(now)
	next := never
	// A result that is there beats every limit; its own clock is asked first,
	// so that the name of another one always means a limit after the result.
	order := [...]int{iCompletion, iStartup, iIdle, iTool, iTotal, iStall}
	for _, i := range order {
		x := t[i]
		if x.at > now {
			next = min(next, x.at)
			continue
		}
		if i == iStall {
			ready, again := s.tree.proof(now, x.at, x.limit, s.seen)
			if !ready {
				next = min(next, again)
				continue
			}
		} else if now-x.at > late {
			if s.doubt == 0 {
				s.doubt = now + settle
			}
			if now < s.doubt {
				return nil, s.doubt
			}
		}
		s.decide(TimedOut, x.name, expired(x, now))
		return s.verdict, 0
	}
	s.doubt = 0
	if x := t[iStall]; x.at > now && x.at != never {
		next = min(next, s.tree.plan(now, x.limit))
	}
	if p := s.pause(); now < p {
		next = min(next, p)
	}
	return nil, next
}

// decide makes the verdict if there is none yet.
func (s *state) decide(k Kind, detail, text string) {
	if s.verdict != nil {
		return
	}
	if s.ended {
		k = Completed
		if detail == Completion {
			text = "the agent gave its result and did not exit for " + text
		} else {
			text = "after the result: " + text
		}
	}
	s.verdict = &Verdict{Kind: k, Detail: detail, Text: text}
}

// count takes notice of the number of bytes so far and says whether there were
// new ones.
func (s *state) count(now time.Duration, n int64) bool {
	if s.limits.Output > 0 && n > s.limits.Output {
		s.decide(OverBudget, "output", fmt.Sprintf("the agent wrote more than %d bytes: raise --max-output if that was right", s.limits.Output))
	}
	if n == s.heard {
		return false
	}
	s.heard, s.alive, s.spoke = n, now, true
	return true
}

func expired(x clock, now time.Duration) string {
	d := short(x.limit)
	switch x.name {
	case Startup:
		return fmt.Sprintf("not one byte within %s of the start (--startup)", d)
	case Idle:
		return fmt.Sprintf("no output for %s (--idle)", d)
	case Tool:
		name := x.call.name
		if name == "" {
			name = "a tool"
		}
		return fmt.Sprintf("%s ran for %s (--tool)", clip(name), d)
	case Total:
		return fmt.Sprintf("not finished within %s (--total)", d)
	case Stall:
		return fmt.Sprintf("no tool call and no change of the tree for %s (--stall)", d)
	}
	return d + " (--completion)"
}

// clip bounds what the agent says in our words.
func clip(s string) string {
	const most = 60
	r := []rune(s)
	if len(r) > most {
		r = append(r[:most-1], '…')
	}
	for i, c := range r {
		if c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0) {
			r[i] = '?' // no control sequence reaches a terminal through us
		}
	}
	return string(r)
}

func overMemory(is, limit int64) string {
	return fmt.Sprintf("the agent's processes use %d MiB of memory, more than %d MiB (--max-memory)", is>>20, limit>>20)
}

func overProcs(is, limit int) string {
	return fmt.Sprintf("the agent has %d processes, more than %d (--max-procs)", is, limit)
}
