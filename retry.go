package rein

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/watch"
)

// RetryOptions say what Retry does about a failure that can pass by itself. The
// zero value does nothing about it.
type RetryOptions struct {
	// Retries is how many attempts may follow the first one after an overload,
	// a network failure, or a rate limit that is over within a minute or does
	// not say when.
	Retries int
	// LimitWait is how long may be waited, in all, for the resets of rate limits
	// that the agent names. 0: they are not waited for. These waits are not in
	// the total clock and are no retries.
	LimitWait time.Duration
	// Backoff bounds the first wait before a retry; each further one may be
	// twice as long, up to MaxBackoff. What is really waited is anything up to
	// the bound, so that many runs do not come back together. 5 s and 2 min.
	Backoff, MaxBackoff time.Duration

	// Started is called when an attempt works, Again when it failed and another
	// one will follow, before the wait. Both are called in turn and may be nil.
	Started func(*Run)
	Again   func(*Report, Pause)
}

// DefaultLimitWait is longer than the longest window of a rate limit by the
// hour that any of the CLIs has (five hours).
const DefaultLimitWait = 6 * time.Hour

const (
	defaultBackoff    = 5 * time.Second
	defaultMaxBackoff = 2 * time.Minute
	// shortLimit is the rate limit that is worth a retry.
	shortLimit = time.Minute
	// goOn continues a session: the task is in it already.
	goOn = "Go on with the task that you were given. The last request to the model failed before it was done; what you have done so far still stands."
)

// Pause is the wait between two attempts.
type Pause struct {
	Reason  string        `json:"reason"`  // the finding it is for: FoundOverloaded, FoundNetwork, FoundRateLimited
	Attempt int           `json:"attempt"` // that will follow, from 2
	For     time.Duration `json:"for"`     // of the wait, nanoseconds
	Until   time.Time     `json:"until"`   // the same as a time
	Limit   bool          `json:"limit"`   // it is for the reset of a rate limit, which the agent named
	Session string        `json:"session"` // that will be continued; "" when the task is begun anew
}

// Retry is Do, again and again while the failure is one that can pass by itself.
//
// Each attempt is a run of its own, with its own id, directory and report, whose
// Attempt and RetryOf say so; the report of the last one is returned. An attempt
// that had begun to work is not begun anew: its session is continued, and where
// that cannot be done and a tool had run, there is no further attempt. A turn
// that was finished is never repeated, and nothing is after a failed login, an
// empty account, a crossed boundary, a deadline, a budget or a cancel.
//
// The task's total clock and its budgets are those of all attempts together. ctx
// owns them and ends a wait: then the error is its cause, and the report the one
// of the last attempt. A wait is a run in the store whose state says until when,
// and Remote.Stop ends it: then the cause is CancelledBy(CancelStop). The error of an attempt that could not be started comes
// with the report of the one before it.
func Retry(ctx context.Context, task Task, ro *RetryOptions, o *Options) (*Report, error) {
	if ro == nil {
		ro = &RetryOptions{}
	}
	var run *Run // the last one
	r := &retrier{RetryOptions: *ro, random: rand.Float64}
	r.run = func(ctx context.Context, t Task, n int, first string) (*Report, bool, error) {
		p, err := prepare(ctx, t, o)
		if err != nil {
			return nil, false, err
		}
		p.attempt, p.retryOf, p.earlier = n, first, r.made
		if run, err = p.start(ctx); err != nil {
			return nil, false, err
		}
		if ro.Started != nil {
			ro.Started(run)
		}
		rep, err := run.Wait(context.WithoutCancel(ctx)) // ctx owns the run
		return rep, p.caps.Resume, err
	}
	r.show = func(id, first string, p *Pause, stop func()) (string, func()) {
		return showWait(run, r.made, id, first, p, stop)
	}
	return r.do(ctx, task)
}

// retrier is Retry without the runs.
type retrier struct {
	RetryOptions
	random func() float64 // [0,1)
	// run makes one attempt and says whether its session can be continued.
	run func(ctx context.Context, t Task, attempt int, first string) (rep *Report, resumable bool, err error)
	// show makes a wait visible to others, who may stop it; may be nil. It gives
	// the id of the attempt that will follow, and what ends the showing.
	show func(id, first string, p *Pause, stop func()) (string, func())

	made    []Attempt
	retries int           // made
	waited  time.Duration // for limits
	reset   time.Time     // the last one that was waited for
	spent   spending
}

// spending is what earlier attempts used.
type spending struct {
	tokens    int64
	usd       float64
	subagents int
}

