package meter

import (
	"fmt"
	"math"
	"testing"

	"github.com/rein-run/rein/agent"
)

func use(scope agent.Scope, id string, in, out int64) agent.Reading {
	return agent.Reading{Kind: agent.KindUsage, Usage: &agent.Usage{ID: id, Scope: scope, Input: in, Output: out}}
}

func by(sub string, r agent.Reading) agent.Reading {
	r.SubAgent = sub
	return r
}

func total(rs ...agent.Reading) Totals {
	var m Meter
	for _, r := range rs {
		m.Add(r)
	}
	return m.Totals()
}

func TestCountedOnce(t *testing.T) {
	const req, turn, proc = agent.PerRequest, agent.PerTurn, agent.PerProcess
	for _, c := range []struct {
		name    string
		rs      []agent.Reading
		in, out int64
	}{
		// A line for each content block of one message (claude-code#6805).
		{"three lines, one message", []agent.Reading{use(req, "m", 100, 50), use(req, "m", 100, 50), use(req, "m", 100, 50)}, 100, 50},
		// The first line is a placeholder (ccusage#901).
		{"1, 3, 427", []agent.Reading{use(req, "m", 9, 1), use(req, "m", 9, 3), use(req, "m", 9, 427)}, 9, 427},
		{"a late placeholder", []agent.Reading{use(req, "m", 9, 427), use(req, "m", 9, 1)}, 9, 427},
		{"no id, no replacement", []agent.Reading{use(req, "", 9, 1), use(req, "", 9, 1)}, 18, 2},
		{"requests and their turn", []agent.Reading{use(req, "a", 100, 50), use(req, "b", 100, 50), use(turn, "", 200, 100)}, 200, 100},
		{"a turn that knows more", []agent.Reading{use(req, "a", 100, 50), use(turn, "", 220, 100)}, 220, 100},
		{"a turn of zeros wipes nothing", []agent.Reading{use(req, "a", 100, 50), use(turn, "", 0, 0), use(proc, "", 0, 0)}, 100, 50},
		{"two turns, sums of the process", []agent.Reading{use(req, "a", 100, 50), use(turn, "", 100, 50), use(proc, "", 100, 50), use(req, "b", 10, 5), use(turn, "", 10, 5), use(proc, "", 110, 55)}, 110, 55},
		{"two turns without requests", []agent.Reading{use(turn, "", 100, 50), use(turn, "", 10, 5)}, 110, 55},
		{"the process knows more", []agent.Reading{use(req, "a", 100, 50), use(turn, "", 100, 50), use(proc, "", 130, 60)}, 130, 60},
		{"sub-agents in the sum of the process", []agent.Reading{use(req, "a", 100, 50), by("t", use(req, "s", 30, 7)), use(turn, "", 100, 50), use(proc, "", 130, 57)}, 130, 57},
		// claude 2.1.332 prints three results together when its background
		// sub-agents are done.
		{"turns told long after their requests", []agent.Reading{use(req, "a", 100, 50), use(req, "b", 100, 50), by("t", use(req, "s", 30, 1)), use(turn, "", 100, 50), use(turn, "", 100, 50)}, 230, 101},
		{"turns that know more, one after the other", []agent.Reading{use(req, "a", 100, 50), use(turn, "", 220, 50), use(req, "b", 50, 5), use(turn, "", 60, 5), use(req, "c", 7, 7)}, 287, 62},
		{"a new turn's requests after a sum", []agent.Reading{use(proc, "", 100, 50), use(req, "a", 100, 50), use(req, "b", 10, 5)}, 110, 55},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := total(c.rs...); got.Input != c.in || got.Output != c.out {
				t.Errorf("%d in %d out, want %d and %d", got.Input, got.Output, c.in, c.out)
			}
		})
	}
}

// The largest of each field would mix the two models (omarchy#10606).
func TestModelSwitchKeepsTheWholeLine(t *testing.T) {
	a, b := use(agent.PerRequest, "m", 5, 10), use(agent.PerRequest, "m", 900, 427)
	a.Usage.Model, a.Usage.CacheRead, b.Usage.Model = "opus", 1000, "sonnet"
	got := total(a, b)
	if got.Input != 900 || got.Output != 427 || got.CacheRead != 0 {
		t.Errorf("%+v", got)
	}
}

