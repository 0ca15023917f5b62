package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// step is what happens at one moment after the spawn.
type step struct {
	at time.Duration
	do func(w *Watch)
}

// play runs a watch through a script, in fake time, and returns its verdict. A
// run that is still watched after far is over by itself: no verdict.
const far = 48 * time.Hour

func play(t *testing.T, w *Watch, script ...step) (Verdict, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), far)
	defer cancel()
	type answer struct {
		v  Verdict
		ok bool
	}
	done := make(chan answer, 1)
	go func() {
		v, ok := w.Run(ctx)
		done <- answer{v, ok}
	}()
	synctest.Wait()
	start := time.Now()
	for _, s := range script {
		select {
		case a := <-done:
			return a.v, a.ok
		case <-time.After(s.at - time.Since(start)):
		}
		s.do(w)
		synctest.Wait()
	}
	a := <-done
	return a.v, a.ok
}

func out(w *Watch) { w.Output(1) }

// tell is a reading, and the bytes that it is made of.
func tell(r agent.Reading) func(*Watch) {
	return func(w *Watch) { w.Output(10); w.Read(r) }
}

func toolStarted(id string) agent.Reading {
	return agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{ID: id, Name: "Bash"}}
}

func toolFinished(id string) agent.Reading {
	return agent.Reading{Kind: agent.KindToolFinished, Tool: &agent.Tool{ID: id}}
}

func retry(class agent.Class, after time.Duration) agent.Reading {
	return agent.Reading{Kind: agent.KindRetry, Failure: &agent.Failure{Class: class}, After: after}
}

func sub(id string, r agent.Reading) agent.Reading {
	r.SubAgent = id
	return r
}

var (
	text      = agent.Reading{Kind: agent.KindText, Text: "hello"}
	turnBegan = agent.Reading{Kind: agent.KindTurnStarted}
	turnEnded = agent.Reading{Kind: agent.KindTurnEnded, OK: true}
)

func tasks(n int) agent.Reading { return agent.Reading{Kind: agent.KindTasks, Tasks: n} }

// every gives the same step again and again.
func every(d, until time.Duration, do func(*Watch)) []step {
	var all []step
	for at := d; at <= until; at += d {
		all = append(all, step{at, do})
	}
	return all
}

// only switches all clocks off but those given.
func only(c Clocks) Clocks {
	for _, f := range []*time.Duration{&c.Startup, &c.Idle, &c.Tool, &c.Stall, &c.Total, &c.Completion} {
		if *f == 0 {
			*f = None
		}
	}
	return c
}

const (
	sec    = time.Second
	minute = time.Minute
)

