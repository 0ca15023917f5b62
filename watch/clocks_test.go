package watch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/agent"
)

func TestDefaults(t *testing.T) {
	all := Clocks{
		Startup: 60 * time.Second, Idle: 5 * time.Minute, Tool: 15 * time.Minute, Stall: 5 * time.Minute,
		Total: 30 * time.Minute, Completion: 30 * time.Second, Grace: time.Second,
	}
	change := func(f func(c *Clocks)) Clocks { c := all; f(&c); return c }
	talks := agent.Capabilities{Announces: true, Tools: true}
	for _, x := range []struct {
		name string
		in   Clocks
		cap  agent.Capabilities
		want Clocks
	}{
		{"all", Clocks{}, talks, all},
		{"does not announce itself", Clocks{}, agent.Capabilities{Tools: true}, change(func(c *Clocks) { c.Startup = None })},
		{"given all the same", Clocks{Startup: time.Second}, agent.Capabilities{Tools: true}, change(func(c *Clocks) { c.Startup = time.Second })},
		{"silent", Clocks{}, agent.Capabilities{Announces: true, Tools: true, Silent: true}, change(func(c *Clocks) { c.Idle = 30 * time.Minute })},
		{"silent, total given", Clocks{Total: time.Hour}, agent.Capabilities{Announces: true, Tools: true, Silent: true}, change(func(c *Clocks) { c.Idle, c.Total = time.Hour, time.Hour })},
		{"silent, no total", Clocks{Total: None}, agent.Capabilities{Announces: true, Tools: true, Silent: true}, change(func(c *Clocks) { c.Idle, c.Total = None, None })},
		{"silent, idle given", Clocks{Idle: time.Minute}, agent.Capabilities{Announces: true, Tools: true, Silent: true}, change(func(c *Clocks) { c.Idle = time.Minute })},
		{"tools not seen", Clocks{}, agent.Capabilities{Announces: true}, change(func(c *Clocks) { c.Stall = None })},
		{"off", Clocks{Tool: None, Grace: None}, talks, change(func(c *Clocks) { c.Tool, c.Grace = None, None })},
	} {
		if got := x.in.With(x.cap); got != x.want {
			t.Errorf("%s: got %+v, want %+v", x.name, got, x.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, x := range []struct {
		name  string
		in    Clocks
		clock string // that is complained about
	}{
		{"zero", Clocks{}, ""},
		{"off", Clocks{None, None, None, None, None, None, None}, ""},
		{"short total leaves the defaults alone", Clocks{Total: time.Second}, ""},
		{"negative", Clocks{Idle: -time.Second}, Idle},
		{"negative grace", Clocks{Grace: -2}, Grace},
		{"negative total", Clocks{Total: -time.Hour}, Total},
		{"startup beyond total", Clocks{Startup: 2 * time.Minute, Total: time.Minute}, Startup},
		{"idle beyond total", Clocks{Idle: 2 * time.Minute, Total: time.Minute}, Idle},
		{"idle beyond the default of total", Clocks{Idle: time.Hour}, Idle},
		{"idle without total", Clocks{Idle: time.Hour, Total: None}, ""},
		{"as long as total", Clocks{Idle: time.Minute, Total: time.Minute}, ""},
		{"tool", Clocks{Tool: time.Hour}, Tool},
		{"stall", Clocks{Stall: time.Hour}, Stall},
		{"completion", Clocks{Completion: time.Hour}, Completion},
		{"grace has nothing to do with it", Clocks{Grace: time.Hour}, ""},
	} {
		err := x.in.Validate()
		var e *ClockError
		switch {
		case x.clock == "" && err != nil:
			t.Errorf("%s: %v", x.name, err)
		case x.clock != "" && (!errors.As(err, &e) || e.Clock != x.clock || !errors.Is(err, ErrClock) || !strings.HasPrefix(err.Error(), "--"+x.clock+" ")):
			t.Errorf("%s: %v, want one about --%s", x.name, err, x.clock)
		}
	}
}

func TestParse(t *testing.T) {
	for s, want := range map[string]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "none": None, "250ms": 250 * time.Millisecond} {
		d, err := Parse(s)
		if err != nil || d != want {
			t.Errorf("%s: %v, %v", s, d, err)
		}
		if back, err := Parse(Format(d)); err != nil || back != d {
			t.Errorf("%s is written %s", s, Format(d))
		}
	}
	for _, s := range []string{"", "0", "0s", "-5s", "-1ns", "5", "soon", "None", "1d"} {
		if d, err := Parse(s); err == nil {
			t.Errorf("%q is %v", s, d)
		}
	}
}
