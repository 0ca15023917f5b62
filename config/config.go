// Package config reads what the user has settled before the command line: the
// file rein.yaml of a project, the user's own file, and REIN_ variables. It
// keeps where each value comes from.
//
// The weakest first: defaults, the user's file, the project's file, variables,
// flags. The keys, which are also the flags, and REIN_ with capitals as
// variables:
//
//	agent       name of the agent: claude, codex, …
//	on          where the agent runs: local:, ssh://…     (not in a project)
//	model       model for the agent
//	effort      reasoning effort, in the agent's own words
//	mode        autonomous (default) or read-only
//	require_model  true: a run without a model is refused     (not in a project)
//	rules_file  file with rules for the agent                 (not in a project)
//	startup     a time such as 90s, 5m or 1h30m, or none: see package watch
//	idle        the same
//	tool        the same
//	stall       the same
//	total       the same
//	completion  the same
//	grace       the same
//	max_memory  a size such as 512MiB or 2GiB, or none: all processes together
//	max_procs   a number, or none: live processes
//	max_output  a size, or none: stdout and stderr together
//	max_tokens  a number such as 200k or 2M, or none: input, cache writes, output
//	max_cost    an amount of USD such as 2.50, or none
//	max_subagents  a number, or none: sub-agents that are started
//	retries         a number, or none: attempts after an overload or a cut network
//	                                                             (not in a project)
//	wait_for_limit  the longest time to wait for the reset of a rate limit, or
//	                none                                         (not in a project)
//	allow       commands to lift, a list: ["gh pr review"]    (not in a project)
//	commits     true: commits on the run's own branch        (not in a project)
//	network     true: the agent's web tools are open         (not in a project)
//	others_work_here  true: people use the other working trees  (not in a project)
//	sandbox     true: the kernel holds the agent            (a project can only say true)
//	packs       sets of rules, a list: see guard.Packs
//	rules       own rules, a list of command, level, reason, name
//	levels      levels of rules by name                      (not in a project)
//	labels      names and values that are copied into the report
//	env_file    file with NAME=VALUE lines for the agent     (not in a project)
//	report      file that the report is written to           (not in a project)
//	state_dir   directory for what runs leave behind         (not in a project)
//	agents      per agent: model, effort, path, args  (path, args: not in a project)
//	prices      per model: input, output, cache_read, cache_write, in USD per
//	            million tokens                               (not in a project)
//
// A project's file comes with a clone: somebody else wrote it. It may choose
// among what the user has, and may not name a program, an argument or a file,
// or lift the mode to autonomous where it is something else. A clock or a limit
// of a project is at most what the user's file says. Where that is silent, a
// clock is at most 2 h and grace at most 30 s; a limit, which by default is
// none, is whatever the project says. A project says none only where the user does.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/meter"
	"github.com/rein-run/rein/watch"
)

// Config is what was settled. The zero value has every default.
type Config struct {
	Agent  string // "" is the choice of rein
	On     string // "" is this machine
	Model  string
	Effort string
	Mode   agent.Mode // "" is autonomous
	// RequireModel: a run without a model is refused.
	RequireModel bool
	RulesFile    string       // as EnvFile
	Limits       watch.Limits // zero: no limit
	Guard        guard.Config // what may not happen
	// OthersWorkHere: people use other working trees of the repository meanwhile.
	OthersWorkHere bool
	Sandbox        bool // the kernel holds the agent
	Labels         map[string]string
	EnvFile        string // absolute, or as a variable or a flag gave it
	Report         string // as EnvFile
	StateDir       string // as EnvFile
	Agents         map[string]AgentConfig
	Prices         meter.Prices
	Retries        int           // after a failure that can pass by itself
	LimitWait      time.Duration // for the resets of rate limits; 0: not waited for
	clocks         watch.Clocks
	origins        map[string]Origin
	workingIn      string
}

// AgentConfig is what was settled for one agent.
type AgentConfig struct {
	Path   string   // of the executable where the agent runs: absolute, or a name to be looked up there
	Args   []string // for the CLI, before those of the command line
	Model  string
	Effort string
}

// Source is a layer that values come from. A greater one wins.
type Source int

const (
	Default Source = iota
	User           // the user's own file
	Project        // rein.yaml
	Variable
	Flag
)

// Origin is where one value comes from.
type Origin struct {
	Source       Source
	Name         string // path of the file, name of the variable, "--flag"; "" for defaults
	Line, Column int    // in the file, from 1
}

func (o Origin) String() string {
	switch {
	case o.Source == Default:
		return "default"
	case o.Line > 0:
		return fmt.Sprintf("%s:%d:%d", o.Name, o.Line, o.Column)
	}
	return o.Name
}

// Origin says where the value of a key comes from. Keys below labels and agents
// are joined by dots: "agents.claude.model".
func (c *Config) Origin(key string) Origin { return c.origins[key] }