func TestEachClock(t *testing.T) {
	for _, x := range []struct {
		name   string
		clocks Clocks
		script []step
		want   string // "kind/detail after"; "" is no verdict
	}{
		// startup: to the first byte
		{"startup: no byte", Clocks{}, nil, "timed_out/startup 1m0s"},
		{"startup: one byte is enough", Clocks{Total: 10 * minute}, []step{{59 * sec, out}}, "timed_out/idle 5m59s"},
		{"startup: a byte too late", Clocks{}, []step{{61 * sec, out}}, "timed_out/startup 1m0s"},
		{"startup: off", Clocks{Startup: None}, nil, "timed_out/idle 5m0s"},
		{"startup: a reading is a byte", Clocks{}, []step{{30 * sec, func(w *Watch) { w.Read(text) }}}, "timed_out/idle 5m30s"},

		// idle: any byte resets
		{"idle: single bytes reset it", only(Clocks{Idle: minute}), every(59*sec, 10*59*sec, out), "timed_out/idle 10m50s"},
		{"idle: the last byte counts", Clocks{}, []step{{10 * sec, out}, {11 * sec, out}}, "timed_out/idle 5m11s"},
		{"idle: off", Clocks{Idle: None, Stall: None}, []step{{sec, out}}, "timed_out/total 30m0s"},
		{"idle: everything off", only(Clocks{}), []step{{sec, out}}, ""},

		// tool: per open call; idle and stall pause meanwhile
		{"tool: one call", Clocks{}, []step{{sec, tell(toolStarted("a"))}}, "timed_out/tool 15m1s"},
		{"tool: silent for 14 minutes", Clocks{}, []step{{sec, tell(toolStarted("a"))}, {14 * minute, tell(toolFinished("a"))}}, "timed_out/idle 19m0s"},
		{"tool: the oldest of two counts", Clocks{}, []step{{sec, tell(toolStarted("a"))}, {5 * minute, tell(toolStarted("b"))}}, "timed_out/tool 15m1s"},
		{"tool: each call anew", Clocks{}, []step{
			{sec, tell(toolStarted("a"))}, {10 * minute, tell(toolFinished("a"))}, {11 * minute, tell(toolStarted("a"))},
		}, "timed_out/tool 26m0s"},
		{"tool: told twice it is one call", Clocks{}, []step{{sec, tell(toolStarted("a"))}, {10 * minute, tell(toolStarted("a"))}}, "timed_out/tool 15m1s"},
		{"tool: bytes do not feed it", Clocks{}, append([]step{{sec, tell(toolStarted("a"))}}, every(10*sec, 20*minute, out)[1:]...), "timed_out/tool 15m1s"},
		{"tool: off, total bounds the pause", Clocks{Tool: None}, []step{{sec, tell(toolStarted("a"))}}, "timed_out/total 30m0s"},
		{
			"tool: off and total off, it pauses nothing for ever",
			Clocks{Tool: None, Total: None},
			[]step{{sec, tell(toolStarted("a"))}},
			"timed_out/idle 35m1s",
		},
		{"tool: the turn's end closes it", Clocks{}, []step{{sec, tell(toolStarted("a"))}, {2 * sec, tell(turnEnded)}}, "completed/completion 32s"},

		// stall: no tool activity
		{"stall: output is no progress", Clocks{Startup: None}, append([]step{
			{sec, tell(toolStarted("a"))}, {2 * sec, tell(toolFinished("a"))},
		}, every(30*sec, time.Hour, tell(text))...), "timed_out/stall 5m2s"},
		{"stall: before the first tool call nothing proves it", only(Clocks{Stall: 5 * minute, Total: 30 * minute}), every(30*sec, time.Hour, tell(text)), "timed_out/total 30m0s"},

		// total: since the spawn, for nothing paused
		{"total", Clocks{Stall: None}, every(30*sec, time.Hour, out), "timed_out/total 30m0s"},
		{"total: not paused by a call", Clocks{Tool: time.Hour}, []step{{sec, tell(toolStarted("a"))}}, "timed_out/total 30m0s"},

		// completion: armed by a terminal event
		{"completion", Clocks{}, []step{{sec, out}, {10 * sec, tell(turnEnded)}}, "completed/completion 40s"},
		{"completion: bytes do not feed it", Clocks{}, append([]step{{10 * sec, tell(turnEnded)}}, every(11*sec, 5*minute, out)...), "completed/completion 40s"},
		{"completion: disarmed by a new turn", Clocks{}, []step{{10 * sec, tell(turnEnded)}, {20 * sec, tell(turnBegan)}}, "timed_out/idle 5m20s"},
		{"completion: disarmed by what only a turn does", Clocks{}, []step{{10 * sec, tell(turnEnded)}, {20 * sec, tell(toolStarted("a"))}}, "timed_out/tool 15m20s"},
		{"completion: a second result", Clocks{}, []step{
			{10 * sec, tell(turnEnded)}, {20 * sec, tell(turnBegan)}, {minute, tell(turnEnded)},
		}, "completed/completion 1m30s"},
		{"completion: off, idle ends it, and the result stands", Clocks{Completion: None}, []step{{10 * sec, tell(turnEnded)}}, "completed/idle 5m10s"},
		{"completion: a sub-agent's result is not the run's", Clocks{}, []step{{10 * sec, tell(sub("s", turnEnded))}}, "timed_out/idle 5m10s"},
		{"completion: as long as idle while background tasks are open", Clocks{}, []step{
			{5 * sec, tell(tasks(1))}, {10 * sec, tell(turnEnded)},
		}, "completed/completion 5m10s"},
		{"completion: background tasks that show life", Clocks{}, append([]step{
			{5 * sec, tell(tasks(1))}, {10 * sec, tell(turnEnded)},
		}, every(4*minute, 12*minute, out)...), "completed/completion 17m0s"},
		{"completion: short again when the tasks are over", Clocks{}, []step{
			{5 * sec, tell(tasks(2))}, {10 * sec, tell(turnEnded)}, {4 * minute, tell(tasks(0))},
		}, "completed/completion 4m30s"},
		{"completion: a task for ever ends with total", Clocks{}, append([]step{
			{5 * sec, tell(tasks(1))}, {10 * sec, tell(turnEnded)},
		}, every(minute, time.Hour, out)...), "completed/total 30m0s"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, ok := play(t, New(x.clocks, Limits{}, nil), x.script...)
				check(t, v, ok, x.want)
			})
		})
	}
}

