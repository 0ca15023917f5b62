//go:build real

package real

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/internal/fakemodel"
)

// wantTold says that what the report counts is what the model told.
func wantTold(t *testing.T, what string, u rein.Usage, told fakemodel.Usage) {
	t.Helper()
	got := fakemodel.Usage{Input: u.InputTokens, Output: u.OutputTokens, CacheRead: u.CacheReadTokens, CacheWrite: u.CacheWriteTokens}
	if got != told {
		t.Errorf("%s: the report says %+v, the model told %+v", what, got, told)
	}
}

// --max-tokens ends a real CLI in the middle of its turn, with all that its
// tools had started, and the report has what the model told until then. codex
// tells its tokens only when the turn is over: that is said before, and the
// result stands.
func TestReinMaxTokensMidTurn(t *testing.T) {
	for _, s := range subjects {
		if s.untold {
			continue // it tells none, and the budget is refused
		}
		t.Run(s.name, func(t *testing.T) { maxTokensMidTurn(t, s) })
	}
}

func maxTokensMidTurn(t *testing.T, s subject) {
	command, n := every()
	over := fakemodel.Turn{Text: "More.", In: 5000, Out: 70, CacheRead: 11, Tools: []fakemodel.Call{s.shell(`python3 -c 'import time; time.sleep(3600)'`)}}
	switch s.name {
	case "claude":
		// The input is told before the answer, which never comes.
		over = fakemodel.Turn{Text: "More and more and more.", In: 5000, Out: 70, CacheRead: 11, Hang: "mid"}
	case "codex", "gemini":
		over = fakemodel.Turn{Text: "Done.", In: 5000, Out: 70, CacheRead: 11}
	}
	g := newStage(t, s, fakemodel.Script{Turns: []fakemodel.Turn{
		{Text: "run", In: 700, Out: 30, Tools: []fakemodel.Call{s.shell(command + "; echo started")}}, over, {Text: "never"},
	}})
	g.task.Limits.Tokens = 3000
	rep := g.do()
	if left := alive(g.pids(n)); len(left) > 0 {
		t.Errorf("alive: %v", left)
	}
	wantTold(t, "killed", rep.Usage, g.model.Told())
	if s.name == "codex" || s.name == "gemini" {
		if !rep.OK || !has(rep, rein.FoundBudgetBlind) || !has(rep, rein.FoundLimitAfterResult) {
			t.Errorf("ok %v, findings %+v: %s", rep.OK, rep.Findings, says(rep))
		}
		return
	}
	if rep.End != (rein.End{Kind: rein.OverBudget, Detail: "tokens"}) {
		t.Errorf("end %+v: %s", rep.End, says(rep))
	}
	if len(g.model.Requests()) != 2 {
		t.Errorf("%d requests", len(g.model.Requests()))
	}
	if rep.Usage.CostUSD == 0 && s.name != "qwen" && s.name != "grok" { // claude by prices, pi by its own; grok tells it at the end
		t.Errorf("usage %+v", rep.Usage)
	}
}

