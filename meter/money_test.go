package meter

import (
	"math"
	"testing"

	"github.com/rein-run/rein/agent"
)

func TestPrices(t *testing.T) {
	own := Prices{"claude-opus-5": {Input: 1, Output: 2}, "house/Model-7.1": {Input: 3, Output: 4}}
	for id, want := range map[string]float64{ // the input price; 0: none is known
		"claude-sonnet-4-5":                            3,
		"claude-sonnet-4-5-20250929":                   3,
		"claude-sonnet-4-5-latest":                     3,
		"claude-sonnet-4-5[1m]":                        3,
		"anthropic/claude-sonnet-4.5":                  3,
		"openrouter/anthropic/claude-sonnet-4.5":       3,
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0": 3,
		"claude-sonnet-4-5@20250929":                   3,
		"Claude-Sonnet-4-5":                            3,
		// The longest row wins: 5-5 is not 5.
		"claude-sonnet-5":          2,
		"claude-opus-5-5-20261001": 4,
		"gpt-5.2-codex":            1.75,
		"openai/gpt-5-2025-08-07":  1.25,
		"gpt-5-mini":               0.25,
		// Another model is not priced as the one whose name it begins with.
		"claude-opus-4-9":      0,
		"claude-sonnet-5-6":    0,
		"gpt-5-turbo":          0,
		"gpt-5.2-codex-mini":   0,
		"gpt-55":               0,
		"sonnet":               0,
		"":                     0,
		"/":                    0,
		"claude-sonnet-4-5-99": 0,
		// The user's own prices win over the table.
		"claude-opus-5":          1,
		"claude-opus-5-20260101": 1,
		"claude-opus-5-5":        4,
		"model-7.1":              3,
		"x/model-7-1":            3,
	} {
		r, ok := own.find(id)
		if r.price.Input != want || ok != (want > 0) || own.Known(id) != ok {
			t.Errorf("%q: %v, want %v", id, r.price.Input, want)
		}
	}
	// Of two rows that an id begins with, the longer one is meant.
	dated := Prices{"m-1": {Input: 1}, "m-1-20260101": {Input: 2}, "m-1-20260101[1m]": {Input: 3}}
	for range 20 { // a map has no order
		if r, _ := dated.find("m-1-20260101@latest"); r.price.Input != 2 {
			t.Fatalf("%+v", r)
		}
	}
	for _, r := range table {
		if err := r.price.Validate(); err != nil || plainID(r.model) != r.model {
			t.Errorf("%s: %v: no id can match it", r.model, err)
		}
		if (r.above > 0) != (r.long != Price{}) {
			t.Errorf("%s: half a price for long prompts", r.model)
		}
	}
	for _, p := range []Price{{}, {Input: -1}, {Output: math.NaN()}, {Input: math.Inf(1)}} {
		if p.Validate() == nil {
			t.Errorf("%+v is a price", p)
		}
	}
}

// ask is one request of a model.
func ask(id, model string, in, out int64) agent.Reading {
	r := use(agent.PerRequest, id, in, out)
	r.Usage.Model = model
	return r
}

func paid(scope agent.Scope, usd float64) agent.Reading {
	r := use(scope, "", 0, 0)
	r.Usage.CostUSD = usd
	return r
}

const million = 1_000_000