func check(t *testing.T, v Verdict, ok bool, want string) {
	t.Helper()
	got := ""
	if ok {
		got = fmt.Sprintf("%s/%s %s", v.Kind, v.Detail, v.After)
	}
	if got != want {
		t.Errorf("got %q, want %q (%s)", got, want, v.Text)
	}
	if ok && (v.Text == "" || strings.Contains(v.Text, "\n") || v.At.IsZero()) {
		t.Errorf("verdict %+v", v)
	}
}

// All pairs of clocks that can run out at the same moment.
func TestPrecedence(t *testing.T) {
	same := func() (string, error) { return "same", nil }
	for _, x := range []struct {
		name   string
		clocks Clocks
		script []step
		want   string
	}{
		{"startup idle", Clocks{Startup: minute, Idle: minute}, nil, "startup"},
		{"startup total", Clocks{Startup: minute, Total: minute}, nil, "startup"},
		{"startup stall", Clocks{Startup: minute, Stall: minute}, nil, "startup"},
		{"idle total", Clocks{Idle: minute, Total: minute}, nil, "idle"},
		{"idle stall", Clocks{Idle: minute, Stall: minute}, nil, "idle"},
		{"tool total", Clocks{Tool: minute, Total: 2 * minute}, []step{{minute, tell(toolStarted("a"))}}, "tool"},
		{"total stall", Clocks{Total: minute, Stall: minute}, nil, "total"},
		{"all but tool", Clocks{Startup: minute, Idle: minute, Total: minute, Stall: minute}, nil, "startup"},
		{"completion total", Clocks{Completion: minute, Total: 2 * minute}, []step{{minute, tell(turnEnded)}}, "completion"},
		{"completion idle", Clocks{Completion: minute, Idle: minute}, []step{{minute / 2, tell(turnEnded)}}, "completion"},
		// idle and tool, stall and tool, startup and tool: never together,
		// because an open call pauses the first two and follows a first byte.
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &Options{Fingerprint: func(context.Context) (string, error) { return same() }}
				if v, _ := play(t, New(only(x.clocks), Limits{}, o), x.script...); v.Detail != x.want {
					t.Errorf("got %s (%s), want %s", v.Detail, v.Text, x.want)
				}
			})
		})
	}
}