// Real sub-agents of claude: their tokens are in the totals, as a share of them,
// and count for the budget as they stream.
func TestReinSubagents(t *testing.T) {
	const ask = "DELEGATED please look"
	task := func(n int) (calls []fakemodel.Call) {
		for range n {
			calls = append(calls, fakemodel.Tool("Task", in{"description": "look", "prompt": ask, "subagent_type": "general-purpose", "run_in_background": false}))
		}
		return calls
	}
	script := func(n int, sub ...fakemodel.Turn) fakemodel.Script {
		return fakemodel.Script{
			Turns:  []fakemodel.Turn{{Text: "I delegate.", In: 1000, Out: 40, CacheRead: 7, CacheWrite: 3, Tools: task(n)}, {Text: "All done.", In: 1200, Out: 60}},
			Routes: []fakemodel.Route{{Match: `"text":"` + ask, Turns: sub}},
		}
	}
	claude := subjects[0]
	t.Run("totals", func(t *testing.T) {
		g := newStage(t, claude, script(2, fakemodel.Turn{Text: "I look.", In: 500, Out: 300, Repeat: 2}))
		rep := g.do()
		wantTold(t, "finished", rep.Usage, g.model.Told())
		if u := rep.Usage; !rep.OK || u.Subagents != 2 || u.DelegatedTokens != 1600 || u.CostSource != "agent" {
			t.Errorf("ok %v, %+v: %s", rep.OK, u, says(rep))
		}
	})
	t.Run("tokens", func(t *testing.T) {
		g := newStage(t, claude, script(1, fakemodel.Turn{
			Text: "I look.", In: 2500, Out: 50,
			Tools: []fakemodel.Call{claude.shell(`python3 -c 'import os, time; open("pids", "a").write(str(os.getpid()) + "\n"); time.sleep(3600)'`)},
		}, fakemodel.Turn{Text: "never", Repeat: -1}))
		g.task.Limits.Tokens = 3000 // the agent alone uses 1043
		rep := g.do()
		if rep.End != (rein.End{Kind: rein.OverBudget, Detail: "tokens"}) || rep.Usage.InputTokens != g.model.Told().Input || rep.Usage.DelegatedTokens < 2500 {
			t.Errorf("end %+v, %+v, told %+v: %s", rep.End, rep.Usage, g.model.Told(), says(rep))
		}
		b, _ := os.ReadFile(filepath.Join(g.dir, "pids"))
		if len(b) > 0 { // the tool may have begun or not
			if left := alive(g.pids(1)); len(left) > 0 {
				t.Errorf("alive: %v", left)
			}
		}
	})
	t.Run("count", func(t *testing.T) {
		g := newStage(t, claude, script(3, fakemodel.Turn{Text: "I look.", Hang: "mid", Repeat: -1}))
		g.task.Limits.Subagents = 2
		rep := g.do()
		if rep.End != (rein.End{Kind: rein.OverBudget, Detail: "subagents"}) || rep.Usage.Subagents != 3 {
			t.Errorf("end %+v, %+v: %s", rep.End, rep.Usage, says(rep))
		}
	})
}

// A real CLI that is overloaded after it had worked: the next attempt goes on in
// the same session, does nothing twice, and is charged for itself alone.
func TestReinRetries(t *testing.T) {
	eachCLI(t, func(t *testing.T, s subject) {
		fail := fakemodel.Turn{Status: 529, ErrType: "overloaded_error", ErrMessage: "Overloaded", Repeat: -1}
		if s.name == "codex" || s.name == "grok" { // they repeat a 5xx for minutes, a 429 once or never
			fail = fakemodel.Turn{Status: 429, ErrMessage: "slow down", Repeat: -1}
		}
		g := newStage(t, s, fakemodel.Script{
			Turns:  []fakemodel.Turn{{Text: "I work.", In: 700, Out: 30, Tools: []fakemodel.Call{s.shell("echo once >> did.txt")}}, fail},
			Routes: []fakemodel.Route{{Match: "Go on with the task that you were given", Turns: []fakemodel.Turn{{Text: "All is done.", In: 900, Out: 20}}}},
		})
		if s.name == "claude" {
			g.task.Env["CLAUDE_CODE_MAX_RETRIES"] = "0" // else it repeats for minutes
		}
		var first *rein.Report
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		rep, err := rein.Retry(ctx, g.task, &rein.RetryOptions{Retries: 1, Backoff: time.Millisecond, Again: func(rep *rein.Report, _ rein.Pause) { first = rep }}, &g.opts)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil || !rep.OK || rep.Answer != "All is done." || rep.Attempt != 2 || rep.RetryOf != first.ID || rep.SessionID != first.SessionID {
			t.Fatalf("ok %v, answer %q, attempt %d: %s", rep.OK, rep.Answer, rep.Attempt, says(rep))
		}
		if b, err := os.ReadFile(filepath.Join(g.dir, "did.txt")); strings.TrimSpace(string(b)) != "once" {
			t.Errorf("did %q, %v", b, err)
		}
		one, two := fakemodel.Usage{Input: 700, Output: 30}, fakemodel.Usage{Input: 900, Output: 20}
		if s.name == "codex" {
			// It tells no tokens of a turn that failed, and those of the whole
			// conversation with the next one: what is charged late is charged.
			one, two = fakemodel.Usage{}, fakemodel.Usage{Input: 1600, Output: 50}
		}
		if s.untold {
			return
		}
		wantTold(t, "first", first.Usage, one)
		wantTold(t, "second", rep.Usage, two)
	})
}
