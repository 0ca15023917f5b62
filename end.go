package rein

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/boundary"
	"github.com/rein-run/rein/host/driver"
)

// stop is the first reason for which Rein itself ended a run.
type stop struct {
	end End
	// late is the clock or budget that ran out after the agent had finished: the
	// work was done, and a limit does not undo it.
	late     string
	evidence string // for gave_up: the agent's own words; for over_budget: how much, of what
}

// decideEnd is law 2: the end is decided by who ended the run, never by the
// exit code, and a run that was over before the first signal exited, whatever
// deadline has passed meanwhile.
func decideEnd(exit driver.Exit, s *stop) End {
	switch exit.Reason {
	case driver.Lost:
		return End{Kind: Lost, Detail: cmp.Or(exit.Detail, "stream")}
	case driver.Failed:
		return End{Kind: Aborted, Detail: exit.Detail}
	case driver.Exited, driver.Signaled:
		return End{Kind: Exited}
	}
	if s == nil {
		// The environment ended it and nobody here asked for it: its own time
		// to live, or a keeper that was told to end.
		return End{Kind: Lost, Detail: cmp.Or(exit.Detail, "ended by its host")}
	}
	return s.end
}

// spoolTrouble says where a keeper could not write what the agent wrote, and what
// helps. The keeper has no words but those of the system: what is there on a host
// is nothing that it knows.
func spoolTrouble(detail, where string) string {
	cause, ok := strings.CutPrefix(detail, "spool: ")
	if !ok {
		return detail
	}
	hint := ""
	switch {
	case strings.Contains(cause, syscall.ENOSPC.Error()):
		hint = ": free space on that file system, or keep runs on another with --state-dir"
	case strings.Contains(cause, syscall.EDQUOT.Error()):
		hint = ": free space within the quota, or keep runs elsewhere with --state-dir"
	case strings.Contains(cause, syscall.EFBIG.Error()):
		hint = ": raise the limit on the size of a file (ulimit -f)"
	}
	return clip("the transcript could not be written "+where+": "+cause+hint, maxEvidence)
}

