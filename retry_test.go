package rein

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/watch"
)

func failedWith(kind string, change ...func(*Report)) *Report {
	r := &Report{End: End{Kind: Exited}, Findings: []Finding{{Kind: kind, Severity: Error}, {Kind: FoundExitNonzero, Severity: Error}}}
	for _, f := range change {
		f(r)
	}
	return r
}

func until(d time.Duration) func(*Report) {
	return func(r *Report) { at := time.Now().Add(d); r.Findings[0].Until = &at }
}

func atWork(r *Report) { r.Usage.ToolCalls, r.Usage.OutputTokens, r.SessionID = 1, 10, "sess" }

// tries plays a retrier whose runs take a minute each and report what next
// returns, and says what it did: the start of each attempt and how it went on.
func tries(t *testing.T, o RetryOptions, task Task, resumable bool, next func(n int) *Report) (log []string, err error) {
	t.Helper()
	began := time.Now()
	r := &retrier{RetryOptions: o, random: func() float64 { return 1 }} // no luck: the longest wait
	r.run = func(ctx context.Context, a Task, n int, first string) (*Report, bool, error) {
		s := fmt.Sprintf("%s #%d", time.Since(began), n)
		if a.Session.Resume != "" {
			s += " " + a.Session.Resume
		}
		if a.Clocks.Total != 0 {
			s += " total " + a.Clocks.Total.String()
		}
		if (first != "") != (n > 1) || a.Prompt != "do it" != (a.Session.Resume != "") {
			t.Errorf("attempt %d of %q: prompt %q, session %q", n, first, a.Prompt, a.Session.Resume)
		}
		log = append(log, s)
		time.Sleep(time.Minute)
		rep := next(n)
		rep.ID = fmt.Sprint("run", n)
		return rep, resumable, nil
	}
	task.Prompt = "do it"
	_, err = r.do(t.Context(), task)
	return log, err
}

