package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/meter"
	"github.com/rein-run/rein/watch"
)

// yard is a home directory with a git repository in it.
type yard struct {
	*testing.T
	home, repo, sub string
	vars            map[string]string
}

func newYard(t *testing.T) *yard {
	t.Helper()
	home := t.TempDir()
	p := &yard{t, home, filepath.Join(home, "src", "repo"), "", map[string]string{"HOME": home}}
	p.sub = filepath.Join(p.repo, "a", "b")
	for _, d := range []string{filepath.Join(p.repo, ".git"), p.sub, filepath.Join(home, ".config", "rein")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *yard) write(path, data string) {
	p.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		p.Fatal(err)
	}
}

func (p *yard) userFile() string       { return filepath.Join(p.home, ".config", "rein", "config.yaml") }
func (p *yard) projectFile() string    { return filepath.Join(p.repo, ProjectFile) }
func (p *yard) user(data string)       { p.Helper(); p.write(p.userFile(), data) }
func (p *yard) project(data string)    { p.Helper(); p.write(p.projectFile(), data) }
func (p *yard) env(name string) string { return p.vars[name] }
func (p *yard) load() (*Config, error) {
	return Load(p.sub, p.env, &Options{Agents: []string{"claude", "codex"}})
}

func (p *yard) mustLoad() *Config {
	p.Helper()
	c, err := p.load()
	if err != nil {
		p.Fatal(err)
	}
	return c
}

func TestNothingIsNoError(t *testing.T) {
	p := newYard(t)
	c := p.mustLoad()
	if v := c.Values(); v != nil || c.Clocks() != (watch.Clocks{}) || c.Origin("agent").String() != "default" {
		t.Errorf("%v", v)
	}
	p.user("")
	p.project("# nothing\n---\n")
	if v := p.mustLoad().Values(); v != nil {
		t.Errorf("empty files: %v", v)
	}
}

func TestEveryKey(t *testing.T) {
	p := newYard(t)
	p.user(`
agent: claude
on: ssh://build/srv
model: "opus"
effort: high
mode: read-only
startup: 10s
idle: 2m
tool: 3m
stall: 4m
total: 1h
completion: none
grace: 2s
max_memory: 2GiB
max_procs: 200
max_output: 10MB
max_tokens: 1.5M
max_cost: $2.50
max_subagents: 12
allow: ["gh pr review"]
commits: true
network: true
others_work_here: true
require_model: true
rules_file: rules.md
packs: [elixir]
rules:
  - {command: npm publish, level: halt, reason: ask first}
levels: {git-switch: warn}
retries: 3
wait_for_limit: 5h
labels: {team: core, year: 2026}
env_file: secrets.env
report: ~/report.json
state_dir: /var/lib/rein
agents:
  claude:
    path: /opt/claude
    args: ["--verbose", '5']
    model: sonnet
    effort: low
prices:
  my/model-4.1: {input: 1, output: 2.5, cache_read: 0.1, cache_write: $1.25}
sandbox: true
`)
	c := p.mustLoad()
	want := &Config{
		Agent: "claude", On: "ssh://build/srv", Model: "opus", Effort: "high", Mode: agent.ReadOnly,
		Limits: watch.Limits{Memory: 2 << 30, Procs: 200, Output: 10_000_000, Tokens: 1_500_000, CostUSD: 2.5, Subagents: 12},
		Guard: guard.Config{
			Allow: []string{"gh pr review"}, Commits: true, Network: true, Packs: []string{"elixir"},
			Rules:  []guard.Rule{{Command: "npm publish", Level: guard.Halt, Reason: "ask first"}},
			Levels: map[string]guard.Level{"git-switch": guard.Warn},
		},
		OthersWorkHere: true,
		Sandbox:        true, RequireModel: true, RulesFile: filepath.Join(filepath.Dir(p.userFile()), "rules.md"),
		Prices:  meter.Prices{"my/model-4.1": {Input: 1, Output: 2.5, CacheRead: 0.1, CacheWrite: 1.25}},
		Labels:  map[string]string{"team": "core", "year": "2026"},
		EnvFile: filepath.Join(filepath.Dir(p.userFile()), "secrets.env"),
		Report:  filepath.Join(p.home, "report.json"),
		Agents: map[string]AgentConfig{
			"claude": {Path: "/opt/claude", Args: []string{"--verbose", "5"}, Model: "sonnet", Effort: "low"},
		},
		StateDir: "/var/lib/rein", Retries: 3, LimitWait: 5 * time.Hour,
		clocks: watch.Clocks{
			Startup: 10 * time.Second, Idle: 2 * time.Minute, Tool: 3 * time.Minute, Stall: 4 * time.Minute,
			Total: time.Hour, Completion: watch.None, Grace: 2 * time.Second,
		},
		origins: c.origins, workingIn: c.workingIn,
	}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
	// Every key is there with its place: a key that is added without a value
	// here is noticed.
	for _, k := range keys {
		if k.get == nil {
			continue
		}
		if o := c.Origin(k.name); o.Source != User || o.Name != p.userFile() || o.Line < 2 || o.Column != 1 {
			t.Errorf("%s comes from %+v", k.name, o)
		}
	}
	if o := c.Origin("agents.claude.model"); o.Line != 40 || o.Column != 5 {
		t.Errorf("agents.claude.model comes from %v", o)
	}
	var text []string
	for _, v := range c.Values() {
		text = append(text, v.Key+"="+v.Text)
	}
	for _, s := range []string{"total=1h", "completion=none", "max_memory=2GiB", "max_output=10MB", "max_tokens=1500k", "max_cost=2.5", "max_subagents=12", "allow=gh pr review", "commits=true", "levels.git-switch=warn", "retries=3", "wait_for_limit=5h", "prices.my/model-4.1=input 1, output 2.5, cache_read 0.1, cache_write 1.25", "labels.team=core", `agents.claude.args=["--verbose" "5"]`} {
		if !slices.Contains(text, s) {
			t.Errorf("values do not show %s: %q", s, text)
		}
	}
}