// Timers that killed healthy agents elsewhere, and evidence that kept dead
// ones alive.
func TestFalseAlarms(t *testing.T) {
	for _, x := range []struct {
		name   string
		clocks Clocks
		script []step
		want   string
	}{
		{ // a tool that is silent for ten minutes; a test run that is silent for four
			"silent tool",
			Clocks{},
			[]step{{sec, tell(toolStarted("a"))}, {10 * minute, tell(toolFinished("a"))}, {11 * minute, tell(turnEnded)}},
			"completed/completion 11m30s",
		},
		{ // killed after exactly 20 minutes in the middle of its 261st tool call
			"busy agent",
			Clocks{Total: None},
			func() (all []step) {
				for i := range 261 {
					at := time.Duration(i+1) * 10 * sec
					all = append(all, step{at, tell(toolStarted("x"))}, step{at + 5*sec, tell(toolFinished("x"))})
				}
				return append(all, step{262 * 10 * sec, tell(turnEnded)})
			}(),
			"completed/completion 44m10s",
		},
		{ // a sub-agent that works longer than any tool
			"healthy sub-agent",
			Clocks{Total: time.Hour},
			func() []step {
				all := []step{{sec, tell(agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{ID: "s", Name: "Task", Spawns: true}})}}
				for at := minute; at <= 40*minute; at += 2 * minute {
					all = append(all, step{at, tell(sub("s", toolStarted("x")))}, step{at + minute, tell(sub("s", toolFinished("x")))})
				}
				return append(all, step{42 * minute, tell(toolFinished("s"))}, step{43 * minute, tell(turnEnded)})
			}(),
			"completed/completion 43m30s",
		},
		{ // the same where sub-agents are not named after the call
			"healthy sub-agent with another name",
			Clocks{Total: time.Hour},
			func() []step {
				all := []step{{sec, tell(agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{ID: "s", Name: "Task", Spawns: true}})}}
				return append(all, every(10*minute, 40*minute, tell(sub("thread-7", text)))...)
			}(),
			"timed_out/tool 55m0s",
		},
		{
			"dead sub-agent",
			Clocks{},
			[]step{{sec, tell(agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{ID: "s", Spawns: true}})}, {minute, tell(sub("s", toolStarted("x")))}},
			"timed_out/tool 16m0s",
		},
		{ // codex never tells the end of a command that it left running
			"background command without an end",
			Clocks{},
			[]step{
				{sec, tell(toolStarted("server"))},
				{10 * sec, tell(toolStarted("curl"))},
				{11 * sec, tell(toolFinished("curl"))},
				{12 * sec, tell(text)},
				{4 * minute, tell(text)},
				{20 * sec * 12, tell(toolStarted("x"))},
				{18 * minute, tell(toolFinished("x"))},
				{18*minute + sec, tell(turnEnded)},
			},
			"completed/completion 18m31s",
		},
		{ // of two calls at once the short one is no proof that nobody waits for the long one
			"two calls at once",
			Clocks{},
			[]step{{sec, tell(toolStarted("long"))}, {2 * sec, tell(toolStarted("short"))}, {3 * sec, tell(toolFinished("short"))}},
			"timed_out/tool 15m1s",
		},
		{ // words behind a call in the same message are no proof either
			"text behind a call",
			Clocks{},
			[]step{{sec, tell(toolStarted("long"))}, {2 * sec, tell(text)}},
			"timed_out/tool 15m1s",
		},
		{ // what a sub-agent left open is over with the sub-agent
			"calls of a sub-agent that is done",
			Clocks{},
			[]step{
				{sec, tell(agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{ID: "s", Spawns: true}})},
				{2 * sec, tell(sub("s", toolStarted("x")))},
				{10 * sec, tell(toolFinished("s"))},
			},
			"timed_out/idle 5m10s",
		},
		{ // evidence without bound: a sub-agent that is never done
			"endless life",
			Clocks{},
			append([]step{{sec, tell(agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{ID: "s", Spawns: true}})}},
				every(minute, 3*time.Hour, tell(sub("s", text)))...),
			"timed_out/total 30m0s",
		},
		{ // waiting as announced is not being idle
			"announced wait",
			Clocks{},
			[]step{{sec, tell(retry(agent.Overloaded, 20*minute))}},
			"timed_out/idle 25m1s",
		},
		{
			"announced wait is over with the next answer",
			Clocks{},
			[]step{{sec, tell(retry(agent.Overloaded, 20*minute))}, {minute, tell(text)}},
			"timed_out/idle 6m0s",
		},
		{
			"announced wait without a bound",
			Clocks{Total: None},
			[]step{{sec, tell(retry(agent.Other, 1000*time.Hour))}},
			"timed_out/idle 6h5m1s",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, ok := play(t, New(x.clocks, Limits{}, nil), x.script...)
				check(t, v, ok, x.want)
			})
		})
	}
}

