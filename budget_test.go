package rein_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/meter"
	"github.com/rein-run/rein/watch"
)

func used(in, out int64) *fakeagent.Usage { return &fakeagent.Usage{In: in, Out: out} }

// A run that is over its budget is ended in the middle of its turn, with its
// whole tree, and the report says what was spent until then.
func TestOverBudget(t *testing.T) {
	spawn := fakeagent.Step{Do: "spawn", How: "setsid", Ignore: true}
	hang := fakeagent.Step{Do: "hang"}
	sub := func(text string, steps ...fakeagent.Step) fakeagent.Step {
		return fakeagent.Step{Do: "subagent", Text: text, Steps: steps, Usage: used(1, 1)}
	}
	for _, c := range []struct {
		name, agent string
		limits      watch.Limits
		steps       []fakeagent.Step
		detail      string
		min         rein.Usage // of what the report says
	}{
		{
			"tokens", "claude",
			watch.Limits{Tokens: 1500},
			[]fakeagent.Step{{Do: "text", Text: "a", Usage: used(1000, 100)}, spawn, {Do: "text", Text: "b", Usage: used(400, 50)}, hang},
			"tokens",
			rein.Usage{InputTokens: 1400, OutputTokens: 101},
		},
		{
			// Each is below the budget, together they are not.
			"tokens of sub-agents", "claude",
			watch.Limits{Tokens: 1500},
			[]fakeagent.Step{spawn, {Do: "text", Text: "a", Usage: used(900, 10)}, sub("look", fakeagent.Step{Do: "text", Text: "b", Usage: used(700, 50)}, hang)},
			"tokens",
			rein.Usage{InputTokens: 1601, DelegatedTokens: 701, Subagents: 1},
		},
		{
			"sub-agents", "claude",
			watch.Limits{Subagents: 2},
			[]fakeagent.Step{spawn, sub("one"), sub("two"), sub("three", hang), hang},
			"subagents",
			rein.Usage{Subagents: 3},
		},
		{
			"money by prices", "claude",
			watch.Limits{CostUSD: 0.009}, // opus-5-5: 4 and 20 USD
			[]fakeagent.Step{spawn, {Do: "text", Text: "a", Usage: used(2000, 100)}, hang},
			"cost",
			rein.Usage{InputTokens: 2000, CostUSD: 0.0099},
		},
		{
			"money as the agent tells it", "pi",
			watch.Limits{CostUSD: 0.0015},
			[]fakeagent.Step{spawn, {Do: "text", Text: "a", Usage: used(2000, 100)}, hang},
			"cost",
			rein.Usage{InputTokens: 2000, CostUSD: 0.0015},
		},
		{
			"tokens of pi", "pi",
			watch.Limits{Tokens: 2000},
			[]fakeagent.Step{spawn, {Do: "text", Text: "a", Usage: used(2000, 1)}, hang},
			"tokens",
			rein.Usage{InputTokens: 2000, OutputTokens: 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			task := s.scenario(c.agent, fakeagent.Scenario{Steps: c.steps})
			task.Limits = c.limits
			rep := s.do(task)
			if rep.End != (rein.End{Kind: rein.OverBudget, Detail: c.detail}) || rep.ExitCode() != rein.ExitOverBudget {
				t.Fatalf("end %+v, exit %d: %s", rep.End, rep.ExitCode(), rep.Failure)
			}
			u := rep.Usage
			if u.InputTokens < c.min.InputTokens || u.OutputTokens < c.min.OutputTokens || u.DelegatedTokens < c.min.DelegatedTokens ||
				u.Subagents < c.min.Subagents || u.CostUSD < c.min.CostUSD {
				t.Errorf("usage %+v, want at least %+v", u, c.min)
			}
			if has(rep, rein.FoundBudgetBlind) {
				t.Errorf("findings %+v", rep.Findings)
			}
		})
	}
}

// A result that was read first stands: the work is done. What the turn after it
// would spend is not let be spent.
func TestBudgetAfterResult(t *testing.T) {
	steps := []fakeagent.Step{{Do: "text", Text: "done", Usage: used(1000, 100)}, {Do: "result"}}
	for _, name := range []string{"claude", "codex"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			task := s.scenario(name, fakeagent.Scenario{Steps: steps})
			task.Limits.Tokens = 1099
			if name == "claude" {
				// Told by the result alone, as the tokens of claude's sub-agents are.
				task = s.scenario(name, fakeagent.Scenario{Steps: []fakeagent.Step{
					{Do: "raw", Text: `{"type":"system","subtype":"init","session_id":"s","model":"claude-opus-5-5"}` + "\n"},
					{Do: "raw", Text: `{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","total_cost_usd":1,"modelUsage":{"claude-opus-5-5":{"inputTokens":1000,"outputTokens":100}}}` + "\n"},
				}})
				task.Limits.Tokens = 1099
			}
			rep := s.do(task)
			if !rep.OK || rep.End != (rein.End{Kind: rein.Exited}) || !has(rep, rein.FoundLimitAfterResult) || rep.Answer != "done" {
				t.Errorf("end %+v, ok %v, answer %q, findings %+v", rep.End, rep.OK, rep.Answer, rep.Findings)
			}
			if blind := has(rep, rein.FoundBudgetBlind); blind != (name == "codex") {
				t.Errorf("findings %+v", rep.Findings)
			}
		})
	}
	t.Run("a second turn", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		task := s.task(
			fakeagent.Step{Do: "raw", Text: `{"type":"result","subtype":"success","is_error":false,"result":"one","session_id":"s","modelUsage":{"m-1":{"inputTokens":2000,"outputTokens":100}}}` + "\n"},
			fakeagent.Step{Do: "raw", Text: `{"type":"system","subtype":"init","session_id":"s","model":"claude-opus-5-5"}` + "\n"},
			fakeagent.Step{Do: "hang"},
		)
		task.Limits.Tokens = 2000
		if rep := s.do(task); rep.End != (rein.End{Kind: rein.OverBudget, Detail: "tokens"}) {
			t.Errorf("end %+v", rep.End)
		}
	})
}