// findings reads what was seen for what the user should know.
func findings(d *digest, end End, exit driver.Exit, s *stop, caps agent.Capabilities, askedModel string, b Boundary) []Finding {
	var out []Finding
	add := func(kind string, sev Severity, format string, args ...any) *Finding {
		out = append(out, Finding{Kind: kind, Severity: sev, Evidence: clip(fmt.Sprintf(format, args...), maxEvidence)})
		return &out[len(out)-1]
	}

	// What the agent said went wrong. A failure that it overcame by itself (a
	// retry, then success) is not one.
	if !d.succeeded() {
		reported := false
		for _, c := range []struct {
			class agent.Class
			kind  string
		}{
			{agent.Auth, FoundAuth},
			{agent.Billing, FoundBilling},
			{agent.RateLimit, FoundRateLimited},
			{agent.Overloaded, FoundOverloaded},
			{agent.Network, FoundNetwork},
			{agent.UnknownCommand, FoundUnknownCommand},
		} {
			f, ok := d.classes[c.class]
			if !ok || d.failure == nil || d.failure.Class != c.class {
				continue
			}
			add(c.kind, Error, "%s", f.Text).Until = f.Until
			reported = true
		}
		switch {
		case reported:
		case d.terminal != nil:
			text := "the agent reported a failure"
			if d.failure != nil && d.failure.Text != "" {
				text = d.failure.Text
			}
			add(FoundReportedError, Error, "%s", text)
		case d.failure != nil && end.Kind == Exited:
			add(FoundReportedError, Error, "%s", d.failure.Text)
		}
	}

	if end.Kind == Exited {
		if d.terminal == nil && caps.Terminal {
			add(FoundTerminalMissing, Error, "the agent ended without its terminal event")
		}
		if d.succeeded() && caps.Usage && d.meter.Totals().ToolCalls == 0 && d.meter.Totals().Zero() {
			kind := FoundNoWork
			if agent.Classify(0, d.answer()) == agent.UnknownCommand {
				kind = FoundUnknownCommand
			}
			add(kind, Error, "no model answered and no tool ran: %s", cmp.Or(d.answer(), "no output"))
		}
		if !end.Forced {
			if exit.Code != nil && *exit.Code != 0 {
				add(FoundExitNonzero, Error, "exit code %d", *exit.Code)
			}
			if exit.Signal != "" {
				add(FoundSignaled, Error, "killed by %s, which Rein did not send", exit.Signal)
			}
		}
	}
	if end.Forced && s != nil && s.late != "" {
		add(FoundLimitAfterResult, Warning, "the limit on %s ran out after the agent had finished", s.late)
	}
	t := d.meter.Totals()
	in := d.nests.usage()
	if x := d.limits.Exceeded(t.Counted()+in.Counted(), t.CostUSD+in.CostUSD, t.Subagents+in.Subagents); x != nil && end.Kind == Exited {
		// The agent was done before it was told to be.
		add(FoundLimitAfterResult, Warning, "%s; it was known only when the agent had finished", x.Text)
	}
	for _, w := range d.notes() {
		add(FoundBudgetBlind, Warning, "%s", w)
	}

	if len(exit.Survivors) > 0 {
		add(FoundSurvivors, Error, "could not be ended: %s", procNames(exit.Survivors))
	}
	if d.silent != "" {
		add(FoundGateSilent, Error, "%s", d.silent)
	}
	if d.damage != "" {
		add(FoundTranscript, Error, "%s", d.damage)
	}
	if d.rulesLeft != "" {
		add(FoundRulesLeft, Error, "%s", d.rulesLeft)
	}
	if len(b.Changes) > 0 {
		add(FoundBoundary, Error, "%s", inWords(b.Changes))
	}
	for _, r := range b.Remotes {
		// It answered before the run: an agent that pushed and then broke it looks
		// the same as a network that went away.
		if why, after := strings.CutPrefix(r.Why, boundary.AfterTheRun); after && !r.Checked {
			add(FoundRemoteSilent, Warning, "%s could not be compared: it answered before the run and does not any more: %s", r.Name, why)
		}
	}
	if moved := slices.DeleteFunc(slices.Clone(b.Others), func(c Change) bool { return c.By != boundary.Others }); len(moved) > 0 {
		add(FoundMovedByOthers, Warning, "%s", inWords(moved))
	}
	if len(exit.Leftovers) > 0 {
		add(FoundLeftovers, Warning, "left running by the agent and ended: %s", procNames(exit.Leftovers))
	}
	if len(exit.HeldBy) > 0 {
		add(FoundStdoutHeld, Warning, "stdout was held open by %s", procNames(exit.HeldBy))
	}
	for _, what := range d.warden.warnings() {
		add(FoundWarned, Warning, "%s", what)
	}
	if end.Kind == Halted && s != nil && d.silent == "" {
		add(FoundForbidden, Error, "%s: %s", end.Detail, s.evidence)
	}
	for _, what := range d.refused {
		add(FoundRefused, Warning, "%s", what)
	}
	if len(d.denied) > 0 {
		add(FoundDenied, Warning, "%s", strings.Join(d.denied, "; "))
	}
	if askedModel != "" && d.model != "" && !sameModel(askedModel, d.model) {
		add(FoundModelDiffers, Warning, "asked for %s, the agent used %s", askedModel, d.model)
	}
	return out
}

func inWords(changes []Change) string {
	words := make([]string, 0, len(changes))
	for _, c := range changes {
		words = append(words, strings.TrimSpace(c.What+" "+c.Ref))
	}
	return strings.Join(words, ", ")
}

