package guard

import (
	"maps"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/typo"
)

// New makes the policy of a Config. Its errors are *Error: everything that is
// misspelt, that would do nothing or that nobody may lift is refused, since a
// silent one would be found out by a run that went wrong.
func New(c Config) (*Policy, error) {
	p := &Policy{
		builtin: make(map[string]Rule, len(builtin)), levels: map[string]Level{}, lifted: map[string]bool{},
		commits: c.Commits, network: c.Network, names: map[string]bool{},
	}
	fixed := map[string]bool{}
	for _, b := range builtin {
		p.builtin[b.Name], p.levels[b.Name], fixed[b.Name] = b.Rule, b.Level, b.fixed
	}
	if err := p.addRules(c); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Levels)) {
		l := c.Levels[name]
		switch _, known := p.levels[name]; {
		case !known:
			all := slices.Sorted(maps.Keys(p.levels))
			return nil, &Error{ErrLevel, name, "there is no such rule" + nearest(name, all) + "; the rules are " + strings.Join(all, ", ")}
		case !l.valid():
			return nil, &Error{ErrLevel, string(l), "the levels are allow, warn, deny and halt"}
		case fixed[name] && l.rank() < Deny.rank():
			return nil, &Error{ErrUngrantable, name, "its level can be deny or halt"}
		}
		if l.rank() < Deny.rank() && p.levels[name].rank() >= Deny.rank() && name != ruleWeb {
			if c := p.command(name); c != "" {
				p.granted = append(p.granted, c)
			} else {
				p.off = append(p.off, name)
			}
		}
		p.levels[name] = l
	}
	if c.Commits {
		if !p.Commits() {
			p.granted = append(p.granted, "git commit")
		}
		p.levels[ruleCommit] = Allow
	}
	if c.Network {
		p.levels[ruleWeb] = Allow
	}
	for _, g := range c.Allow {
		if err := p.grant(g); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Policy) addRules(c Config) error {
	add := func(r Rule) error {
		r.Command = words(r.Command)
		if r.Name == "" {
			r.Name = r.Command
		}
		if r.Level == "" {
			r.Level = Deny
		}
		if r.Reason == "" {
			r.Reason = r.Command + " is refused in this run."
		}
		first, _, _ := strings.Cut(r.Command, " ")
		switch {
		case r.Command == "":
			return &Error{ErrRule, r.Name, "a rule needs a command in words, for example \"npm publish\""}
		case strings.HasPrefix(first, "-") || strings.ContainsAny(r.Command, "\"'`$;&|<>(){}*?\\"):
			return &Error{ErrRule, r.Command, "a command is plain words and options, without shell syntax"}
		case strings.Contains(first, "/"):
			return &Error{ErrRule, r.Command, "name the command without its path: every path is meant"}
		case !r.Level.valid():
			return &Error{ErrLevel, string(r.Level), "the levels are allow, warn, deny and halt"}
		}
		if _, twice := p.levels[r.Name]; twice {
			return &Error{ErrRule, r.Name, "there is a rule of that name already; levels changes its level"}
		}
		p.rules = append(p.rules, r)
		p.levels[r.Name] = r.Level
		p.names[strings.ToLower(first)] = true
		return nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(c.Packs))) {
		pack, ok := packs[name]
		if !ok {
			return &Error{ErrPack, name, "the packs are " + strings.Join(Packs(), ", ") + nearest(name, Packs())}
		}
		for _, r := range pack {
			if err := add(r); err != nil {
				return err
			}
		}
	}
	for _, r := range c.Rules {
		if err := add(r); err != nil {
			return err
		}
	}
	return nil
}

// Packs are the names of the rule packs, sorted.
func Packs() []string { return slices.Sorted(maps.Keys(packs)) }

// grant lifts one command.
func (p *Policy) grant(given string) error {
	g := words(given)
	can := p.grantable()
	list := "can be granted: " + strings.Join(can, ", ")
	switch {
	case slices.Contains(p.granted, g):
		return nil
	case g == "git commit":
		return &Error{ErrUngrantable, given, "commits on the run's own branch are allowed by commits (--commits)"}
	case g == "git push" || ungrantable(g):
		return &Error{ErrUngrantable, given, list}
	case slices.Contains(can, g) || forgeWrite(g):
		p.lifted[g] = true
		p.granted = append(p.granted, g)
		for _, b := range builtin {
			if b.Command == g {
				p.levels[b.Name] = Allow
			}
		}
		for _, r := range p.rules {
			if r.Command == g {
				p.levels[r.Name] = Allow
			}
		}
		return nil
	}
	if near := nearest(g, append(can, forgeWrites()...)); near != "" {
		return &Error{ErrGrant, given, strings.TrimPrefix(near, "; ") + "; " + list}
	}
	for _, c := range can {
		if strings.HasPrefix(c, g+" ") {
			return &Error{ErrGrant, given, "name one command whole, for example " + c + "; " + list}
		}
		if strings.HasPrefix(g, c+" ") {
			return &Error{ErrGrant, given, "name the command without its arguments: " + c}
		}
	}
	return &Error{ErrGrant, given, "nothing denies it, so there is nothing to lift; " + list}
}