func TestRetry(t *testing.T) {
	over := func(int) *Report { return failedWith(FoundOverloaded) }
	ok := &Report{OK: true, End: End{Kind: Exited}}
	none := Task{}
	for _, c := range []struct {
		name      string
		o         RetryOptions
		task      Task
		resumable bool
		next      func(n int) *Report
		want      []string
	}{
		{"none by default", RetryOptions{}, none, true, over, []string{"0s #1"}},
		{"exponential, and no more than asked for", RetryOptions{Retries: 3}, none, true, over, []string{
			"0s #1", "1m5s #2 total 28m55s", "2m15s #3 total 27m45s", "3m35s #4 total 26m25s",
		}},
		{"up to a bound", RetryOptions{Retries: 3, MaxBackoff: 7 * time.Second}, none, true, over, []string{
			"0s #1", "1m5s #2 total 28m55s", "2m12s #3 total 27m48s", "3m19s #4 total 26m41s",
		}},
		{"until it goes well", RetryOptions{Retries: 9}, none, true, func(n int) *Report {
			if n == 2 {
				return ok
			}
			return failedWith(FoundNetwork)
		}, []string{"0s #1", "1m5s #2 total 28m55s"}},
		{"the total clock is for all attempts", RetryOptions{Retries: 9}, Task{Clocks: watch.Clocks{Total: 150 * time.Second, Idle: 100 * time.Second}}, true, over, []string{
			"0s #1 total 2m30s", "1m5s #2 total 1m25s", "2m15s #3 total 15s",
		}},
		{"no total clock", RetryOptions{Retries: 1}, Task{Clocks: watch.Clocks{Total: watch.None}}, true, over, []string{"0s #1 total -1ns", "1m5s #2 total -1ns"}},
		{"work that was done goes on", RetryOptions{Retries: 1}, none, true, func(int) *Report { return failedWith(FoundOverloaded, atWork) }, []string{"0s #1", "1m5s #2 sess total 28m55s"}},
		{"or is not done twice", RetryOptions{Retries: 1}, none, false, func(int) *Report { return failedWith(FoundOverloaded, atWork) }, []string{"0s #1"}},
		{"words alone may be said twice", RetryOptions{Retries: 1}, none, false, func(int) *Report {
			return failedWith(FoundOverloaded, func(r *Report) { r.Usage.OutputTokens = 5 })
		}, []string{"0s #1", "1m5s #2 total 28m55s"}},
		{"a rate limit without a reset", RetryOptions{Retries: 1}, none, true, func(int) *Report { return failedWith(FoundRateLimited) }, []string{"0s #1", "1m5s #2 total 28m55s"}},
		{"a short one is waited for, then the backoff", RetryOptions{Retries: 1}, none, true, func(int) *Report { return failedWith(FoundRateLimited, until(30*time.Second)) }, []string{"0s #1", "1m35s #2 total 28m25s"}},
		{"a long one is not retried", RetryOptions{Retries: 1}, none, true, func(int) *Report { return failedWith(FoundRateLimited, until(2*time.Minute)) }, []string{"0s #1"}},
		{"it is waited for when asked, and not in the total", RetryOptions{LimitWait: 6 * time.Hour}, none, true, func(n int) *Report {
			if n == 2 {
				return ok
			}
			return failedWith(FoundRateLimited, until(5*time.Hour), atWork)
		}, []string{"0s #1", "5h1m5s #2 sess total 29m0s"}},
		{"a limit that the watch gave up on", RetryOptions{LimitWait: 6 * time.Hour}, none, true, func(n int) *Report {
			if n == 2 {
				return ok
			}
			return failedWith(FoundRateLimited, until(time.Hour), func(r *Report) { r.End = End{Kind: GaveUp, Detail: "limit"} })
		}, []string{"0s #1", "1h1m5s #2 total 29m0s"}},
		{"longer than may be waited, in all", RetryOptions{LimitWait: 5 * time.Hour}, none, true, func(int) *Report { return failedWith(FoundRateLimited, until(3*time.Hour)) }, []string{"0s #1", "3h1m5s #2 total 29m0s"}},
		// A reset that is past, again and again, is no reason to come back at once.
		{"the same reset twice", RetryOptions{LimitWait: 6 * time.Hour}, none, true, func(int) *Report {
			return failedWith(FoundRateLimited, func(r *Report) { at := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC); r.Findings[0].Until = &at })
		}, []string{"0s #1", "1h0m5s #2 total 29m0s"}},
		{"budgets are for all attempts", RetryOptions{Retries: 9}, Task{Limits: watch.Limits{Tokens: 25}}, true, func(int) *Report { return failedWith(FoundOverloaded, atWork) }, []string{
			"0s #1", "1m5s #2 sess total 28m55s", "2m15s #3 sess total 27m45s",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := tries(t, c.o, c.task, c.resumable, c.next)
				if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got  %q, %v\nwant %q", got, err, c.want)
				}
			})
		})
	}
}

