package watch

import (
	"context"
	"time"
)

// lookMax bounds one look at the tree. A repository on a dead network mount
// must cost the stall clock this much and nothing else.
const lookMax = 10 * time.Second

// glimpse is what one look brought.
type glimpse struct {
	print string
	err   error
}

// look is what is known of the tree.
type look struct {
	able    bool // there is a way to look
	want    bool // one is asked for
	busy    bool // one is under way; never two
	open    bool // the one under way still counts: it is younger than lookMax
	began   time.Duration
	known   bool // print holds a good look
	ok      bool // the last look was good
	done    bool // there was one at all
	print   string
	changed time.Duration // when a change was seen
}

// start says whether to look now, and takes note that it begins.
func (l *look) start(now time.Duration) bool {
	if !l.want || l.busy {
		return false
	}
	l.want, l.busy, l.open, l.began = false, true, true, now
	return true
}

// plan asks for the look that is due while the stall clock runs, and says when
// to come back. Looking only at the end of the window would credit a change
// that was made right at its beginning a whole window late.
func (l *look) plan(now, limit time.Duration) time.Duration {
	if !l.able {
		return never
	}
	l.expire(now)
	if l.open {
		return l.began + lookMax
	}
	due := l.began + max(limit/4, quiet)
	if due > now {
		return due
	}
	if l.busy { // it hangs, and it is never asked twice at once
		return never
	}
	l.want = true
	return now + max(limit/4, quiet)
}

// proof says whether the stall that was due at that time is proved. It is when
// a look that began after that time showed no change; where looking fails, the
// absence of tool calls is proof enough if the agent shows any.
func (l *look) proof(now, due, limit time.Duration, tools bool) (bool, time.Duration) {
	if !l.able {
		return tools, never
	}
	l.expire(now)
	if l.open && l.began >= due {
		return false, l.began + lookMax
	}
	if l.done && l.began >= due {
		if l.ok || tools {
			return true, 0
		}
		due = l.began + max(limit/4, quiet)
		if due > now {
			return false, due
		}
	}
	if l.busy {
		if !l.open && tools {
			return true, 0
		}
		return false, l.again(now)
	}
	l.want = true
	return false, never // start follows at once, and its end wakes the loop
}

func (l *look) again(now time.Duration) time.Duration {
	if l.open {
		return max(l.began+lookMax, now+quiet)
	}
	return never // it hangs: its return, if ever, wakes the loop
}

// expire stops waiting for a look that takes too long.
func (l *look) expire(now time.Duration) {
	if l.open && now >= l.began+lookMax {
		l.open, l.done, l.ok = false, true, false
	}
}

// saw takes the result of a look. The first good one counts as a change: what
// was before it is not known, and doubt is in the agent's favour.
func (s *state) saw(now time.Duration, g glimpse) {
	l := &s.tree
	counts := l.open
	l.busy, l.open = false, false
	if !counts {
		return
	}
	l.done, l.ok = true, g.err == nil
	if l.ok && (!l.known || g.print != l.print) {
		l.known, l.print, l.changed = true, g.print, now
	}
}

// look looks once. Its goroutine outlives Run only by as much as Fingerprint
// outlives its context; nobody waits for it.
func (w *Watch) look(ctx context.Context, to chan<- glimpse) {
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	p, err := w.fingerprint(ctx)
	to <- glimpse{p, err} // never blocks: capacity 1, one look at a time
}
