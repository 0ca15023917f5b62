package agenttest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
)

// checkRules sends rules by every channel: they arrive whole, by that one alone,
// and no channel that the agent does not name is taken.
func checkRules(p *probe) {
	const rules, limits = "Rule \"one\": never\n\n---\n\n<b> $HOME `x` é\n", "## Limits of agenttest\n"
	base, ok := p.build("plain", plain())
	if !ok {
		return
	}
	for _, by := range p.caps.Rules {
		inv := plain()
		inv.FilesDir = "/agenttest/files"
		inv.Rules, inv.RulesBy, inv.Limits = rules, by, limits
		c, ok := p.build("rules by "+string(by), inv)
		if !ok {
			continue
		}
		prompt, system := received(c), 0
		for _, text := range besides(c) {
			if strings.Contains(text, "<b> $HOME `x` é") {
				system++
				if !strings.Contains(text, limits[:len(limits)-1]) {
					p.errorf("rules by %s: the limits are not beside them: of two such flags a CLI takes one", by)
				}
			}
		}
		before := strings.Contains(prompt, rules) && strings.HasSuffix(strings.TrimSpace(prompt), inv.Prompt) || strings.Contains(prompt, rules) && strings.Contains(prompt, limits)
		want := map[agent.RuleChannel][2]any{
			agent.RulesBySystem: {1, false}, agent.RulesByPrompt: {0, true}, agent.RulesByFile: {0, false},
		}[by]
		if p.caps.Prompt == agent.ByArg { // the prompt is an argument too
			system -= strings.Count(fmt.Sprint(before), "true")
		}
		if got := [2]any{system, before}; got != want {
			p.errorf("rules by %s: in %v arguments and files, and before the prompt: %v; want %v", by, system, before, want)
		}
		if by == agent.RulesByFile && p.caps.RulesFile == "" {
			p.errorf("rules by file, and no RulesFile")
		}
	}
	inv := plain()
	inv.Rules = rules
	for _, by := range []agent.RuleChannel{agent.RulesBySystem, agent.RulesByPrompt, agent.RulesByFile, "none"} {
		if !slices.Contains(p.caps.Rules, by) {
			inv.RulesBy = by
			p.refused("rules by "+string(by), inv, agent.ErrUnsupported)
		}
	}
	// No rules are no rules, whatever their way would be.
	for _, by := range p.caps.Rules {
		inv := plain()
		inv.RulesBy = by
		if c, ok := p.build("no rules", inv); ok && (!slices.Equal(c.Argv, base.Argv) || !bytes.Equal(c.Stdin, base.Stdin) || len(c.Files) != len(base.Files)) {
			p.errorf("no rules by %s: another command than without", by)
		}
	}
}

// received is what comes in as the prompt.
func received(c agent.Command) string {
	for _, f := range c.Files {
		if f.Name == agent.PromptFile {
			return string(f.Data)
		}
	}
	if c.Stdin != nil {
		return string(c.Stdin)
	}
	return c.Argv[len(c.Argv)-1]
}

// besides are the arguments and files that are not the prompt.
func besides(c agent.Command) []string {
	all := slices.Clone(c.Argv)
	for _, f := range c.Files {
		if f.Name != agent.PromptFile {
			all = append(all, string(f.Data))
		}
	}
	return all
}

// checkObserver: what is promised makes another command, what is not is refused.
func checkObserver(p *probe) {
	base, ok := p.build("plain", plain())
	if !ok {
		return
	}
	for _, c := range []struct {
		what string
		can  bool
		ask  func(*agent.Invocation)
	}{
		{"observer", p.caps.Observer, func(inv *agent.Invocation) { inv.Observer = true }},
		{"schema", p.caps.Schema, func(inv *agent.Invocation) { inv.Schema = []byte(`{"type":"object"}`) }},
	} {
		inv := plain()
		inv.FilesDir = "/agenttest/files"
		c.ask(&inv)
		if !c.can {
			p.refused(c.what, inv, agent.ErrUnsupported)
			continue
		}
		if cmd, ok := p.build(c.what, inv); ok && slices.Equal(cmd.Argv, base.Argv) {
			p.errorf("%s: the same command as without", c.what)
		}
	}
	if p.caps.Schema {
		for _, bad := range []string{"", "[]", "null", "{"} {
			inv := plain()
			inv.Schema = []byte(bad)
			p.refused("schema "+bad, inv, agent.ErrArgument, agent.ErrUnsupported)
		}
	}
}

// checkDoctor looks at how the CLI is asked about itself.
func checkDoctor(p *probe) {
	d, ok := p.agent.(agent.Doctor)
	if !ok {
		return
	}
	v := p.Facts.Version
	if len(d.HelpArgs(v)) == 0 || slices.ContainsFunc(d.HelpArgs(v), func(a []string) bool { return len(a) == 0 }) {
		p.errorf("no arguments to ask for help: the CLI itself would start")
	}
	for _, f := range d.Flags(v) {
		if !strings.HasPrefix(f, "-") || strings.ContainsAny(f, " =") {
			p.errorf("flag %q", f)
		}
	}
	for _, out := range []string{"", "\x00{", "{}", "[]", "Error: cannot find module 'x'\n", "{\"loggedIn\":\"\xff\"}", strings.Repeat("{", 1<<16)} {
		if l := d.ParseLogin(1, []byte(out)); l.State != agent.LoginUnknown {
			p.errorf("%.40q is taken for a login: %+v", out, l)
		}
	}
}