func TestMoney(t *testing.T) {
	const opus, haiku = "claude-opus-5-5", "claude-haiku-4-5"
	long := ask("h", "claude-haiku-5-5", 50_000, 0)
	long.Usage.CacheRead = 50_001
	for _, c := range []struct {
		name     string
		rs       []agent.Reading
		usd      float64
		source   string
		unpriced string
	}{
		{"an estimate", []agent.Reading{ask("a", opus, million, million)}, 24, FromTable, ""},
		{"each request by its own model", []agent.Reading{ask("a", opus, million, 0), ask("b", haiku, million, 0)}, 5, FromTable, ""},
		// A fall-back in the middle of one message: the whole line at its own price.
		{"model switch inside one id", []agent.Reading{ask("a", opus, million, 1), ask("a", haiku, million, million)}, 6, FromTable, ""},
		{"a long prompt, cache included", []agent.Reading{long}, (0.5*50_000 + 0.05*50_001) / million, FromTable, ""},
		{"the agent's own figure replaces the estimate", []agent.Reading{ask("a", opus, million, million), paid(agent.PerProcess, 9)}, 9, FromAgent, ""},
		{"a figure of zero does not", []agent.Reading{ask("a", opus, million, 0), paid(agent.PerProcess, 0)}, 4, FromTable, ""},
		{"nor does one that has not grown", []agent.Reading{ask("a", opus, million, 0), paid(agent.PerProcess, 9), ask("b", opus, million, 0), paid(agent.PerProcess, 9)}, 13, FromTable, ""},
		{"a new turn after a figure", []agent.Reading{ask("a", opus, million, 0), paid(agent.PerProcess, 9), ask("b", opus, million, 0)}, 13, FromTable, ""},
		{"and its figure", []agent.Reading{ask("a", opus, million, 0), paid(agent.PerProcess, 9), ask("b", opus, million, 0), paid(agent.PerProcess, 10)}, 10, FromAgent, ""},
		{"unknown model", []agent.Reading{ask("a", "mystery-1", million, 0)}, 0, FromNowhere, "mystery-1"},
		{"one of two unknown", []agent.Reading{ask("a", opus, million, 0), ask("b", "mystery-1", million, 0)}, 4, FromTable, "mystery-1"},
		{"unknown, but the agent knows", []agent.Reading{ask("a", "mystery-1", million, 0), paid(agent.PerProcess, 2)}, 2, FromAgent, ""},
		{"no model at all", []agent.Reading{use(agent.PerThread, "", million, 0)}, 0, FromNowhere, "unknown"},
		{"nothing used", nil, 0, FromNowhere, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := total(c.rs...); math.Abs(got.CostUSD-c.usd) > 1e-9 || got.CostSource != c.source || got.Unpriced != c.unpriced {
				t.Errorf("$%v from %s, unpriced %q; want $%v from %s, %q", got.CostUSD, got.CostSource, got.Unpriced, c.usd, c.source, c.unpriced)
			}
		})
	}
	m := Meter{Model: "gpt-5.2-codex"}
	m.Add(use(agent.PerThread, "", million, 0))
	if got := m.Totals(); got.CostUSD != 1.75 || got.CostSource != FromTable {
		t.Errorf("the model that was asked for: %+v", got)
	}
	// A pi whose settings have no price for the model says 0.
	m = Meter{Prices: Prices{"local": {Input: 1, Output: 1}}}
	m.Add(ask("a", "local", million, 0))
	if got := m.Totals(); got.CostUSD != 1 {
		t.Errorf("the user's own price: %+v", got)
	}
}

// What a resumed run tells before its turn begins is the old turn's
// (agent-adaptor#23): it is shown until then, and taken back.
func TestReplay(t *testing.T) {
	begin := agent.Reading{Kind: agent.KindTurnStarted}
	m := Meter{Resumed: true}
	m.Add(ask("old", "claude-opus-5-5", 500, 50))
	m.Add(agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{Spawns: true}})
	m.Add(use(agent.PerThread, "", 1000, 100))
	if got := m.Totals(); got.Input != 1000 || !got.EarlierRuns {
		t.Errorf("a stream without turns: %+v", got)
	}
	m.Add(begin)
	if got := m.Totals(); !got.Zero() || got.ToolCalls != 0 || got.Subagents != 0 || got.CostUSD != 0 {
		t.Errorf("the replay is charged: %+v", got)
	}
	m.Add(use(agent.PerThread, "", 1100, 120))
	m.Add(begin) // a second turn of the same run takes nothing back
	if got := m.Totals(); got.Input != 100 || got.Output != 20 || got.EarlierRuns {
		t.Errorf("%+v", got)
	}
	if th := m.Thread(); th == nil || th.Input != 1100 {
		t.Errorf("the next baseline is %+v", th)
	}
	// A baseline that is known is not replaced by what is told again.
	m = Meter{Resumed: true, Baseline: &agent.Usage{Input: 900, Output: 90}}
	m.Add(use(agent.PerThread, "", 950, 95))
	m.Add(begin)
	m.Add(use(agent.PerThread, "", 1000, 100))
	if got := m.Totals(); got.Input != 100 || got.Output != 10 {
		t.Errorf("%+v", got)
	}
}