func TestGivingUp(t *testing.T) {
	until := func(d time.Duration) agent.Reading {
		at := time.Now().Add(d)
		return agent.Reading{Kind: agent.KindRetry, Failure: &agent.Failure{Class: agent.RateLimit, Until: &at}}
	}
	for _, x := range []struct {
		name   string
		clocks Clocks
		script []step
		want   string
	}{
		{"the second auth retry", Clocks{}, []step{{sec, tell(retry(agent.Auth, sec))}, {2 * sec, tell(retry(agent.Auth, sec))}}, "gave_up/auth 2s"},
		{"one auth retry", Clocks{}, []step{{sec, tell(retry(agent.Auth, sec))}, {2 * sec, tell(turnEnded)}}, "completed/completion 32s"},
		{"two, with an answer in between", Clocks{}, []step{
			{sec, tell(retry(agent.Auth, sec))}, {2 * sec, tell(text)}, {3 * sec, tell(retry(agent.Auth, sec))}, {4 * sec, tell(turnEnded)},
		}, "completed/completion 34s"},
		{"a sub-agent's", Clocks{}, []step{
			{sec, tell(sub("s", retry(agent.Auth, sec)))}, {2 * sec, tell(sub("s", retry(agent.Auth, sec)))}, {3 * sec, tell(turnEnded)},
		}, "completed/completion 33s"},
		{"billing", Clocks{}, []step{{sec, tell(retry(agent.Billing, sec))}}, "gave_up/billing 1s"},
		{"a limit beyond total", Clocks{Idle: None, Stall: None}, []step{{20 * minute, tell(retry(agent.RateLimit, 11*minute))}}, "gave_up/limit 20m0s"},
		{"a limit within total", Clocks{Idle: None, Stall: None}, []step{{20 * minute, tell(retry(agent.RateLimit, 9*minute))}}, "timed_out/total 30m0s"},
		{"a limit until a time", Clocks{}, []step{{sec, func(w *Watch) { w.Read(until(31 * minute)) }}}, "gave_up/limit 1s"},
		{"a limit without total", Clocks{Total: None}, []step{{sec, tell(retry(agent.RateLimit, 5*time.Hour))}}, "timed_out/idle 5h5m1s"},
		{"overloaded", Clocks{}, []step{{sec, tell(retry(agent.Overloaded, sec))}, {2 * sec, tell(retry(agent.Overloaded, sec))}, {3 * sec, tell(turnEnded)}}, "completed/completion 33s"},
		{"a retry that says nothing", Clocks{}, []step{{sec, tell(agent.Reading{Kind: agent.KindRetry})}}, "timed_out/idle 5m1s"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := x.clocks
				c.Startup = None
				v, ok := play(t, New(c, Limits{}, nil), x.script...)
				check(t, v, ok, x.want)
			})
		})
	}
}