func TestPrecedence(t *testing.T) {
	p := newYard(t)
	check := func(model, from string) {
		t.Helper()
		c := p.mustLoad()
		if got := c.Origin("model").String(); c.Model != model || got != from {
			t.Errorf("model %q from %s, want %q from %s", c.Model, got, model, from)
		}
	}
	check("", "default")
	p.user("model: user")
	check("user", p.userFile()+":1:1")
	p.project("agent: claude\nmodel: project")
	check("project", p.projectFile()+":2:1")
	p.vars["REIN_MODEL"] = "variable"
	check("variable", "REIN_MODEL")
	c := p.mustLoad()
	if err := c.Set("model", "flag", Origin{Source: Flag, Name: "--model"}); err != nil {
		t.Fatal(err)
	}
	if c.Model != "flag" || c.Origin("model").String() != "--model" {
		t.Errorf("flag: %q from %v", c.Model, c.Origin("model"))
	}
}

func TestEveryVariable(t *testing.T) {
	p := newYard(t)
	values := map[string]string{
		"agent": "codex", "on": "ssh://h/d", "model": "m", "effort": "e", "mode": "read-only", "max_memory": "1GiB", "max_procs": "5",
		"max_output": "none", "max_tokens": "200k", "max_cost": "none", "max_subagents": "3", "allow": "gh pr review,gh pr edit", "commits": "true", "network": "false", "others_work_here": "true", "sandbox": "true", "require_model": "true", "rules_file": "r.md", "packs": "elixir", "retries": "0", "env_file": "x", "report": "/r", "state_dir": "s",
	}
	for _, k := range keys {
		switch v, ok := values[k.name]; {
		case ok:
			p.vars[variable(k.name)] = v
		case k.set != nil:
			p.vars[variable(k.name)] = "90s"
		}
	}
	p.vars["REIN_LABELS"] = "a=1, b=x=y"
	c := p.mustLoad()
	for _, k := range keys {
		if k.set != nil && c.Origin(k.name).String() != variable(k.name) {
			t.Errorf("%s comes from %v", k.name, c.Origin(k.name))
		}
	}
	if c.EnvFile != filepath.Join(p.sub, "x") || c.clocks.Grace != 90*time.Second || !maps.Equal(c.Labels, map[string]string{"a": "1", "b": "x=y"}) {
		t.Errorf("%+v", c)
	}
	p.vars["REIN_TOTAL"] = "0"
	p.vars["REIN_LABELS"] = "a"
	if _, err := p.load(); err == nil || !strings.Contains(err.Error(), "REIN_TOTAL: total:") || !strings.Contains(err.Error(), "REIN_LABELS: ") {
		t.Errorf("bad variables: %v", err)
	}
}

