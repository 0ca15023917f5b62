// Package prompt writes what an agent is told about the run it is in.
//
// It is written from the values that enforce: a prompt that states another
// limit than the one that stops the run is worse than none, and so is one that
// claims a lock where there is only a request.
package prompt

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/watch"
)

// Limits are what besides the policy bounds the run. Zero fields are not
// mentioned.
type Limits struct {
	// Enforced says that what is withheld is refused before it runs (by the
	// CLI's own hook or its flags). Otherwise the agent is asked.
	Enforced bool
	// Halts says that a run which does what is withheld is stopped.
	Halts bool
	// Sandboxed says that the kernel holds the run.
	Sandboxed bool
	// Checked says that the repository is compared before and after the run.
	Checked bool

	Tokens    int64   // input, cache writes and output, sub-agents included
	CostUSD   float64 // money
	SubAgents int     // that may be started
	// Total is the time from the start to the end of the run; watch.None is no
	// limit either.
	Total time.Duration
}

// Section is the part of a prompt that tells the agent its boundary and its
// limits: Markdown that ends in a newline, at most 25 lines; "" when there is
// nothing to tell. A nil policy has no boundary.
func Section(p *guard.Policy, l Limits) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if p != nil {
		l.boundary(p, line)
	}
	l.budgets(line)
	if b.Len() == 0 {
		return ""
	}
	return "## Limits of this run\n\n" + b.String()
}

func (l Limits) boundary(p *guard.Policy, line func(string, ...any)) {
	held := quote(p.Denied())
	for _, t := range p.Tools() {
		held = append(held, "the "+t+" tools")
	}
	if len(held) > 0 {
		switch {
		case l.Enforced:
			line("- Withheld, and refused before it runs: %s. What does the same by another way is refused as well. Do not look for a way around: say in your answer what you would have done.", list(held))
		case l.Halts:
			line("- Do not use: %s, nor anything that does the same. A run that does is stopped at once.", list(held))
		default:
			line("- Do not use: %s, nor anything that does the same.", list(held))
		}
	}
	granted := quote(p.Granted())
	if p.Network() {
		granted = append(granted, "the web tools")
	}
	if len(granted) > 0 {
		line("- Granted, use it where the task needs it: %s.", list(granted))
	}
	if l.Sandboxed {
		line("- A sandbox holds this run: files can be written in the working directory and in the temporary directory alone, references and configuration of git are read-only%s, and %s. What it refuses (\"Read-only file system\", \"Permission denied\", no connection) stays refused: do not look for a way around.",
			map[bool]string{true: " but for your commits"}[p.Commits()],
			map[bool]string{false: "nothing but your model can be reached over the network", true: "the network is open"}[p.Network()])
	}
	if l.Checked {
		what := "commits, branches, tags, stashes, its configuration and hooks, and what is pushed are"
		if p.Commits() {
			what = "branches, tags, stashes, its configuration and hooks, and what is pushed are"
			line("- Commits on the branch that is checked out are yours to make; leave every other reference as it is.")
		}
		line("- The repository is compared before and after the run, however it ends: %s found, and the run has failed.", what)
	}
}

func (l Limits) budgets(line func(string, ...any)) {
	n := 0
	limit := func(format string, args ...any) { line(format, args...); n++ }
	if l.Tokens > 0 {
		limit("- Tokens: %s. Input, cache writes and output count, those of sub-agents too; cache reads do not.", thousands(l.Tokens))
	}
	if l.CostUSD > 0 {
		limit("- Money: $%s.", strconv.FormatFloat(l.CostUSD, 'f', max(2, decimals(l.CostUSD)), 64))
	}
	if l.SubAgents > 0 {
		limit("- Sub-agents: at most %d.", l.SubAgents)
	}
	if l.Total > 0 {
		limit("- Time: %s from the start.", watch.Format(l.Total))
	}
	switch {
	case n == 1:
		line("- Crossing that limit stops the run in the middle of whatever it does. What is not in a file by then is lost: write as you go.")
	case n > 1:
		line("- Crossing any of these stops the run in the middle of whatever it does. What is not in a file by then is lost: write as you go.")
	}
}

func quote(words []string) []string {
	q := make([]string, len(words))
	for i, s := range words {
		q[i] = "`" + s + "`"
	}
	return q
}

func list(words []string) string { return strings.Join(words, ", ") }

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// decimals is how many digits behind the point a sum of money needs.
func decimals(f float64) int {
	_, frac, _ := strings.Cut(strconv.FormatFloat(f, 'f', -1, 64), ".")
	return len(frac)
}