// grantable are the commands that are denied by name and may be lifted.
func (p *Policy) grantable() []string {
	var all []string
	for _, b := range builtin {
		if b.asked && !b.fixed && b.Name != ruleCommit {
			all = append(all, b.Command)
		}
	}
	for _, r := range p.rules {
		all = append(all, r.Command)
	}
	return all
}

// Denied are the commands that are refused by name, as words, in the order of
// their importance: for the prompt, the flags of a CLI and the report. Judge
// refuses more: whatever else does the same as one of them.
func (p *Policy) Denied() []string {
	var all []string
	for _, b := range builtin {
		if b.asked && p.levels[b.Name].rank() >= Deny.rank() {
			all = append(all, b.Command)
		}
	}
	for _, r := range p.rules {
		if p.levels[r.Name].rank() >= Deny.rank() && !slices.Contains(all, r.Command) {
			all = append(all, r.Command)
		}
	}
	return all
}

// Shims are the commands that a program in front of the real one has to refuse:
// Denied, without those of git, and what else gh and its kin can change on their
// forges. Their "api" is among them for what it writes.
func (p *Policy) Shims() []string {
	var all []string
	for _, c := range p.Denied() {
		if !strings.HasPrefix(c, "git ") {
			all = append(all, c)
		}
	}
	if p.levels[ruleAPI].rank() >= Deny.rank() {
		for _, f := range forges {
			all = append(all, f.name+" api")
		}
	}
	var own []string
	for _, c := range forgeWrites() {
		words := strings.Fields(c)
		if rule, lifted := p.forgeRule(words[1], words[2]); lifted || p.levels[rule].rank() < Deny.rank() {
			continue
		}
		for _, f := range forges {
			own = append(own, f.own(words[1], words[2])...)
		}
	}
	slices.Sort(own)
	return slices.Compact(append(all, own...))
}

// command is that of a rule by name; "" where it is no list of words.
func (p *Policy) command(name string) string {
	for _, r := range p.rules {
		if r.Name == name {
			return r.Command
		}
	}
	return p.builtin[name].Command
}

// Granted are the commands that were lifted: by the level of their rule, then one
// by one, in the order given.
func (p *Policy) Granted() []string { return slices.Clone(p.granted) }

// Off are the rules without a command of their own whose level lets pass what
// they would refuse, by name.
func (p *Policy) Off() []string { return slices.Clone(p.off) }

// Forge says that something was lifted for which a forge has to know the user.
func (p *Policy) Forge() bool {
	return p.levels[ruleForge].rank() < Deny.rank() || slices.ContainsFunc(p.granted, func(c string) bool {
		name, _, _ := strings.Cut(c, " ")
		return forgeOf(name) != nil
	})
}

// Tools are the kinds of tools that are denied: "web", or none.
func (p *Policy) Tools() []string {
	if p.levels[ruleWeb].rank() >= Deny.rank() {
		return []string{ruleWeb}
	}
	return nil
}

// Network says whether the web tools are open.
func (p *Policy) Network() bool { return p.levels[ruleWeb].rank() < Deny.rank() }

// Commits says whether commits on the run's own branch are allowed.
func (p *Policy) Commits() bool { return p.levels[ruleCommit].rank() < Deny.rank() }

// Rules are all rules with the levels that hold, the built-in ones first.
func (p *Policy) Rules() []Rule {
	all := make([]Rule, 0, len(builtin)+len(p.rules))
	for _, b := range builtin {
		all = append(all, b.Rule)
	}
	all = append(all, p.rules...)
	for i := range all {
		all[i].Level = p.levels[all[i].Name]
	}
	return all
}

// Level is the level of a rule by name; "" when there is none.
func (p *Policy) Level(name string) Level { return p.levels[name] }

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// nearest is "; did you mean X?" for a name that a typing mistake explains.
func nearest(want string, known []string) string {
	if len(want) > 64 {
		return ""
	}
	best, bestAt := "", 3
	for _, k := range known {
		if d := typo.Distance(want, k); d < bestAt && d < len(k)/2 {
			best, bestAt = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// evidence is argv as words, short and printable.
func evidence(argv []string) string {
	n, size := 0, 0
	for n < len(argv) && size < 400 {
		size += len(argv[n]) + 1
		n++
	}
	s := strings.Join(argv[:n], " ")
	s = strings.NewReplacer(string(unknown), "…", string(unset), "…", string(plain), "…").Replace(s[:min(len(s), 4096)])
	return agent.Clip(s)
}
