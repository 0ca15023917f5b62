// Package agenttest is the conformance kit for agents: what every agent must do
// alike, whoever wrote it.
//
//	func TestMain(m *testing.M) { agenttest.Main(m) }
//	func TestConformance(t *testing.T) { agenttest.Run(t, my.Agent{}, nil) }
package agenttest

import (
	"fmt"
	"testing"

	"github.com/rein-run/rein/agent"
)

// Options are the options of Run. The zero value of each field is replaced by
// what its comment says.
type Options struct {
	// Facts are those of the commands that are built: version unknown, Linux,
	// user 1000, the first executable in /usr/bin.
	Facts agent.Facts
	// Model is one that the agent takes: of its first family, or any.
	Model string
	// Foreign is one that it must refuse: of a family that it does not name.
	// Agents that take any family are not asked.
	Foreign string
	// Args are arguments of a user's own that the CLI takes: "--agenttest=1".
	Args []string
	// Transcripts are recordings of the CLI. Each is also read cut off and
	// damaged.
	Transcripts [][]byte
}

// Run runs every check as a subtest. The spawn check needs Main.
func Run(t *testing.T, a agent.Agent, o *Options) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range c.problems(a, o) {
				t.Error(p)
			}
		})
	}
}

// check is one thing that every agent must do.
type check struct {
	name string
	run  func(*probe)
}

var checks = []check{
	{"name", checkName},
	{"capabilities", checkCapabilities},
	{"pure", checkPure},
	{"executable", checkExecutable},
	{"modes", checkModes},
	{"sessions", checkSessions},
	{"prompts", checkPrompts},
	{"models", checkModels},
	{"efforts", checkEfforts},
	{"user arguments", checkUserArgs},
	{"gate", checkGate},
	{"rules", checkRules},
	{"observer", checkObserver},
	{"doctor", checkDoctor},
	{"environment", checkEnvironment},
	{"errors", checkErrors},
	{"version", checkVersion},
	{"spawn", checkSpawn},
	{"reader", checkReader},
}

func (c check) problems(a agent.Agent, o *Options) (found []string) {
	p := &probe{agent: a}
	defer func() {
		if r := recover(); r != nil {
			found = append(p.found, fmt.Sprintf("panic: %v", r))
		}
	}()
	if o != nil {
		p.Options = *o
	}
	p.fill()
	c.run(p)
	return p.found
}

// probe is an agent under one check, with what the check found.
type probe struct {
	Options
	agent agent.Agent
	caps  agent.Capabilities
	found []string
}

func (p *probe) errorf(format string, args ...any) {
	if len(p.found) < 20 {
		p.found = append(p.found, fmt.Sprintf(format, args...))
	}
}

// samples are models of each family.
var samples = map[string]string{
	agent.Anthropic: "claude-opus-4-8", agent.OpenAI: "gpt-5-codex", agent.Google: "gemini-3-pro",
	agent.XAI: "grok-4.6", agent.Kimi: "kimi-k2", agent.Cursor: "composer-2.5",
}

func (p *probe) fill() {
	p.caps = p.agent.Capabilities(p.Facts.Version)
	f := &p.Facts
	if f.OS == "" {
		f.OS = "linux"
		if f.UID == 0 {
			f.UID = 1000
		}
	}
	if f.Exe == "" {
		f.Exe = "/usr/bin/agent"
		if len(p.caps.Executables) > 0 {
			f.Exe = "/usr/bin/" + p.caps.Executables[0]
		}
	}
	if p.Model == "" {
		p.Model = "any/model-1"
		if len(p.caps.Families) > 0 {
			p.Model = samples[p.caps.Families[0]]
		}
	}
	if p.Args == nil {
		p.Args = []string{"--agenttest=1"}
	}
	if p.Foreign == "" {
		for family, model := range samples {
			if !contains(p.caps.Families, family) {
				p.Foreign = model
				break
			}
		}
	}
}

func contains[T comparable](list []T, want T) bool {
	for _, v := range list {
		if v == want {
			return true
		}
	}
	return false
}

// plain is the invocation that the others differ from.
func plain() agent.Invocation {
	return agent.Invocation{Prompt: "say what this repository is for", Dir: "/agenttest/dir", FilesDir: "/agenttest/files"}
}

// build builds a command that must work.
func (p *probe) build(what string, inv agent.Invocation) (agent.Command, bool) {
	c, err := p.agent.Command(inv, p.Facts)
	if err != nil {
		p.errorf("%s: %v", what, err)
		return c, false
	}
	if len(c.Argv) == 0 {
		p.errorf("%s: the argv is empty", what)
		return c, false
	}
	return c, true
}
