// Package gemini is all that is known about Gemini CLI: its command line, its
// stream-json transcript, its hooks, its environment. Observed on 0.61.0.
package gemini

import (
	"regexp"
	"slices"
	"sync"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// Agent is Gemini CLI. It has no state; the zero value works.
type Agent struct{}

// Name is "gemini".
func (Agent) Name() string { return "gemini" }

// Capabilities hold for every version that is known.
func (Agent) Capabilities(string) agent.Capabilities {
	return agent.Capabilities{
		Executables: []string{"gemini"},
		Aliases:     []string{"gemini-cli"},
		Install:     "npm install -g @google/gemini-cli",
		Modes:       []agent.Mode{agent.Autonomous, agent.ReadOnly},
		Resume:      true,
		Families:    []string{agent.Google},
		Prompt:      agent.ByStdin,
		// 900 KB arrived whole. Of 5 MB the CLI makes no request, and ends with
		// code 0 and no result; beyond 8 MiB it cuts what it reads.
		PromptMax:  900_000,
		Announces:  true,
		Terminal:   true,
		Tools:      true,
		Subagents:  true,
		Gate:       true,
		Usage:      true, // in the result alone
		TellsModel: true,

		Rules:     []agent.RuleChannel{agent.RulesByPrompt, agent.RulesByFile},
		RulesFile: "GEMINI.md",

		Credentials: []string{"GEMINI_API_KEY"},
		CredentialsIf: map[string][]string{
			"GOOGLE_GENAI_USE_VERTEXAI": {"GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"},
			"GOOGLE_GENAI_USE_GCA":      {"GOOGLE_CLOUD_ACCESS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"},
		},
		Scrub: agent.Nested(),
		Reserved: map[string]string{
			"-o": already, "--output-format": already, "--skip-trust": already,
			"-p": usePrompt, "--prompt": usePrompt, "-i": usePrompt, "--prompt-interactive": usePrompt,
			"-m": "use the model of the run", "--model": "use the model of the run",
			"-y": useMode, "--yolo": useMode, "--approval-mode": useMode,
			"-r": useResume, "--resume": useResume, "--session-file": useResume,
			"-w": useDir, "--worktree": useDir,
			"--acp": "it is another protocol, which a run does not use", "--experimental-acp": "it is another protocol, which a run does not use",
			"-l": noAgent, "--list-extensions": noAgent, "--list-sessions": noAgent, "--delete-session": noAgent,
			"-h": "it only prints help", "--help": "it only prints help", "-v": "it only prints the version", "--version": "it only prints the version",
		},
	}
}

const (
	already   = "a run sets it already; leave it out"
	useDir    = "use the directory of the run"
	useMode   = "use the mode of the run"
	usePrompt = "use the prompt of the run"
	useResume = "use the session of the run"
	noAgent   = "it runs no agent"
)

// Command builds
//
//	gemini --output-format stream-json --approval-mode MODE --skip-trust … ARGS
//
// with the prompt on stdin, where it may begin with anything: without a
// terminal the CLI works without -p. As for a person, "@file" in it stands for
// the file's content, and "/name" at its beginning for a command.
func (a Agent) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	if err := agent.Validate(a, inv, f); err != nil {
		return agent.Command{}, err
	}
	c := a.Capabilities(f.Version)
	exe := f.Exe
	if exe == "" {
		exe = "gemini"
	}
	mode := "yolo"
	if inv.Mode == agent.ReadOnly {
		mode = "plan"
		if inv.FilesDir == "" {
			return agent.Command{}, &agent.Error{Agent: a.Name(), Err: agent.ErrMode, Value: string(inv.Mode), Hint: "plan mode alone does not hold, and there is no place for the rules that do; run it on this machine"}
		}
	}
	cmd := agent.Command{
		// In a directory that is not trusted every mode becomes the default one,
		// in which nobody answers and no tool runs.
		Argv:  []string{exe, "--output-format", "stream-json", "--approval-mode", mode, "--skip-trust"},
		Env:   driver.Env{},
		Unset: c.Scrub,
		// The launcher ignores TERM, INT and HUP (0.61.0), and waits for the
		// process that does the work, which TERM ends without a word.
		Stop: []agent.StopStep{{Signal: driver.Terminate, Share: 1}},
	}
	add := func(args ...string) { cmd.Argv = append(cmd.Argv, args...) }
	if inv.Model != "" {
		add("--model", inv.Model)
	}
	if s := inv.Session.Resume; s != "" {
		add("--resume", s) // an id, or "latest"
	}
	if inv.FilesDir != "" {
		if text := policy(inv); text != "" {
			cmd.Files = append(cmd.Files, agent.File{Name: policyFile, Data: []byte(text)})
			add("--admin-policy", agent.Join(f.OS, inv.FilesDir, policyFile))
		}
	}
	if inv.Gate != nil {
		settings, err := gate(inv, f)
		if err != nil {
			return agent.Command{}, err
		}
		cmd.Files = append(cmd.Files, settings)
		cmd.Env[settingsVar] = agent.Join(f.OS, inv.FilesDir, settings.Name)
		cmd.Unset = slices.DeleteFunc(slices.Clone(cmd.Unset), func(v string) bool { return v == settingsVar })
	}
	// The user's own come last: several take any number of values.
	add(inv.Args...)
	if inv.RuleChannel(c) == agent.RulesByPrompt {
		inv = inv.RulesBeforePrompt()
	}
	inv = inv.LimitsBehindPrompt()
	if err := cmd.StdinPrompt(a.Name(), inv, f, c.PromptMax); err != nil {
		return agent.Command{}, err
	}
	return cmd, agent.CheckArgs(cmd.Argv, cmd.Env, f.OS)
}

// VersionArgs print "0.61.0".
func (Agent) VersionArgs() []string { return []string{"--version"} }

// ParseVersion reads a line that is nothing but a version.
func (Agent) ParseVersion(output []byte) string {
	if m := versionLine().FindSubmatch(output); m != nil {
		return string(m[1])
	}
	return ""
}

var versionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^v?(\d+\.\d+\.\d+[^\s]*)\s*$`) })

// NewReader reads stream-json.
func (Agent) NewReader(f agent.Facts) agent.Reader { return &reader{version: f.Version} }

var (
	_ agent.Agent   = Agent{}
	_ agent.Decoder = Agent{}
	_ agent.Prober  = Agent{}
	_ agent.Doctor  = Agent{}
	_ agent.Gate    = Agent{}

	_ agent.GateLimits = Agent{}
)