// Clocks are the clocks that were settled; zero fields are for
// watch.Clocks.With. A clock that is longer than a total time of another source
// is cut down to it, unless it was typed as a flag: `--total 2m` must not be
// refused because the user's file says `idle: 5m`, nor the user's `total: 10m`
// because a project says `idle: 15m`. Call Validate too: what one source says,
// or a flag, can contradict the total time.
func (c *Config) Clocks() watch.Clocks {
	out := c.clocks
	if out.Total <= 0 {
		return out
	}
	total := c.Origin(watch.Total).Source
	for _, x := range clockFields(&out) {
		if x.name != watch.Total && x.name != watch.Grace && *x.d > out.Total && c.cut(x.name, total) {
			*x.d = out.Total
		}
	}
	return out
}

// cut says whether a clock gives way to a total time of the source.
func (c *Config) cut(clock string, total Source) bool {
	own := c.Origin(clock).Source
	return own != total && own != Flag
}

// Validate refuses clocks that contradict each other, as watch.Clocks.Validate
// does, and says where the clock was settled. Call it when the last value is
// set. The error is an *Error that wraps a *watch.ClockError.
func (c *Config) Validate() error {
	err := c.Clocks().Validate()
	bad, ok := errors.AsType[*watch.ClockError](err)
	if !ok {
		return err
	}
	// Package watch speaks of flags; here they may be keys of a file.
	why := strings.ReplaceAll(bad.Why, "--", "")
	return &Error{
		Origin: c.Origin(bad.Clock), Key: bad.Clock, Err: bad,
		Msg: fmt.Sprintf("%s %s: %s (total: %s)", bad.Clock, watch.Format(bad.Value), why, c.Origin(watch.Total)),
	}
}

// ModelFor is the model for an agent and where it was settled. What is said of
// the agent itself wins within one source; a stronger source wins over both.
func (c *Config) ModelFor(name string) (string, Origin) {
	return c.pick(c.Model, "model", c.Agents[name].Model, "agents."+name+".model")
}

// EffortFor is the effort for an agent, as ModelFor.
func (c *Config) EffortFor(name string) (string, Origin) {
	return c.pick(c.Effort, "effort", c.Agents[name].Effort, "agents."+name+".effort")
}

func (c *Config) pick(all, allKey, own, ownKey string) (string, Origin) {
	a, o := c.Origin(allKey), c.Origin(ownKey)
	if own != "" && o.Source >= a.Source {
		return own, o
	}
	return all, a
}

// Value is one value that was settled, for people.
type Value struct {
	Key    string // as for Origin
	Text   string
	Origin Origin
}

// Values lists what differs from the defaults, in the order of the keys.
func (c *Config) Values() []Value {
	var all []Value
	add := func(name, text string) {
		if o, ok := c.origins[name]; ok {
			all = append(all, Value{name, text, o})
		}
	}
	for _, k := range keys {
		if k.get != nil {
			add(k.name, k.get(c))
		}
	}
	var rules []string
	for _, r := range c.Guard.Rules {
		rules = append(rules, fmt.Sprintf("%s: %s", r.Command, cmp.Or(r.Level, guard.Deny)))
	}
	add("rules", strings.Join(rules, ", "))
	for _, name := range slices.Sorted(maps.Keys(c.Guard.Levels)) {
		add("levels."+name, string(c.Guard.Levels[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		add("labels."+name, c.Labels[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		add("agents."+name+".path", a.Path)
		add("agents."+name+".args", fmt.Sprintf("%q", a.Args))
		add("agents."+name+".model", a.Model)
		add("agents."+name+".effort", a.Effort)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Prices)) {
		p := c.Prices[name]
		add("prices."+name, fmt.Sprintf("input %g, output %g, cache_read %g, cache_write %g", p.Input, p.Output, p.CacheRead, p.CacheWrite))
	}
	return all
}

// Set settles one value by hand: a flag. The key is one of the scalar keys, or
// labels with NAME=VALUE. Errors are *Error.
func (c *Config) Set(name, value string, from Origin) error {
	v := given{text: value, from: from, key: name, workingIn: c.workingIn}
	k := findKey(name)
	switch {
	case k == nil:
		return v.errorf("unknown key %s%s", show(name), nearest(name, keyNames()))
	case k.name == "labels":
		name, value, ok := strings.Cut(value, "=")
		if !ok {
			return v.errorf("a label is NAME=VALUE")
		}
		v.text = value
		return c.label(name, v)
	case k.set == nil:
		return v.errorf("%s can be set in a file only", name)
	}
	return c.put(k, v)
}

// put sets a scalar and remembers where it comes from.
func (c *Config) put(k *key, v given) error {
	if v.from.Source == Project && k.user {
		return v.refuse()
	}
	if err := k.set(c, v); err != nil {
		return err
	}
	c.remember(k.name, v.from)
	return nil
}

func (c *Config) remember(name string, from Origin) {
	if c.origins == nil {
		c.origins = map[string]Origin{}
	}
	c.origins[name] = from
}