// What is never repeated, however often it may be.
func TestNeverRetried(t *testing.T) {
	with := func(change func(*Report)) *Report { return failedWith(FoundOverloaded, change) }
	for name, rep := range map[string]*Report{
		"a finished turn":           {OK: true, End: End{Kind: Exited}},
		"finished, with a warning":  {OK: true, End: End{Kind: Exited}, Findings: []Finding{{Kind: FoundRateLimited, Severity: Warning}}},
		"auth":                      failedWith(FoundAuth),
		"billing":                   failedWith(FoundBilling),
		"an error of its own":       failedWith(FoundReportedError),
		"no work":                   failedWith(FoundNoWork),
		"unknown command":           failedWith(FoundUnknownCommand),
		"nothing but an exit code":  failedWith(FoundExitNonzero),
		"no terminal event":         failedWith(FoundTerminalMissing),
		"killed by a stranger":      failedWith(FoundSignaled),
		"overloaded and auth":       with(func(r *Report) { r.Findings = append(r.Findings, Finding{Kind: FoundAuth, Severity: Error}) }),
		"a crossed boundary":        with(func(r *Report) { r.Boundary.Changes = []Change{{What: "committed"}} }),
		"a damaged transcript":      with(func(r *Report) { r.Findings = append(r.Findings, Finding{Kind: FoundTranscript, Severity: Error}) }),
		"survivors":                 with(func(r *Report) { r.Survivors = []driver.Proc{{PID: 1}} }),
		"a deadline":                with(func(r *Report) { r.End = End{Kind: TimedOut, Detail: "idle"} }),
		"a budget":                  with(func(r *Report) { r.End = End{Kind: OverBudget, Detail: "tokens"} }),
		"gave up on auth":           with(func(r *Report) { r.End = End{Kind: GaveUp, Detail: "auth"} }),
		"cancelled":                 with(func(r *Report) { r.End = End{Kind: Cancelled, Detail: CancelInterrupt} }),
		"lost":                      with(func(r *Report) { r.End = End{Kind: Lost} }),
		"aborted":                   with(func(r *Report) { r.End = End{Kind: Aborted} }),
		"a model's refusal to work": failedWith("halted"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := tries(t, RetryOptions{Retries: 5, LimitWait: time.Hour}, Task{}, true, func(int) *Report { return rep })
				if len(got) != 1 || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// The end of the context ends a wait at once; the last report is there.
func TestRetryWaitIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		r := &retrier{RetryOptions: RetryOptions{LimitWait: 6 * time.Hour}, random: func() float64 { return 0 }}
		r.run = func(context.Context, Task, int, string) (*Report, bool, error) {
			rep := failedWith(FoundRateLimited, until(5*time.Hour))
			rep.ID = "first"
			return rep, true, nil
		}
		r.Again = func(_ *Report, p Pause) {
			if !p.Limit || p.For != 5*time.Hour || p.Attempt != 2 || p.Reason != FoundRateLimited {
				t.Errorf("%+v", p)
			}
			time.AfterFunc(90*time.Minute, func() { cancel(CancelledBy(CancelInterrupt)) })
		}
		began := time.Now()
		rep, err := r.do(ctx, Task{})
		if rep == nil || rep.ID != "first" || CancelledWho(err) != CancelInterrupt || time.Since(began) != 90*time.Minute {
			t.Errorf("%+v, %v after %s", rep, err, time.Since(began))
		}
	})
}

// An attempt that cannot be started is an error, and what was is not lost.
func TestRetryThatCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &retrier{RetryOptions: RetryOptions{Retries: 1}, random: func() float64 { return 0 }}
		r.run = func(_ context.Context, task Task, n int, first string) (*Report, bool, error) {
			if n == 1 {
				rep := failedWith(FoundOverloaded)
				rep.ID = task.ID
				return rep, true, nil
			}
			if task.ID != "mine-2" || first != "mine" {
				t.Errorf("attempt %d is %q, of %q", n, task.ID, first)
			}
			return nil, false, ErrNoAgent
		}
		rep, err := r.do(t.Context(), Task{ID: "mine"})
		if rep == nil || rep.ID != "mine" || !errors.Is(err, ErrNoAgent) {
			t.Errorf("%+v, %v", rep, err)
		}
	})
}

// Full jitter: anything between nothing and the bound.
func TestRetryJitter(t *testing.T) {
	for _, random := range []float64{0, 0.25, 0.999} {
		r := &retrier{RetryOptions: RetryOptions{Retries: 100}, random: func() float64 { return random }}
		for n := range 40 {
			p := r.pause(failedWith(FoundOverloaded), time.Now())
			if bound := min(5*time.Second<<min(n, 20), 2*time.Minute); p == nil || p.For != time.Duration(random*float64(bound)) {
				t.Fatalf("wait %d is %+v, want %v of %s", n, p, random, bound)
			}
		}
	}
}
