package watch

import (
	"fmt"
	"strconv"
)

// The names of the budgets on what the agent uses: in Verdict.Detail and in
// Excess.Limit.
const (
	TokenLimit    = "tokens"
	CostLimit     = "cost"
	SubagentLimit = "subagents"
)

// Excess says that a budget is exceeded.
type Excess struct {
	Limit string // TokenLimit, CostLimit or SubagentLimit
	Text  string // one line for a person, with what to change
}

// Exceeded compares what an agent used with the limits. nil: it is within them.
// What is used up to the last token is within.
func (l Limits) Exceeded(tokens int64, usd float64, subagents int) *Excess {
	switch {
	case l.Tokens > 0 && tokens > l.Tokens:
		return &Excess{TokenLimit, fmt.Sprintf("the agent used %d tokens, more than %d (--max-tokens)", tokens, l.Tokens)}
	case l.CostUSD > 0 && usd > l.CostUSD:
		return &Excess{CostLimit, fmt.Sprintf("the agent cost $%s, more than $%s (--max-cost)", dollars(usd), dollars(l.CostUSD))}
	case l.Subagents > 0 && subagents > l.Subagents:
		return &Excess{SubagentLimit, fmt.Sprintf("the agent started %d sub-agents, more than %d (--max-subagents)", subagents, l.Subagents)}
	}
	return nil
}

// Spent says what the agent used so far. Call it after Read of the same reading.
//
// After a terminal event nothing more is spent, and the process is left to end by
// itself: a CLI that is ended while it writes its session down leaves one that
// cannot be resumed. A new turn then begins over budget, and is not let.
func (w *Watch) Spent(tokens int64, usd float64, subagents int) {
	x := w.limits.Exceeded(tokens, usd, subagents)
	if x == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		w.over = x
		return
	}
	w.decide(OverBudget, x.Limit, x.Text)
	w.wake()
}

// dollars writes an amount so that two that differ look different: four digits
// behind the point, or as many as a small one needs.
func dollars(usd float64) string {
	if usd >= 0.01 {
		return strconv.FormatFloat(usd, 'f', 4, 64)
	}
	return strconv.FormatFloat(usd, 'g', 4, 64)
}