// blind is a claude that shows neither tools nor tokens.
type blind struct{ agent.Agent }

func (b blind) Capabilities(v string) agent.Capabilities {
	c := b.Agent.Capabilities(v)
	c.Usage, c.UsageLive, c.Cost, c.Tools = false, false, false, false
	return c
}

func (b blind) VersionArgs() []string             { return b.Agent.(agent.Prober).VersionArgs() }
func (b blind) ParseVersion(output []byte) string { return b.Agent.(agent.Prober).ParseVersion(output) }

// A budget that could never hold is refused before anything is spawned; one that
// can be late, or may lack a price, is said.
func TestBudgetSight(t *testing.T) {
	claude, err := rein.Agents().Lookup("claude")
	if err != nil {
		t.Fatal(err)
	}
	silent := agent.New(blind{claude})
	for _, c := range []struct {
		name, agent string
		set         func(*rein.Task, *rein.Options)
		refused     string // the field, "" when it is started
		warns       string
	}{
		{"claude can", "claude", func(t *rein.Task, _ *rein.Options) { t.Limits = watch.Limits{Tokens: 1, CostUSD: 1, Subagents: 1} }, "", ""},
		{"claude, an alias", "claude", func(t *rein.Task, _ *rein.Options) { t.Limits.CostUSD, t.Model = 1, "opus[1m]" }, "", ""},
		{"claude, a model without a price", "claude", func(t *rein.Task, _ *rein.Options) { t.Limits.CostUSD, t.Model = 1, "claude-opus-99" }, "", "no price of claude-opus-99"},
		{"codex tells tokens late", "codex", func(t *rein.Task, _ *rein.Options) { t.Limits.Tokens = 1 }, "", "only when the turn is over"},
		{"codex tells no model", "codex", func(t *rein.Task, _ *rein.Options) { t.Limits.CostUSD = 1 }, "--max-cost", "--model"},
		{"codex, a model without a price", "codex", func(t *rein.Task, _ *rein.Options) { t.Limits.CostUSD, t.Model = 1, "gpt-99" }, "--max-cost", "prices"},
		{"codex, the user's own price", "codex", func(t *rein.Task, o *rein.Options) {
			t.Limits.CostUSD, t.Model, o.Prices = 1, "gpt-99", meter.Prices{"gpt-99": {Input: 1}}
		}, "", "only when the turn is over"},
		{"codex counts sub-agents", "codex", func(t *rein.Task, _ *rein.Options) { t.Limits.Subagents = 1 }, "", ""},
		{"pi tells money", "pi", func(t *rein.Task, _ *rein.Options) { t.Limits.CostUSD = 1 }, "", ""},
		{"tokens of a silent one", "claude", func(t *rein.Task, o *rein.Options) { t.Limits.Tokens, o.Agents = 1, silent }, "--max-tokens", "--total"},
		{"money of a silent one", "claude", func(t *rein.Task, o *rein.Options) { t.Limits.CostUSD, o.Agents = 1, silent }, "--max-cost", "--total"},
		{"pi has no sub-agents to count", "pi", func(t *rein.Task, _ *rein.Options) { t.Limits.Subagents = 1 }, "--max-subagents", "--max-subagents none"},
		{"sub-agents of a silent one", "claude", func(t *rein.Task, o *rein.Options) { t.Limits.Subagents, o.Agents = 1, silent }, "--max-subagents", "--total"},
		{"no number", "claude", func(t *rein.Task, _ *rein.Options) { t.Limits.CostUSD = -1 }, "limits", "positive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			task, opts := s.scenario(c.agent, fakeagent.Scenario{}), s.opts
			c.set(&task, &opts)
			plan, err := rein.Describe(context.Background(), task, &opts)
			if c.refused != "" {
				var te *rein.TaskError
				if !errors.As(err, &te) || te.Field != c.refused || !strings.Contains(err.Error(), c.warns) {
					t.Errorf("%v, want %s: …%s", err, c.refused, c.warns)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(plan.Warnings, "; "); !strings.Contains(got, c.warns) || (c.warns == "") != (got == "") {
				t.Errorf("warnings %q, want %q", got, c.warns)
			}
		})
	}
}

// A model whose price turns out not to be known is said while the run goes on.
func TestUnpricedIsSaid(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	task := s.scenario("claude", fakeagent.Scenario{Model: "claude-mystery-1", Steps: []fakeagent.Step{
		{Do: "text", Text: "a", Usage: used(1000, 100)}, {Do: "hang"},
	}})
	task.Limits.CostUSD = 1
	r := s.start(task)
	for end := time.Now().Add(patience); len(r.State().Warnings) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is said")
		}
	}
	r.Cancel("test")
	rep := s.wait(r)
	if !has(rep, rein.FoundBudgetBlind) || rep.Usage.CostSource != meter.FromNowhere {
		t.Errorf("findings %+v, usage %+v", rep.Findings, rep.Usage)
	}
}
