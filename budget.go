package rein

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/meter"
)

// meterOutput prepares the meter of the run and has it tell the watch.
func (r *Run) meterOutput() {
	p, d := r.p, &r.out.digest
	d.meter.Resumed = p.task.Session.Resume != ""
	d.meter.Baseline = baseline(p.store, p.agent.Name(), p.task.Dir, p.task.Session)
	d.meter.Model, d.meter.Prices = p.task.Model, p.opts.Prices
	d.live = true
	d.session = p.cmd.SessionID
	d.limits, d.warnings = p.task.Limits, p.warnings
	d.nests = r.nests
	if l := d.limits; r.outer != nil || l.Tokens > 0 || l.CostUSD > 0 || l.Subagents > 0 {
		d.spent = func(t meter.Totals) {
			in := r.nests.usage()
			r.watch.Spent(t.Counted()+in.Counted(), t.CostUSD+in.CostUSD, t.Subagents+in.Subagents)
			r.outer.poke()
		}
	}
}

// budgetSight compares the budgets with what can be seen of this agent. A budget
// that could never be enforced is refused (law 11); one that is known only when
// a turn is over, or perhaps not at all, is a warning.
func budgetSight(name string, caps agent.Capabilities, task Task, prices meter.Prices) (warnings []string, err error) {
	l := task.Limits
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	switch {
	case l.Subagents == 0:
	case !caps.Tools:
		return nil, taskError("--max-subagents", "%s does not show what it starts, so its sub-agents cannot be counted: limit --total instead", name)
	case !caps.Subagents:
		return nil, taskError("--max-subagents", "the sub-agents of %s cannot be told from its other tools, so nothing would be counted: limit --max-tokens instead, which counts what the agent itself uses, or say --max-subagents none", name)
	}
	if l.Tokens > 0 {
		switch {
		case !caps.Usage:
			return nil, taskError("--max-tokens", "%s does not tell what it uses: limit --total instead", name)
		case !caps.UsageLive:
			warn("--max-tokens cannot end a turn of %s: it tells its tokens only when the turn is over", name)
		}
	}
	if l.CostUSD == 0 {
		return warnings, nil
	}
	model, known := task.Model, prices.Known(task.Model)
	switch {
	case caps.CostLive:
		// It tells money itself, request by request; what it has no price for is
		// found out when it tells none.
		if versioned(model) && !known {
			warn("--max-cost: no price of %s is known here, so it holds only if %s has one", model, name)
		}
	case caps.Usage && !caps.TellsModel && model == "":
		return nil, taskError("--max-cost", "%s does not tell which model it uses: name it with --model", name)
	case caps.Usage && !caps.TellsModel && !known:
		return nil, taskError("--max-cost", "no price of %s is known: put it under prices in your configuration file, or use --max-tokens", model)
	case !caps.Usage && !caps.Cost:
		return nil, taskError("--max-cost", "%s tells neither tokens nor money: limit --total instead", name)
	case !caps.UsageLive:
		warn("--max-cost cannot end a turn of %s: it tells what it used only when the turn is over", name)
	case versioned(model) && !known:
		warn("--max-cost cannot end a turn: no price of %s is known (prices in your configuration file)", model)
	}
	return warnings, nil
}

// versioned tells the id of a model from an alias such as "opus", which becomes
// an id when the agent says what answers.
func versioned(model string) bool {
	id, _, _ := strings.Cut(model, "[") // opus[1m]
	return strings.ContainsAny(id, "0123456789") || strings.ContainsAny(id, "-/")
}

// notes are the warnings so far: those of the start, and that a budget of money
// misses some of what was used.
func (d *digest) notes() []string {
	notes := slices.Clone(d.warnings)
	if t := d.meter.Totals(); d.limits.CostUSD > 0 && t.Unpriced != "" {
		notes = append(notes, fmt.Sprintf("--max-cost does not count what %s uses: no price is known (prices in your configuration file)", t.Unpriced))
	}
	return notes
}