// A variable that Rein does not know is a typing error, as a key of a file is.
func TestUnknownVariables(t *testing.T) {
	p := newYard(t)
	for kv, want := range map[string]string{
		"REIN_MODLE=x":                `REIN_MODLE: there is no such variable: did you mean REIN_MODEL?`,
		"REIN_STATEDIR=/x":            `REIN_STATEDIR: there is no such variable: did you mean REIN_STATE_DIR?`,
		"REIN_AGENTS=x":               `REIN_AGENTS: agents can be set in a file only`,
		"REIN_total=5m":               `REIN_total: there is no such variable: write REIN_TOTAL`,
		"REIN_SOMETHING_ELSE=hunter2": `REIN_SOMETHING_ELSE: there is no such variable: unset it (the variables are REIN_ and a key: agent, on, model, `,
		"REIN_=1":                     `REIN_: there is no such variable: unset it`,
		"REIN_M\x1b[1m=1":             `REIN_M?[1m: there is no such variable`,
		"REIN_MODEL=m":                "",
		"REIN_MODLE=":                 "",
		"REIN_LABELS=a=b":             "",
		"REIN_RUN=a/b":                "",
		"REIN_TEST_ANYTHING=1":        "",
		"REINDEER=1":                  "",
		"rein_model=1":                "",
	} {
		_, err := Load(p.sub, p.env, &Options{Environ: []string{"HOME=/x", kv}})
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", kv, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%q: %v, want %s", kv, err, want)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%q: the value is told: %v", kv, err)
		}
	}
	_, err := Load(p.sub, p.env, &Options{Environ: []string{"REIN_MODLE=x", "REIN_AGNET=y"}})
	if err == nil || !strings.Contains(err.Error(), "REIN_MODLE") || !strings.Contains(err.Error(), "REIN_AGENT?") {
		t.Errorf("both are told: %v", err)
	}
}

func TestLabelsComeTogether(t *testing.T) {
	p := newYard(t)
	p.user("labels: {a: user, b: user}")
	p.project("labels:\n  b: project")
	c := p.mustLoad()
	if err := c.Set("labels", "c=flag", Origin{Source: Flag, Name: "--label"}); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"a": "user", "b": "project", "c": "flag"}; !maps.Equal(c.Labels, want) {
		t.Errorf("%v", c.Labels)
	}
}

func TestModelFor(t *testing.T) {
	p := newYard(t)
	p.user("model: user\nagents: {claude: {model: users-claude, effort: high}}")
	if m, _ := p.mustLoad().ModelFor("claude"); m != "users-claude" {
		t.Errorf("in one file the agent's own wins: %s", m)
	}
	if m, _ := p.mustLoad().ModelFor("codex"); m != "user" {
		t.Errorf("another agent: %s", m)
	}
	p.project("model: project")
	c := p.mustLoad()
	if m, o := c.ModelFor("claude"); m != "project" || o.Source != Project {
		t.Errorf("a stronger file wins: %s from %v", m, o)
	}
	if e, _ := c.EffortFor("claude"); e != "high" {
		t.Errorf("effort %s", e)
	}
}

func TestClocksOfDifferentStrength(t *testing.T) {
	p := newYard(t)
	p.user("idle: 20m\ngrace: 1m")
	p.vars["REIN_TOTAL"] = "10s"
	got := p.mustLoad().Clocks()
	if want := (watch.Clocks{Idle: 10 * time.Second, Total: 10 * time.Second, Grace: time.Minute}); got != want || got.Validate() != nil {
		t.Errorf("a weaker clock is cut to the total: %+v", got)
	}
	p.vars["REIN_IDLE"] = "20m"
	if err := p.mustLoad().Clocks().Validate(); !errors.Is(err, watch.ErrClock) {
		t.Errorf("clocks of one source contradict each other: %v", err)
	}
}

