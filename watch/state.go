package watch

import (
	"errors"
	"fmt"
	"time"
)

// Phase says what the run is doing, for a live line.
type Phase string

const (
	Starting  Phase = "starting"  // no byte yet
	Working   Phase = "working"   // the model, as far as can be seen
	InTool    Phase = "tool"      // a tool call is open
	Waiting   Phase = "waiting"   // the agent waits before it repeats a request
	Finishing Phase = "finishing" // a terminal event was seen, the process is still there
	Over      Phase = "over"      // there is a verdict
)

// State is what the clocks say at one moment.
type State struct {
	Phase   Phase
	Elapsed time.Duration // since the spawn
	Bytes   int64
	Clocks  []Left // startup, idle, tool, total, stall, completion; those that are on
	Calls   []Call // open tool calls, oldest first, at most 256
	Tasks   int    // background tasks of the agent's own
}

// Left is one clock.
type Left struct {
	Clock  string
	Limit  time.Duration
	Left   time.Duration // meaningless while Paused
	Paused bool          // it does not run at the moment
}

// Call is one open tool call.
type Call struct {
	ID, Name string
	SubAgent string // "" for the agent itself
	For      time.Duration
}

// State says what the clocks say now.
func (w *Watch) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.count(now, w.bytes.Load())
	s := State{Elapsed: now, Bytes: w.heard, Tasks: w.tasks}
	for _, x := range w.table(now) {
		if x.limit == None {
			continue
		}
		l := Left{Clock: x.name, Limit: x.limit, Paused: x.at == never}
		if !l.Paused {
			l.Left = max(x.at-now, 0)
		}
		s.Clocks = append(s.Clocks, l)
	}
	for _, c := range w.calls {
		s.Calls = append(s.Calls, Call{ID: c.id, Name: c.name, SubAgent: c.scope, For: now - c.began})
	}
	switch {
	case w.verdict != nil:
		s.Phase = Over
	case w.ended:
		s.Phase = Finishing
	case len(w.calls) > 0:
		s.Phase = InTool
	case now < w.wait:
		s.Phase = Waiting
	case !w.spoke:
		s.Phase = Starting
	default:
		s.Phase = Working
	}
	return s
}

// Errors of Extend.
var (
	ErrOver   = errors.New("too late: the run is being ended")
	ErrOff    = errors.New("this clock is off")
	ErrNoSuch = errors.New("no such clock")
)

// Extend gives a clock more time for the rest of the run. An idle clock that is
// as long as the total one (agents that are silent while they work) goes with
// it. Errors: ErrNoSuch, ErrOff, ErrOver, and a *ClockError for a time that is
// not positive.
func (w *Watch) Extend(clock string, by time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &w.state.clocks
	of := map[string]*time.Duration{
		Startup: &c.Startup, Idle: &c.Idle, Tool: &c.Tool, Stall: &c.Stall, Total: &c.Total, Completion: &c.Completion,
	}[clock]
	switch {
	case of == nil:
		return fmt.Errorf("%w: %q; there are startup, idle, tool, stall, total and completion", ErrNoSuch, clock)
	case by <= 0:
		return &ClockError{clock, by, "a clock can only be given more time"}
	case w.verdict != nil:
		return fmt.Errorf("extend %s: %w", clock, ErrOver)
	case *of == None:
		return fmt.Errorf("extend %s: %w", clock, ErrOff)
	case clock == Startup && w.spoke:
		return fmt.Errorf("extend %s: the agent has started: %w", clock, ErrOff)
	}
	if clock == Total && c.Idle != None && c.Idle >= c.Total {
		c.Idle = after(c.Idle, by)
	}
	*of = after(*of, by) // never, on overflow: later than any run
	w.wake()
	return nil
}