func (r *retrier) do(ctx context.Context, task Task) (*Report, error) {
	total := cmp.Or(task.Clocks.Total, watch.DefaultTotal)
	began := time.Now()
	var last *Report
	first, attempt := "", task
	for n := 1; ; n++ {
		rep, resumable, err := r.run(ctx, attempt, n, first)
		switch {
		case err == nil:
		case n > 1:
			return last, fmt.Errorf("attempt %d: %w", n, err)
		default:
			return rep, err
		}
		last, first = rep, cmp.Or(first, rep.ID)
		a := rep.attempt()
		r.made = append(r.made, a)
		u := a.Usage
		r.spent.tokens += u.Counted()
		r.spent.usd += u.CostUSD
		r.spent.subagents += u.Subagents

		p := r.pause(rep, time.Now())
		if p == nil {
			return rep, nil
		}
		p.Attempt = n + 1
		next, ok := r.again(task, rep, resumable)
		left := total
		if total != watch.None {
			left = total - (time.Since(began) - r.waited) // monotonic
			if !p.Limit {
				left -= p.For
			}
			if left <= 0 {
				ok = false
			}
		}
		if !ok {
			return rep, nil
		}
		next.Clocks = within(task.Clocks, left)
		if task.ID != "" {
			next.ID = fmt.Sprintf("%s-%d", task.ID, p.Attempt)
		}
		p.Session = next.Session.Resume

		if r.Again != nil {
			r.Again(rep, *p)
		}
		slept := time.Now()
		next.ID, err = r.wait(ctx, next.ID, first, p)
		if p.Limit {
			r.waited += time.Since(slept)
		}
		if err != nil {
			return rep, err
		}
		attempt = next
	}
}

// wait sleeps where others see it and may end it: then the error is the cause
// CancelStop. It gives the id of the next attempt.
func (r *retrier) wait(ctx context.Context, id, first string, p *Pause) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.show != nil {
		var hide func()
		id, hide = r.show(id, first, p, func() { cancel(CancelledBy(CancelStop)) })
		defer hide()
	}
	return id, p.sleep(ctx)
}

// look is how often a long wait looks at the clock on the wall: a machine that
// was suspended must not wait for the time that it slept.
const look = 30 * time.Second

func (p *Pause) sleep(ctx context.Context) error {
	end := time.Now().Add(p.For)
	for {
		left := min(time.Until(end), p.Until.Round(0).Sub(time.Now().Round(0)))
		if left <= 0 {
			return context.Cause(ctx)
		}
		t := time.NewTimer(min(left, look))
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}

// pause says how long to wait before another attempt; nil: there is none.
func (r *retrier) pause(rep *Report, now time.Time) *Pause {
	why := passing(rep)
	if why == nil {
		return nil
	}
	p := &Pause{Reason: why.Kind}
	if why.Until != nil {
		wait := max(why.Until.Sub(now), 0) // the agent's own wall-clock time: there is no other
		jitter := time.Duration(r.random() * float64(cmp.Or(r.Backoff, defaultBackoff)))
		// A reset that was waited for and did not help is not waited for again.
		if r.LimitWait > 0 && r.waited+wait <= r.LimitWait && why.Until.After(r.reset) {
			r.reset = *why.Until
			p.Limit, p.For, p.Until = true, wait+jitter, now.Add(wait+jitter)
			return p
		}
		if wait > shortLimit {
			return nil
		}
		p.For = wait
	}
	if r.retries >= r.Retries {
		return nil
	}
	bound := cmp.Or(r.MaxBackoff, defaultMaxBackoff)
	if first := cmp.Or(r.Backoff, defaultBackoff); r.retries < 30 {
		bound = min(bound, first<<r.retries)
	}
	r.retries++
	p.For += time.Duration(r.random() * float64(bound))
	p.Until = now.Add(p.For)
	return p
}

// passing is the failure of a run that may go away by itself; nil when there is
// none, or when something else is wrong too.
func passing(rep *Report) (why *Finding) {
	if rep.OK || len(rep.Boundary.Changes) > 0 || len(rep.Survivors) > 0 {
		return nil
	}
	if rep.End.Kind != Exited && rep.End != (End{Kind: GaveUp, Detail: "limit"}) {
		return nil
	}
	for i, f := range rep.Findings {
		switch {
		case f.Severity != Error:
		case slices.Contains([]string{FoundOverloaded, FoundNetwork, FoundRateLimited}, f.Kind):
			why = &rep.Findings[i]
		case f.Kind == FoundExitNonzero, f.Kind == FoundTerminalMissing: // what follows from it
		default:
			return nil
		}
	}
	return why
}

// again is the task of the next attempt: the session of the last one goes on if
// anything happened in it.
func (r *retrier) again(task Task, rep *Report, resumable bool) (Task, bool) {
	l := &task.Limits
	if l.Tokens > 0 {
		if l.Tokens -= r.spent.tokens; l.Tokens <= 0 {
			return task, false
		}
	}
	if l.CostUSD > 0 {
		if l.CostUSD -= r.spent.usd; l.CostUSD <= 0 {
			return task, false
		}
	}
	if l.Subagents > 0 {
		if l.Subagents -= r.spent.subagents; l.Subagents <= 0 {
			return task, false
		}
	}
	worked := rep.Usage.ToolCalls > 0
	switch {
	case (worked || rep.Usage.OutputTokens > 0) && resumable && rep.SessionID != "":
		task.Session, task.Prompt = agent.Session{Resume: rep.SessionID}, goOn
	case worked:
		return task, false // it would be done twice
	}
	return task, true
}

// within cuts clocks down to what is left of the total one.
func within(c watch.Clocks, left time.Duration) watch.Clocks {
	if left == watch.None {
		return c
	}
	c.Total = left
	for _, d := range []*time.Duration{&c.Startup, &c.Idle, &c.Tool, &c.Stall, &c.Completion} {
		*d = min(*d, left) // None and the default are below
	}
	return c
}
