package config

import (
	"time"

	"github.com/rein-run/rein/watch"
)

// The most that a project may say of a clock that the user's file is silent
// about. A build that is slow needs more than the defaults; a clock of a week
// is a clock that is off.
const (
	maxProjectClock = 2 * time.Hour
	maxProjectGrace = 30 * time.Second
)

// withinClock refuses a clock of a project that is longer than what the user's
// file says (now), or than a project may say where that is silent.
func (c *Config) withinClock(name string, d, now time.Duration, v given) error {
	said := c.Origin(name)
	switch {
	case d == watch.None:
		if now != watch.None {
			return v.refuseNone()
		}
	case said.Source == Default:
		most := maxProjectClock
		if name == watch.Grace {
			most = maxProjectGrace
		}
		if d > most {
			return v.errorf("%s: a project, whose file came with a clone, may say %s at most: put %s: %s into %s",
				v.key, watch.Format(most), v.key, watch.Format(d), v.userFileName())
		}
	case now == watch.None && name != watch.Grace: // off: every time is shorter
	case d > now: // grace: none is SIGKILL at once: every time is longer
		return v.refuseMore(watch.Format(d), watch.Format(now), said)
	}
	return nil
}

// withinLimit is withinClock for a limit, of which 0 is none. Where the user's
// file says none or nothing, every limit is lower; none is refused where it is not
// the user's, as it is for clocks.
func withinLimit[N int | int64 | float64](c *Config, name string, n, now N, format func(N) string, v given) error {
	switch {
	case n == 0:
		if now > 0 || c.Origin(name).Source == Default {
			return v.refuseNone()
		}
	case now > 0 && n > now:
		return v.refuseMore(format(n), format(now), c.Origin(name))
	}
	return nil
}

func (v given) refuseNone() error {
	return v.errorf("%s: a project, whose file came with a clone, cannot switch a limit off: put %s: none into %s", v.key, v.key, v.userFileName())
}

func (v given) refuseMore(value, now string, said Origin) error {
	return v.errorf("%s: a project, whose file came with a clone, may not exceed the %s of %s: put %s: %s there",
		v.key, now, said, v.key, value)
}