// What is wrong, and what is said about it: after "FILE:" of the project.
func TestErrors(t *testing.T) {
	for _, x := range []struct{ name, data, want string }{
		{"unknown key", "agent: claude\ntotl: 5m", `2:1: unknown key "totl": did you mean "total"?`},
		{"dashes", "max-memory: 1GiB", `1:1: unknown key "max-memory": did you mean "max_memory"?`},
		{"far from all", "zzzzzzzz: 1", `1:1: unknown key "zzzzzzzz": there are agent, on, model,`},
		{"hostile key", "\"\\e[2Jx\": 1", `1:1: unknown key "?[2Jx"`},
		{"unknown agent", "agents:\n  cluade:\n    model: x", `2:3: unknown agent "cluade": did you mean "claude"?`},
		{"unknown key of an agent", "agents:\n  claude:\n    modell: x", `3:5: unknown key "agents.claude.modell": did you mean "model"?`},
		{"twice", "model: a\nmodel: b", `2:1: "model" is there twice`},
		{"no unit", "total: 90", `1:1: total: "90" is not a time: write 90s`},
		{"too long", "total: 9999999h", `1:1: total: "9999999h" is too long`},
		{"too long in parts", "idle: 2562047h48m", `1:1: idle: "2562047h48m" is too long`},
		{"too long and negative", "total: -9999999h", `1:1: total: "-9999999h" is not a time to wait`},
		{"too long for a number", "total: 99999999999999999999s", `is too long`},
		{"no time", "total: 99999999999999999999d", `is not a time: write 90s`},
		{"zero", "total: 0s", `1:1: total: "0s" is not a time to wait: write none`},
		{"negative", "idle: -5s", `1:1: idle: "-5s" is not a time to wait`},
		{"size", "max_memory: 2G", `1:1: max_memory: "2G" is not a size: units are`},
		{"bare size", "max_output: 100", `1:1: max_output: "100" is not a size`},
		{"processes", "max_procs: many", `1:1: max_procs: "many" is not a number`},
		{"tokens", "max_tokens: lots", `1:1: max_tokens: "lots" is not a number of tokens: write 50000, 200k or 2M`},
		{"no tokens", "max_tokens: 0", `1:1: max_tokens: "0" is not a number`},
		{"tokens in hex", "max_tokens: 0x1p4", `1:1: max_tokens: "0x1p4" is not a number`},
		{"tokens without bound", "max_tokens: 99999999999999M", `is not a number of tokens`},
		{"money", "max_cost: 2 EUR", `1:1: max_cost: "2 EUR" is not an amount of money`},
		{"no money", "max_cost: 0", `is not an amount of money: write 2.50, which is USD, or none`},
		{"retries of a project", "retries: 3", `1:1: retries cannot be set by a project`},
		{"waits of a project", "wait_for_limit: 3h", `1:1: wait_for_limit cannot be set by a project`},
		{"sub-agents", "max_subagents: 0", `1:1: max_subagents: "0" is not a number of sub-agents`},
		{"mode", "mode: yolo", `1:1: mode "yolo": there are autonomous and read-only`},
		{"empty", "model:", `1:1: "model" has no value`},
		{"blank", "model: ' '", `1:1: model is empty`},
		{"bool", "model: true", `1:1: "model" is true or false here`},
		{"map", "model: {a: b}", `1:1: "model" needs one plain value`},
		{"flag", "model: --dangerously", `1:1: model begins with a dash`},
		{"control", `model: "a\nb"`, `1:1: model has a control character`},
		{"list", "- a", `names and values are expected`},
		{"scalar", "hello", `names and values are expected`},
		{"labels", "labels: x", `names and values are expected`},
		{"label name", "labels: {'a b': x}", `cannot be the name of a label`},
		{"label value", "labels: {a: [x]}", `needs one plain value`},
		{"anchor", "model: &a x", `needs one plain value`},
		{"alias", "model: &a x\neffort: *a", `needs one plain value`},
		{"tag", "model: !!str x", `needs one plain value`},
		{"merge", "labels:\n  <<: {a: b}", `a name is expected here`},
		{"two documents", "model: a\n---\nmodel: b", `3:6: holds more than one document`},
		{"syntax", "model: 'x", `1:8: not YAML: could not find end character`},
		{"tab", "labels:\n\ta: b", `2:1: not YAML`},
		{"brackets", "model: " + strings.Repeat("[", 60_000), `: holds more than 500 brackets`},
		{"large", strings.Repeat("#\n", 40_000), `: is larger than 64 KiB`},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := newYard(t)
			p.project(x.data)
			_, err := p.load()
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if msg := err.Error(); !strings.HasPrefix(msg, p.projectFile()+":") || !strings.Contains(msg, x.want) {
				t.Errorf("got  %s\nwant %s", msg, x.want)
			}
		})
	}
}