// sameModel compares a model as a user names it with one as a CLI reports it:
// case, provider prefix and a version or date behind it do not count, and a
// family alias ("opus") is answered by any model of that name.
func sameModel(asked, used string) bool {
	norm := func(s string) string {
		s = strings.ToLower(strings.TrimSpace(s))
		if i := strings.LastIndexByte(s, '/'); i >= 0 {
			s = s[i+1:]
		}
		if i := strings.LastIndex(s, ".claude-"); i >= 0 { // us.anthropic.claude-…-v1:0
			s = s[i+1:]
		}
		if i := strings.IndexAny(s, "[:@"); i > 0 { // opus[1m], sonnet:high, claude-…@20250514
			s = s[:i]
		}
		return s
	}
	if slices.Contains([]string{"default", "auto", "best", "opusplan"}, norm(asked)) {
		return true // a choice that is left to the CLI
	}
	a, u := norm(asked), norm(used)
	if a == u || strings.HasPrefix(u, a+"-") {
		return true
	}
	return slices.Contains(strings.FieldsFunc(u, func(r rune) bool { return r == '-' || r == '.' }), a)
}

// isOK: the run exited, the agent claims success (or, where an agent has no
// terminal event, its exit code does), and nothing of error weight was found.
func isOK(d *digest, end End, exit driver.Exit, caps agent.Capabilities, found []Finding) bool {
	if end.Kind != Exited {
		return false
	}
	if caps.Terminal {
		if !d.succeeded() {
			return false
		}
	} else if exit.Code == nil || *exit.Code != 0 {
		return false
	}
	return !slices.ContainsFunc(found, func(f Finding) bool { return f.Severity == Error })
}

// failureLine is the one line for a person: the stream's own error first, then
// the last plain lines of stdout and stderr, never the argv.
func failureLine(d *digest, end End, exit driver.Exit, s *stop, found []Finding, stderrTail string) string {
	said := ""
	switch {
	case d.failure != nil && d.failure.Text != "" && !d.succeeded():
		said = d.failure.Text
	case len(d.plain) > 0 && !d.succeeded():
		said = strings.Join(d.plain, " ")
	}
	if said == "" && !d.succeeded() {
		said = stderrTail
	}
	var what string
	switch end.Kind {
	case Exited:
		switch {
		case exit.Signal != "":
			what = "the agent died of " + exit.Signal
		case exit.Code != nil && *exit.Code != 0:
			what = fmt.Sprintf("the agent failed (exit %d)", *exit.Code)
		default:
			what = "the agent failed"
		}
		if said == "" {
			if i := slices.IndexFunc(found, func(f Finding) bool { return f.Severity == Error }); i >= 0 {
				said = found[i].Evidence
			}
		}
		if d.succeeded() {
			// The agent is content; what is wrong was found by Rein.
			what = "not OK"
		}
	case TimedOut:
		what = "stopped: the " + end.Detail + " clock ran out"
		if d.activity != "" {
			what += " while " + d.activity
		}
	case OverBudget:
		what = "stopped: over budget (" + end.Detail + ")"
		if s != nil && s.evidence != "" {
			said = s.evidence
		}
	case GaveUp:
		what = "gave up: " + end.Detail
		if s != nil && s.evidence != "" {
			said = s.evidence
		}
	case Halted:
		what = "halted: " + end.Detail
		if s != nil && s.evidence != "" {
			said = s.evidence
		}
	case Cancelled:
		what = "cancelled by " + end.Detail
	case Lost:
		what = "lost: " + end.Detail
	case Aborted:
		what = "aborted: " + end.Detail
	case NotStarted:
		what = "not started: " + end.Detail
	default:
		what = strings.TrimSpace(string(end.Kind) + ": " + end.Detail)
	}
	if said != "" {
		what += ": " + said
	}
	// What left the boundary comes first, as in the exit code: a list that says
	// "cancelled" alone would hide it.
	for _, f := range found {
		if f.Kind == FoundBoundary && said != f.Evidence {
			what = clip("left the boundary: "+f.Evidence, maxEvidence/2) + "; " + what
		}
	}
	return clip(what, maxEvidence)
}

func procNames(ps []driver.Proc) string {
	var names []string
	for i, p := range ps {
		if i == 8 {
			names = append(names, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (%d)", p.Name, p.PID))
	}
	return strings.Join(names, ", ")
}
