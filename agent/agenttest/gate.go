package agenttest

import (
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// checkGate: an agent that can be made to ask is told by whom, and takes nothing
// but a clear yes; one that cannot says so.
func checkGate(p *probe) {
	inv := plain()
	inv.FilesDir = "/run/agenttest"
	const program = "/opt/agenttest/rein"
	inv.Gate = &agent.Hook{Argv: []string{program, "ask", "/run/agenttest"}}
	if !p.caps.Gate {
		p.refused("a gate", inv, agent.ErrUnsupported)
		return
	}
	g, ok := p.agent.(agent.Gate)
	if !ok {
		p.errorf("capabilities say Gate, and the agent is no agent.Gate")
		return
	}
	with, ok := p.build("gate", inv)
	if !ok {
		return
	}
	names := func(s string) bool { return strings.Contains(s, program) }
	if !slices.ContainsFunc(with.Argv, names) && !slices.ContainsFunc(with.Files, func(f agent.File) bool { return names(string(f.Data)) }) {
		p.errorf("with a gate neither argv nor a file names the program that asks")
	}
	inv.Gate = nil
	if without, ok := p.build("no gate", inv); ok && slices.ContainsFunc(without.Argv, names) {
		p.errorf("without a gate argv names a program that asks")
	}
	if yes := g.Answer(true, ""); yes.Exit != 0 || strings.TrimSpace(string(yes.Stdout)) != agent.Yes {
		p.errorf("yes is %+v: want exit 0 and %q", yes, agent.Yes)
	}
	for _, why := range []string{"", "nothing leaves"} {
		if no := g.Answer(false, why); no.Exit != driver.RefusedCode || !strings.Contains(string(no.Stderr), why) || strings.TrimSpace(string(no.Stderr)) == "" {
			p.errorf("no (%q) is %+v: want exit %d and the reason on stderr", why, no, driver.RefusedCode)
		}
	}
	for _, b := range []string{"", "{", "{}", "[]", "null", "1", `"x"`, "\xff\x00", strings.Repeat("[", 1<<16)} {
		if t, _, err := g.Question([]byte(b)); err == nil {
			p.errorf("%.20q is taken for a question: %+v", b, t)
		}
	}
	if g.Same(agent.Tool{}, agent.Tool{}) || g.Ran(agent.Reading{Kind: agent.KindToolFinished}) || g.Ran(agent.Reading{Kind: agent.KindText}) {
		p.errorf("what is not known to have been asked about, or to have run, is taken for it")
	}
}