// All that is wrong in a file is told at once.
func TestErrorsTogether(t *testing.T) {
	p := newYard(t)
	p.project("totl: 1\nmode: x\nagents: {claude: {path: /x}}")
	_, err := p.load()
	if n := strings.Count(err.Error(), p.projectFile()); n < 3 {
		t.Errorf("%d errors: %v", n, err)
	}
}

// A rein.yaml comes with a clone.
func TestProjectCannot(t *testing.T) {
	for _, data := range []string{
		"env_file: /etc/passwd", "report: ../../x", "state_dir: /tmp", "on: ssh://evil.example/",
		"agents: {claude: {path: ./evil.sh}}", "agents: {claude: {args: [--settings, x]}}", "agents: {claude: {path: }}",
		"total: none", "idle: none", "grace: none", "max_memory: none", "max_procs: none", "max_output: none",
	} {
		p := newYard(t)
		p.project(data)
		_, err := p.load()
		if err == nil || !strings.Contains(err.Error(), p.userFile()) {
			t.Errorf("%s: must be refused and name the user's file: %v", data, err)
		}
	}
	p := newYard(t)
	p.user("mode: read-only")
	p.project("mode: autonomous")
	if _, err := p.load(); err == nil || !strings.Contains(err.Error(), "change it there, or remove this line") {
		t.Errorf("mode lifted: %v", err)
	}
	p.user("")
	p.project("mode: read-only\nagents: {claude: {model: x}}\ntotal: 2h")
	if c := p.mustLoad(); c.Mode != agent.ReadOnly || c.Agents["claude"].Model != "x" {
		t.Errorf("what a project may do: %+v", c)
	}
}

