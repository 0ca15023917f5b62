// Package watch keeps the clocks and the budgets of one run: it is told what
// the agent writes, does and uses, and says when the run must be ended and why.
//
// It ends nothing itself. It knows no process, no host and no repository, so it
// can be used alone.
package watch

import (
	"errors"
	"fmt"
	"time"

	"github.com/rein-run/rein/agent"
)

// None switches a clock off. It is a value of its own because zero means "the
// default" everywhere and must never mean "now".
const None time.Duration = -1

// The defaults of the clocks.
const (
	DefaultStartup    = 60 * time.Second
	DefaultIdle       = 5 * time.Minute
	DefaultTool       = 15 * time.Minute
	DefaultStall      = 5 * time.Minute
	DefaultTotal      = 30 * time.Minute
	DefaultCompletion = 30 * time.Second
	DefaultGrace      = time.Second
)

// The names of the clocks: as flags, in configuration, in Verdict.Detail and
// for Watch.Extend.
const (
	Startup    = "startup"
	Idle       = "idle"
	Tool       = "tool"
	Stall      = "stall"
	Total      = "total"
	Completion = "completion"
	Grace      = "grace"
)

// Clocks are the limits in time of one run. A zero field is the default; None
// switches the clock off.
type Clocks struct {
	// Startup runs from the spawn to the first byte. 60 s.
	Startup time.Duration
	// Idle runs out when no byte came on any stream for so long. It pauses
	// while a tool call is open and while a wait that the agent announced
	// lasts. 5 min.
	Idle time.Duration
	// Tool bounds each open tool call by itself. 15 min.
	//
	// When it is off, an open call still pauses Idle and Stall for no longer
	// than Total, or than DefaultTotal where Total is off too: a call whose end
	// is never told must not switch the other clocks off for ever.
	Tool time.Duration
	// Stall runs out when for so long no tool call began or ended and the tree
	// of the repository did not change. It pauses as Idle does. 5 min.
	Stall time.Duration
	// Total runs from the spawn and pauses for nothing. 30 min.
	Total time.Duration
	// Completion runs from the terminal event to the end of the process. 30 s;
	// as long as Idle, and reset by bytes as Idle is, while the agent says that
	// background tasks of its own are open.
	Completion time.Duration
	// Grace is the time from the first signal to SIGKILL. Watch does not use
	// it; it stands here because users give it with the others. None: SIGKILL
	// at once. 1 s.
	Grace time.Duration
}

// ErrClock is matched by every *ClockError.
var ErrClock = errors.New("unusable clock")

// ClockError says which clock cannot be used as it was given, and what to do.
type ClockError struct {
	Clock string // name, as the flag without its dashes
	Value time.Duration
	Why   string
}

func (e *ClockError) Error() string {
	return fmt.Sprintf("--%s %s: %s", e.Clock, Format(e.Value), e.Why)
}

func (e *ClockError) Is(target error) bool { return target == ErrClock }

// Validate refuses negative values other than None, and a clock that could
// never run out because Total (given or default) ends the run before it. Fields
// that were left at zero are never the reason. The error is a *ClockError.
func (c Clocks) Validate() error {
	all := []struct {
		name string
		d    time.Duration
	}{
		{Startup, c.Startup},
		{Idle, c.Idle},
		{Tool, c.Tool},
		{Stall, c.Stall},
		{Completion, c.Completion},
		{Total, c.Total},
		{Grace, c.Grace},
	}
	for _, x := range all {
		if x.d < 0 && x.d != None {
			return &ClockError{x.name, x.d, "negative; give a time such as 90s, or none to switch the clock off"}
		}
	}
	total := or(c.Total, DefaultTotal)
	if total == None {
		return nil
	}
	for _, x := range all {
		switch x.name {
		case Total, Grace:
			continue
		}
		if x.d > total {
			return &ClockError{x.name, x.d, fmt.Sprintf("longer than --total %s, so it could never run out; lower it, or raise --total", Format(total))}
		}
	}
	return nil
}

// With replaces what was left at zero by the defaults for an agent that can do
// cap. No field of the result is zero.
//
//   - Startup is off for agents that say nothing before the model has answered:
//     their first byte tells nothing about the start.
//   - Idle is Total for agents that are silent while they work.
//   - Stall is off for agents whose tool calls cannot be seen: what is left to
//     look at is the tree, and ten minutes of reading change no tree.
//
// A clock that was given is never changed.
func (c Clocks) With(cap agent.Capabilities) Clocks {
	if c.Startup == 0 && !cap.Announces {
		c.Startup = None
	}
	if c.Idle == 0 && cap.Silent {
		c.Idle = or(c.Total, DefaultTotal)
	}
	if c.Stall == 0 && !cap.Tools {
		c.Stall = None
	}
	return c.defaults()
}

// defaults replaces zeros by the defaults, and every negative value by None.
func (c Clocks) defaults() Clocks {
	return Clocks{
		Startup:    or(c.Startup, DefaultStartup),
		Idle:       or(c.Idle, DefaultIdle),
		Tool:       or(c.Tool, DefaultTool),
		Stall:      or(c.Stall, DefaultStall),
		Total:      or(c.Total, DefaultTotal),
		Completion: or(c.Completion, DefaultCompletion),
		Grace:      or(c.Grace, DefaultGrace),
	}
}

func or(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return None
	}
	return d
}

// Parse reads a clock as users write it: "90s", "5m", "1h30m", or "none". Zero
// and negative times are errors: zero never means "now", and nobody should have
// to guess whether it means "off".
func Parse(s string) (time.Duration, error) {
	if s == "none" {
		return None, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time: write 90s, 5m or 1h30m, or none", s)
	case d <= 0:
		return 0, fmt.Errorf("%q is not a time to wait: write none to switch the clock off", s)
	}
	return d, nil
}

// Format writes a clock as Parse reads it.
func Format(d time.Duration) string {
	if d == None {
		return "none"
	}
	return short(d)
}

// short is 5m where Duration.String says 5m0s.
func short(d time.Duration) string {
	s := d.String()
	if n := len(s); n > 2 && s[n-2:] == "0s" && s[n-3] == 'm' {
		s = s[:n-2]
	}
	if n := len(s); n > 2 && s[n-2:] == "0m" && s[n-3] == 'h' {
		s = s[:n-2]
	}
	return s
}
