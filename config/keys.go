package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/watch"
)

// key is one key at the top of a file. labels, levels, agents, prices and rules
// have no set: they are no single values, and read by their own functions.
type key struct {
	name string
	user bool // not in a project's file
	bool bool // true and false are written without quotes
	many bool // a list: set is called for each of its values
	set  func(*Config, given) error
	get  func(*Config) string
}

// keys is read only.
var keys = []key{
	text("agent", func(c *Config) *string { return &c.Agent }),
	personal(text("on", func(c *Config) *string { return &c.On })),
	text("model", func(c *Config) *string { return &c.Model }),
	text("effort", func(c *Config) *string { return &c.Effort }),
	{name: "mode", set: setMode, get: func(c *Config) string { return string(c.Mode) }},
	flag("require_model", func(c *Config) *bool { return &c.RequireModel }),
	path("rules_file", func(c *Config) *string { return &c.RulesFile }),
	clock(watch.Startup),
	clock(watch.Idle),
	clock(watch.Tool),
	clock(watch.Stall),
	clock(watch.Total),
	clock(watch.Completion),
	clock(watch.Grace),
	size("max_memory", func(c *Config) *int64 { return &c.Limits.Memory }),
	{name: "max_procs", set: setProcs, get: func(c *Config) string { return formatCount(int64(c.Limits.Procs)) }},
	size("max_output", func(c *Config) *int64 { return &c.Limits.Output }),
	{name: "max_tokens", set: setTokens, get: func(c *Config) string { return formatTokens(c.Limits.Tokens) }},
	{name: "max_cost", set: setCost, get: func(c *Config) string { return formatCost(c.Limits.CostUSD) }},
	{name: "max_subagents", set: setSubagents, get: func(c *Config) string { return formatCount(int64(c.Limits.Subagents)) }},
	{name: "retries", user: true, set: setRetries, get: func(c *Config) string { return formatCount(int64(c.Retries)) }},
	{name: "wait_for_limit", user: true, set: setLimitWait, get: func(c *Config) string {
		if c.LimitWait == 0 {
			return "none"
		}
		return watch.Format(c.LimitWait)
	}},
	several("allow", true, func(c *Config) *[]string { return &c.Guard.Allow }),
	flag("commits", func(c *Config) *bool { return &c.Guard.Commits }),
	flag("network", func(c *Config) *bool { return &c.Guard.Network }),
	flag("others_work_here", func(c *Config) *bool { return &c.OthersWorkHere }),
	switchOn("sandbox", func(c *Config) *bool { return &c.Sandbox }),
	several("packs", false, func(c *Config) *[]string { return &c.Guard.Packs }),
	{name: "rules"},
	{name: "levels"},
	{name: "labels"},
	path("env_file", func(c *Config) *string { return &c.EnvFile }),
	path("report", func(c *Config) *string { return &c.Report }),
	path("state_dir", func(c *Config) *string { return &c.StateDir }),
	{name: "agents"},
	{name: "prices"},
}

// variable says that there is one for the key.
func (k *key) variable() bool { return k.set != nil || k.name == "labels" }

func keyNames() []string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	return names
}