func TestBudgets(t *testing.T) {
	l := Limits{Memory: 1 << 30, Procs: 10, Output: 1000}
	sample := func(rss int64, procs int) func(*Watch) {
		return func(w *Watch) { w.Sample(driver.Sample{RSS: rss, Procs: procs}) }
	}
	spent := func(tokens int64, usd float64, subagents int) func(*Watch) {
		return func(w *Watch) { w.Spent(tokens, usd, subagents) }
	}
	for _, x := range []struct {
		name   string
		limits Limits
		script []step
		want   string
	}{
		{"memory", l, []step{{sec, sample(1<<30, 10)}, {2 * sec, sample(1<<30+1, 1)}}, "over_budget/memory 2s"},
		{"processes", l, []step{{sec, sample(0, 11)}}, "over_budget/processes 1s"},
		{"output", l, []step{{sec, func(w *Watch) { w.Output(1000) }}, {2 * sec, out}}, "over_budget/output 2s"},
		{"output in a burst", l, []step{{sec, func(w *Watch) { w.Output(1) }}, {sec + time.Millisecond, func(w *Watch) { w.Output(5000) }}}, "over_budget/output 1.001s"},
		{"none", Limits{}, []step{{sec, sample(1<<50, 1<<20)}, {2 * sec, func(w *Watch) { w.Output(1 << 50) }}}, "timed_out/idle 5m2s"},
		{"after the result", l, []step{{sec, tell(turnEnded)}, {2 * sec, sample(1<<31, 1)}}, "completed/memory 2s"},
		{"tokens to the last one", Limits{Tokens: 100}, []step{{sec, spent(100, 9, 9)}, {2 * sec, spent(101, 9, 9)}}, "over_budget/tokens 2s"},
		{"cost", Limits{CostUSD: 0.5}, []step{{sec, spent(1e9, 0.5, 9)}, {2 * sec, spent(0, 0.51, 0)}}, "over_budget/cost 2s"},
		{"sub-agents", Limits{Subagents: 2}, []step{{sec, spent(1e9, 9, 2)}, {2 * sec, spent(0, 0, 3)}}, "over_budget/subagents 2s"},
		// What is known only with the result comes too late, and the process may
		// finish what it does ...
		{"tokens after the result", Limits{Tokens: 100}, []step{{sec, tell(turnEnded)}, {sec, spent(101, 0, 0)}}, "completed/completion 31s"},
		// ... but not begin anew.
		{"a new turn over budget", Limits{Tokens: 100}, []step{{sec, tell(turnEnded)}, {sec, spent(101, 0, 0)}, {3 * sec, tell(agent.Reading{Kind: agent.KindTurnStarted})}}, "over_budget/tokens 3s"},
		{"the first one stands", l, []step{{sec, func(w *Watch) { sample(1<<31, 1)(w); sample(0, 11)(w); w.Output(5000) }}}, "over_budget/memory 1s"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, ok := play(t, New(Clocks{}, x.limits, nil), x.script...)
				check(t, v, ok, x.want)
			})
		})
	}
}

// A process that ended first was not ended by us, whatever has run out since.
func TestEndBeforeVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Clocks{}, Limits{Output: 1}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.Output(5)
		if v, ok := w.Run(ctx); ok {
			t.Errorf("verdict %+v", v)
		}
	})
}

// What came before Run counts from its call.
func TestBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Clocks{}, Limits{}, nil)
		w.Output(1)
		w.Read(toolStarted("a"))
		time.Sleep(time.Hour)
		v, ok := play(t, w)
		check(t, v, ok, "timed_out/tool 15m0s")
	})
}

// While bytes pour in from several goroutines, the total clock is on time and
// the idle clock does not run out.
func TestFloodStarvesNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Clocks{Total: 10 * sec, Idle: sec}, Limits{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var flood sync.WaitGroup
		for range 4 {
			flood.Go(func() {
				for ctx.Err() == nil {
					for range 100 {
						w.Output(4096)
						w.Read(agent.Reading{Kind: agent.KindUnknown})
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		v, ok := w.Run(ctx)
		check(t, v, ok, "timed_out/total 10s")
		cancel()
		flood.Wait()
	})
}

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Clocks{Tool: None}, Limits{}, nil)
		extend := func(clock string, by time.Duration, want error) func(*Watch) {
			return func(w *Watch) {
				if err := w.Extend(clock, by); !errors.Is(err, want) {
					t.Errorf("extend %s by %s: %v, want %v", clock, by, err, want)
				}
			}
		}
		v, ok := play(t, w,
			step{sec, extend(Startup, 10*minute, nil)},
			step{2 * minute, out},
			step{2*minute + sec, extend(Startup, minute, ErrOff)},
			step{3 * minute, extend(Idle, 2*minute, nil)},
			step{3 * minute, extend(Tool, minute, ErrOff)},
			step{3 * minute, extend("idel", minute, ErrNoSuch)},
			step{3 * minute, extend(Grace, minute, ErrNoSuch)},
			step{3 * minute, extend(Idle, 0, ErrClock)},
			step{3 * minute, extend(Total, -minute, ErrClock)},
		)
		check(t, v, ok, "timed_out/idle 9m0s")
		extend(Total, minute, ErrOver)(w)
	})
}