func TestThread(t *testing.T) {
	thread := func(in, out int64) agent.Reading { return use(agent.PerThread, "", in, out) }
	var fresh Meter
	fresh.Add(thread(10, 5))
	fresh.Add(thread(30, 15)) // openai/codex#17539: cumulative, not to be summed
	if got := fresh.Totals(); got.Input != 30 || got.Output != 15 || got.EarlierRuns {
		t.Errorf("fresh: %+v", got)
	}

	resumed := Meter{Resumed: true, Baseline: fresh.Thread()}
	resumed.Add(thread(50, 20))
	if got := resumed.Totals(); got.Input != 20 || got.Output != 5 || got.EarlierRuns {
		t.Errorf("resumed: %+v", got)
	}

	unknown := Meter{Resumed: true}
	unknown.Add(thread(50, 20))
	unknown.Add(thread(60, 21))
	if got := unknown.Totals(); got.Input != 60 || !got.EarlierRuns {
		t.Errorf("unknown baseline: %+v", got)
	}

	compacted := Meter{}
	compacted.Add(thread(100, 50))
	compacted.Add(thread(20, 5))
	compacted.Add(thread(25, 6))
	if got := compacted.Totals(); got.Input != 125 || got.Output != 56 {
		t.Errorf("compacted: %+v", got)
	}
	if (&Meter{}).Thread() != nil {
		t.Error("a sum that nobody told")
	}
}

func TestDelegated(t *testing.T) {
	spawn := agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{Name: "Task", Spawns: true}}
	got := total(spawn, agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{Name: "Bash"}},
		use(agent.PerRequest, "a", 100, 50), by("t1", use(agent.PerRequest, "s", 30, 1)), by("t1", use(agent.PerRequest, "s", 30, 7)))
	if got.Delegated != 37 || got.Subagents != 1 || got.ToolCalls != 2 || got.Input != 130 || got.Counted() != 187 {
		t.Errorf("%+v", got)
	}
}

func TestNeverGoesDown(t *testing.T) {
	var m Meter
	m.Add(use(agent.PerRequest, "m", 1000, 1))
	before := m.Totals()
	m.Add(use(agent.PerRequest, "m", 10, 427))
	m.Add(use(agent.PerProcess, "", 1, 1))
	after := m.Totals()
	if after.Input < before.Input || after.Output < before.Output {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func TestCost(t *testing.T) {
	cost := func(s agent.Scope, id string, usd float64) agent.Reading {
		r := use(s, id, 1, 1)
		r.Usage.CostUSD = usd
		return r
	}
	if got := total(use(agent.PerRequest, "a", 1, 1)); got.CostSource != "none" || got.CostUSD != 0 {
		t.Errorf("%+v", got)
	}
	if got := total(cost(agent.PerRequest, "a", 0.5), cost(agent.PerRequest, "a", 0.5), cost(agent.PerRequest, "b", 0.25)); got.CostUSD != 0.75 || got.CostSource != "agent" {
		t.Errorf("%+v", got)
	}
	if got := total(cost(agent.PerProcess, "", 2), cost(agent.PerProcess, "", 3)); got.CostUSD != 3 {
		t.Errorf("%+v", got)
	}
}

func TestHostileNumbers(t *testing.T) {
	var m Meter
	for i := range 3 * maxOpen {
		r := use(agent.PerRequest, fmt.Sprint(i), math.MaxInt64, -5)
		r.Usage.CostUSD = math.NaN()
		m.Add(r)
	}
	if len(m.open) > maxOpen || len(m.order) > maxOpen {
		t.Errorf("%d requests are kept", len(m.open))
	}
	got := m.Totals()
	if got.Input <= 0 || got.Output != 0 || got.Counted() <= 0 || math.IsNaN(got.CostUSD) {
		t.Errorf("%+v", got)
	}
}