func TestWhichProjectFile(t *testing.T) {
	p := newYard(t)
	model := func() string { t.Helper(); return p.mustLoad().Model }
	p.write(filepath.Join(p.home, "src", ProjectFile), "model: above-the-root")
	if m := model(); m != "" {
		t.Errorf("a file above the repository counts: %s", m)
	}
	p.project("model: root")
	if m := model(); m != "root" {
		t.Errorf("from a subdirectory: %q", m)
	}
	near := filepath.Join(p.sub, ProjectFile)
	p.write(near, "model: nearest")
	if m := model(); m != "nearest" {
		t.Errorf("the nearest wins: %q", m)
	}
	if err := os.Remove(filepath.Join(p.repo, ".git")); err != nil {
		t.Fatal(err)
	}
	if m := model(); m != "nearest" {
		t.Errorf("outside of a repository, in the directory itself: %q", m)
	}
	if err := os.Remove(near); err != nil {
		t.Fatal(err)
	}
	if m := model(); m != "" {
		t.Errorf("outside of a repository, above the directory: %q", m)
	}
	p.write(filepath.Join(p.repo, ".git"), "gitdir: elsewhere\n")
	if m := model(); m != "root" {
		t.Errorf("a linked worktree: %q", m)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	p := newYard(t)
	if err := os.Mkdir(p.projectFile(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := p.load(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: %v", err)
	}
	if err := os.Remove(p.projectFile()); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(p.home, "secret")
	p.write(secret, "hunter2: 'x")
	if err := os.Symlink(secret, p.projectFile()); err != nil {
		t.Skip("symlinks cannot be made here: ", err)
	}
	if _, err := p.load(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a project's link: %v", err)
	}
	if err := os.Remove(p.projectFile()); err != nil {
		t.Fatal(err)
	}
	p.write(secret, "model: linked")
	if err := os.Symlink(secret, p.userFile()); err != nil {
		t.Fatal(err)
	}
	if c := p.mustLoad(); c.Model != "linked" {
		t.Error("the user's own file may be a link")
	}
}

func TestUserFile(t *testing.T) {
	abs := t.TempDir()
	for _, x := range []struct {
		vars map[string]string
		want string
	}{
		{map[string]string{"XDG_CONFIG_HOME": abs, "HOME": "/h"}, filepath.Join(abs, "rein", "config.yaml")},
		{map[string]string{"XDG_CONFIG_HOME": "relative", "HOME": abs}, filepath.Join(abs, ".config", "rein", "config.yaml")},
		{map[string]string{"AppData": abs}, filepath.Join(abs, "rein", "config.yaml")},
		{nil, ""},
	} {
		if got := UserFile(func(n string) string { return x.vars[n] }); got != x.want {
			t.Errorf("%v: %s", x.vars, got)
		}
	}
}

func TestSet(t *testing.T) {
	var c Config
	flag := Origin{Source: Flag, Name: "--x"}
	for key, value := range map[string]string{"totl": "1s", "total": "soon", "labels": "a", "agents": "x", "max_memory": "0GiB"} {
		var e *Error
		if err := c.Set(key, value, flag); !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "--x: ") {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	if err := c.Set("total", "none", flag); err != nil || c.Clocks().Total != watch.None {
		t.Errorf("none: %v", err)
	}
}

func TestSizes(t *testing.T) {
	for s, want := range map[string]int64{
		"none": 0, "1B": 1, "1.5GiB": 3 << 29, "2gib": 2 << 30, "10 MB": 10_000_000, "1KB": 1000, "7TiB": 7 << 40,
	} {
		n, err := ParseSize(s)
		if err != nil || n != want {
			t.Errorf("%s: %d, %v", s, n, err)
		}
		if back, err := ParseSize(FormatSize(n)); err != nil || back != n {
			t.Errorf("%s is written %s", s, FormatSize(n))
		}
	}
	for _, s := range []string{"", "0", "5", "0B", "0.1B", "-1MiB", "GiB", "1e3MB", "1.2.3MB", "9999999999999TiB", "NaNMB", "infMB", "1M"} {
		if n, err := ParseSize(s); err == nil {
			t.Errorf("%q is %d", s, n)
		}
	}
}

func TestUserErrors(t *testing.T) {
	for text, want := range map[string]string{
		"prices: {m: {input: cheap}}":         `1:14: "prices.m.input": "cheap" is not a price`,
		"prices: {m: {inptu: 1}}":             `unknown key "prices.m.inptu": did you mean "input"?`,
		"prices: {m: {}}":                     `"prices.m": a price needs input and output`,
		"prices: {m: {input: 1e3}}":           `is not a price`,
		"prices: {m: {input: 1, output: -2}}": `is not a price`,
		"prices: {m: {input: 9999999}}":       `0 to 1000000`,
		"retries: -1":                         `retries: "-1" is not a number of retries: write 0 to 100`,
		"retries: 1000":                       `is not a number of retries`,
		"wait_for_limit: 0":                   `wait_for_limit: "0" is not a time`,
		"prices: 3":                           `names and values are expected`,
	} {
		p := newYard(t)
		p.user(text)
		if _, err := p.load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The page names every key and every variable.
func TestPageIsWhole(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		row := "| `" + k.name + "` | "
		if k.name != "agents" && k.name != "prices" && k.name != "rules" && k.name != "levels" {
			row += "`" + variable(k.name) + "`"
		}
		if !strings.Contains(string(b), row) {
			t.Errorf("docs/configuration.md has no row %q", row)
		}
	}
}

// Whatever a file says, the answer is a value or an error with a place, and a
// project's file never sets what it may not.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"agent: claude\nlabels: {a: b}\nagents:\n  claude: {model: x}\n", "total: none", "grace: 10h", "\ufefftotal: 3h", "a: &x [*x]", "? ", "- - -", "<<: a", "%YAML 1.2\n---\n",
		"model: |\n  x\n", "model: !!str", "{", "\xff\xfe", "a: 'b", "*a : b", "agents: {claude: {args: [a, {b: c}]}}", "'", "model: >-\n", ": :", "&a",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4<<10 {
			return
		}
		c := &Config{}
		r := reader{c: c, userFile: "config.yaml"}
		err := r.yaml(b, Origin{Source: Project, Name: "rein.yaml"})
		if err != nil && !strings.HasPrefix(err.Error(), "rein.yaml") {
			t.Errorf("no place: %v", err)
		}
		if err != nil && strings.ContainsFunc(strings.ReplaceAll(err.Error(), "\n", ""), func(r rune) bool { return r < ' ' }) {
			t.Errorf("control characters: %q", err)
		}
		if c.EnvFile+c.Report+c.StateDir+c.RulesFile != "" || c.Limits.Memory < 0 {
			t.Errorf("%+v", c)
		}
		for _, a := range c.Agents {
			if a.Path != "" || a.Args != nil {
				t.Errorf("%+v", a)
			}
		}
		for _, x := range clockFields(&c.clocks) {
			if *x.d < 0 || *x.d > maxProjectClock || x.name == watch.Grace && *x.d > maxProjectGrace {
				t.Errorf("%s is %v", x.name, *x.d)
			}
		}
		c.Values()
	})
}