// An agent that is silent while it works has an idle clock as long as the
// total one: more total time without more idle time would be none.
func TestExtendTotalOfASilentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Clocks{Total: 10 * minute}.With(agent.Capabilities{Silent: true})
		v, ok := play(t, New(c, Limits{}, nil), step{minute, func(w *Watch) {
			if err := w.Extend(Total, 5*minute); err != nil {
				t.Error(err)
			}
		}})
		if !ok || v.After != 15*minute {
			t.Errorf("%+v", v)
		}
	})
}

func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Clocks{}, Limits{}, nil)
		see := func(phase Phase, clocks string) func(*Watch) {
			return func(w *Watch) {
				t.Helper()
				s := w.State()
				var all []string
				for _, c := range s.Clocks {
					left := short(c.Left)
					if c.Paused {
						left = "-"
					}
					all = append(all, c.Clock+" "+left)
				}
				if got := strings.Join(all, ", "); s.Phase != phase || got != clocks {
					t.Errorf("at %s: %s: %s\nwant %s: %s", s.Elapsed, s.Phase, got, phase, clocks)
				}
			}
		}
		play(t, w,
			step{10 * sec, see(Starting, "startup 50s, idle 4m50s, tool -, total 29m50s, stall 4m50s, completion -")},
			step{20 * sec, out},
			step{30 * sec, see(Working, "startup -, idle 4m50s, tool -, total 29m30s, stall 4m30s, completion -")},
			step{minute, tell(toolStarted("a"))},
			step{2 * minute, see(InTool, "startup -, idle -, tool 14m, total 28m, stall -, completion -")},
			step{2 * minute, func(w *Watch) {
				if s := w.State(); len(s.Calls) != 1 || s.Calls[0] != (Call{"a", "Bash", "", minute}) || s.Bytes != 11 {
					t.Errorf("%+v", s)
				}
			}},
			step{3 * minute, tell(toolFinished("a"))},
			step{3 * minute, tell(retry(agent.Overloaded, minute))},
			step{3*minute + 30*sec, see(Waiting, "startup -, idle 5m30s, tool -, total 26m30s, stall 5m30s, completion -")},
			step{5 * minute, tell(turnEnded)},
			step{5*minute + 10*sec, see(Finishing, "startup -, idle 4m50s, tool -, total 24m50s, stall -, completion 20s")},
		)
		see(Over, "startup -, idle 4m30s, tool -, total 24m30s, stall -, completion 0s")(w)
	})
}

// What an agent says must not make us remember without bound, nor print
// control characters.
func TestHostileReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Clocks{}, Limits{}, nil)
		v, _ := play(t, w, step{sec, func(w *Watch) {
			for i := range 10 * maxCalls {
				w.Read(agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{ID: fmt.Sprint(i), Name: "\x1b[2J" + strings.Repeat("x", 1000)}})
			}
			for _, k := range []agent.Kind{agent.KindToolStarted, agent.KindToolFinished, agent.KindRetry, "nonsense"} {
				w.Read(agent.Reading{Kind: k}) // nothing in it
			}
			w.Read(tasks(-5))
			if n := len(w.State().Calls); n != maxCalls {
				t.Errorf("%d calls remembered", n)
			}
		}})
		if strings.ContainsRune(v.Text, 0x1b) || len(v.Text) > 200 {
			t.Errorf("%q", v.Text)
		}
	})
}

// The times of the watch come from the monotonic clock: a jump of the wall
// clock is not in them.
func TestMonotonic(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := New(Clocks{}, Limits{}, nil)
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	for w.State().Elapsed == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if !strings.Contains(w.base.String(), "m=") {
		t.Errorf("no monotonic reading in %v", w.base)
	}
}

func TestOutputAllocatesNothing(t *testing.T) {
	w := New(Clocks{}, Limits{Output: 1 << 60}, nil)
	if n := testing.AllocsPerRun(1000, func() { w.Output(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkOutput: at most 10 ns.
func BenchmarkOutput(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	w := New(Clocks{}, Limits{Output: 1 << 62}, nil)
	go w.Run(ctx)
	for b.Loop() {
		w.Output(1)
	}
}

// BenchmarkCounter is what one atomic addition costs on the same machine.
func BenchmarkCounter(b *testing.B) {
	var n atomic.Int64
	for b.Loop() {
		n.Add(1)
	}
}