func findKey(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

func text(name string, field func(*Config) *string) key {
	return key{
		name: name,
		set: func(c *Config, v given) error {
			s, err := v.word()
			if err == nil {
				*field(c) = s
			}
			return err
		},
		get: func(c *Config) string { return *field(c) },
	}
}

// personal is a key that no project may settle.
func personal(k key) key {
	k.user = true
	return k
}

// word is a value that becomes an argument of the agent.
func (v given) word() (string, error) {
	switch {
	case strings.TrimSpace(v.text) == "":
		return "", v.errorf("%s is empty: remove it to have the default", v.key)
	case strings.HasPrefix(v.text, "-"):
		// `model: --dangerous` must not become a flag of the agent's.
		return "", v.errorf("%s begins with a dash", v.key)
	case strings.IndexFunc(v.text, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
		return "", v.errorf("%s has a control character in it", v.key)
	}
	return v.text, nil
}

func setMode(c *Config, v given) error {
	m := agent.Mode(v.text)
	if m != agent.Autonomous && m != agent.ReadOnly {
		return v.errorf("mode %s: there are %s and %s", show(v.text), agent.Autonomous, agent.ReadOnly)
	}
	if v.from.Source == Project && m == agent.Autonomous && c.Mode == agent.ReadOnly {
		return v.errorf("%s says mode: %s, and a project cannot lift that: change it there, or remove this line and give --mode %s where you want it",
			c.Origin("mode"), agent.ReadOnly, agent.Autonomous)
	}
	c.Mode = m
	return nil
}

type clockField struct {
	name string
	d    *time.Duration
}

func clockFields(c *watch.Clocks) []clockField {
	return []clockField{
		{watch.Startup, &c.Startup},
		{watch.Idle, &c.Idle},
		{watch.Tool, &c.Tool},
		{watch.Stall, &c.Stall},
		{watch.Total, &c.Total},
		{watch.Completion, &c.Completion},
		{watch.Grace, &c.Grace},
	}
}

func clock(name string) key {
	field := func(c *Config) *time.Duration {
		for _, x := range clockFields(&c.clocks) {
			if x.name == name {
				return x.d
			}
		}
		panic("no clock " + name) // a typing error in this file
	}
	return key{
		name: name,
		set: func(c *Config, v given) error {
			d, err := watch.Parse(v.text)
			if err != nil {
				return v.errorf("%s: %s", v.key, clockTrouble(v.text))
			}
			if v.from.Source == Project {
				if err := c.withinClock(name, d, *field(c), v); err != nil {
					return err
				}
			}
			*field(c) = d
			return nil
		},
		get: func(c *Config) string { return watch.Format(*field(c)) },
	}
}

// timePattern is a time that is well written. The error of time.ParseDuration is
// the same for one that is not and for one that is longer than 292 years.
var timePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+$`) })

func clockTrouble(s string) string {
	positive, negative := strings.CutPrefix(s, "-")
	d, err := time.ParseDuration(s)
	switch isTime := timePattern().MatchString(positive); {
	case err == nil && d <= 0, negative && isTime:
		return show(s) + " is not a time to wait: write none to switch the clock off"
	case isTime:
		return show(s) + " is too long: write a shorter time, or none to switch the clock off"
	}
	return show(s) + " is not a time: write 90s, 5m or 1h30m, or none"
}

func size(name string, field func(*Config) *int64) key {
	return key{
		name: name,
		set: func(c *Config, v given) error {
			n, err := ParseSize(v.text)
			if err != nil {
				return v.errorf("%s: %v", v.key, err)
			}
			if v.from.Source == Project {
				if err := withinLimit(c, name, n, *field(c), FormatSize, v); err != nil {
					return err
				}
			}
			*field(c) = n
			return nil
		},
		get: func(c *Config) string { return FormatSize(*field(c)) },
	}
}

func setProcs(c *Config, v given) error {
	n := 0
	if v.text != "none" {
		var err error
		if n, err = strconv.Atoi(v.text); err != nil || n <= 0 {
			return v.errorf("%s: %s is not a number of processes: write 200, or none", v.key, show(v.text))
		}
	}
	if v.from.Source == Project {
		if err := withinLimit(c, "max_procs", int64(n), int64(c.Limits.Procs), formatCount, v); err != nil {
			return err
		}
	}
	c.Limits.Procs = n
	return nil
}

func formatCount(n int64) string {
	if n == 0 {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}

func path(name string, field func(*Config) *string) key {
	return key{
		name: name,
		user: true,
		set: func(c *Config, v given) error {
			p, err := v.path()
			if err == nil {
				*field(c) = p
			}
			return err
		},
		get: func(c *Config) string { return *field(c) },
	}
}

// path is relative to the file that says it; what a variable or a flag says is
// relative to the working directory. "~/" is the home directory.
func (v given) path() (string, error) {
	p := v.text
	switch {
	case strings.TrimSpace(p) == "":
		return "", v.errorf("%s is empty: remove it to have the default", v.key)
	case p == "-":
		return "", v.errorf("%s: - is not a file: %s", v.key, stdio(v.key))
	case strings.ContainsRune(p, 0):
		return "", v.errorf("%s has a NUL in it", v.key)
	case strings.HasPrefix(p, "~/"):
		if v.home == "" {
			return "", v.errorf("%s: the home directory is not known: write the whole path", v.key)
		}
		p = filepath.Join(v.home, p[2:])
	}
	base := v.workingIn
	if v.from.Line > 0 {
		base = filepath.Dir(v.from.Name)
	}
	if !filepath.IsAbs(p) && base != "" {
		p = filepath.Join(base, p)
	}
	return p, nil
}

// stdio says what stands for stdin or stdout where "-" does not.
func stdio(key string) string {
	switch key {
	case "report":
		return "stdout carries the answer; --json ends it with the report"
	case "env_file":
		return "write /dev/stdin to read it from there"
	}
	return "write ./- for one of this name"
}

// ParseSize reads a size as users write it: "512MiB", "2GiB", "10GB", "1000B",
// or "none", which is 0. Units are B, KB, MB, GB, TB (1000) and KiB, MiB, GiB,
// TiB (1024), in capitals or not. A bare number is an error: nobody should have
// to guess its unit.
func ParseSize(s string) (int64, error) {
	if s == "none" {
		return 0, nil
	}
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i <= 0 {
		return 0, errors.New(show(s) + " is not a size: write 512MiB or 2GiB, or none")
	}
	unit, ok := units[strings.ToLower(strings.TrimSpace(s[i:]))]
	n, err := strconv.ParseFloat(s[:i], 64)
	if !ok || err != nil {
		return 0, errors.New(show(s) + " is not a size: units are B, KB, MB, GB, TB and KiB, MiB, GiB, TiB")
	}
	n *= float64(unit)
	switch {
	case n < 1:
		return 0, errors.New(show(s) + " is no size to stay within: write none for no limit")
	case n >= 1<<62:
		return 0, errors.New(show(s) + " is too large: write none for no limit")
	}
	return int64(n), nil
}

var units = map[string]int64{
	"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// FormatSize writes a size as ParseSize reads it.
func FormatSize(n int64) string {
	if n <= 0 {
		return "none"
	}
	for _, u := range []struct {
		name string
		n    int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if n%u.n == 0 {
			return strconv.FormatInt(n/u.n, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
