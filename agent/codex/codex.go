// Package codex is all that is known about Codex CLI: its command line, its
// exec --json transcript, its environment. Observed on 0.171.0.
package codex

import (
	"regexp"
	"strconv"
	"sync"

	"github.com/rein-run/rein/agent"
)

// Agent is Codex CLI. It has no state; the zero value works.
type Agent struct{}

// Name is "codex".
func (Agent) Name() string { return "codex" }

// Capabilities hold for every version that is known; the gate since 0.171.0,
// the first whose flags for it were seen to work.
func (Agent) Capabilities(version string) agent.Capabilities {
	return agent.Capabilities{
		Executables: []string{"codex"},
		Aliases:     []string{"codex-cli"},
		Install:     "npm install -g @openai/codex",
		Modes:       []agent.Mode{agent.Autonomous, agent.ReadOnly},
		Resume:      true,
		Efforts:     []string{"none", "minimal", "low", "medium", "high", "xhigh"},
		Families:    []string{agent.OpenAI},
		Prompt:      agent.ByStdin,
		// 0.171.0: input_too_large, max_chars 1048576. Bytes are never fewer.
		PromptMax:   1 << 20,
		Announces:   true,
		Terminal:    true,
		Tools:       true,
		Gate:        gated(version),
		Subagents:   true,
		Rules:       []agent.RuleChannel{agent.RulesBySystem, agent.RulesByPrompt, agent.RulesByFile},
		RulesFile:   "AGENTS.md",
		Observer:    true,
		Schema:      true,
		Usage:       true, // in turn.completed alone, and never the model
		Credentials: []string{"CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_API_KEY"},
		// It is asked for by a provider of the user's own configuration alone:
		// "login status" of 0.171.0 says "Not logged in" where it is set.
		AfterLogin:    []string{"OPENAI_API_KEY"},
		Subscriptions: []string{"CODEX_ACCESS_TOKEN"},
		Scrub:         agent.Nested(),
		Reserved: map[string]string{
			"--json": already, "--experimental-json": already, "-C": useDir, "--cd": useDir, "--worktree": useDir,
			"-m": "use the model of the run", "--model": "use the model of the run",
			"-s": useMode, "--sandbox": useMode, "--dangerously-bypass-approvals-and-sandbox": useMode, "--yolo": useMode,
			"--full-auto": useMode, "--approve-for-me": useMode,
			"resume": useResume, "--last": useResume,
			"fork": "it begins another session; use the session of the run", "review": "give the review as a prompt",
			"--remote": "the agent would work on another machine, outside this run",
			"-h":       "it only prints help", "--help": "it only prints help", "-V": "it only prints the version", "--version": "it only prints the version",
		},
	}
}

const (
	already   = "a run sets it already; leave it out"
	useDir    = "use the directory of the run"
	useMode   = "use the mode of the run"
	useResume = "use the session of the run"
)

// Command builds
//
//	codex exec --json --cd DIR … ARGS [resume ID|--last] -
//
// with the prompt on stdin ("-").
func (a Agent) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	if err := agent.Validate(a, inv, f); err != nil {
		return agent.Command{}, err
	}
	c := a.Capabilities(f.Version)
	exe := f.Exe
	if exe == "" {
		exe = "codex"
	}
	cmd := agent.Command{Argv: []string{exe, "exec", "--json"}, Unset: c.Scrub}
	add := func(args ...string) { cmd.Argv = append(cmd.Argv, args...) }

	// Every option stands before "resume": exec alone knows --cd and -s, and
	// "exec resume --cd" is a parse error. Without --cd codex follows the .git
	// file of a linked worktree and works on the main checkout.
	if inv.Dir != "" {
		add("--cd", inv.Dir)
	}
	if f.GitCommonDir == "" {
		add("--skip-git-repo-check") // else exit code 1 outside a repository
	}
	if (inv.Mode == agent.ReadOnly || inv.Observer) && !inv.Boxed {
		add("--sandbox", "read-only")
	} else {
		add("--dangerously-bypass-approvals-and-sandbox")
	}
	// Analytics keep the process for 5.0 s after its last line when the network
	// is cut; the plugins feature asks a git server at every start. As -c both
	// are ignored (with an item of type error) by a version that lacks them,
	// while --disable of an unknown feature ends with exit code 1.
	add("-c", "analytics.enabled=false", "-c", "features.plugins=false")
	if inv.Withhold.Web || inv.Observer {
		add("-c", `web_search="disabled"`) // tools.web_search=false changes nothing in 0.171.0
	}
	if err := a.observe(inv, f, &cmd); err != nil {
		return agent.Command{}, err
	}
	inv, err := a.beside(inv, c, &cmd)
	if err != nil {
		return agent.Command{}, err
	}
	if inv.Gate != nil {
		if err := gateArgs(inv.Args); err != nil {
			return agent.Command{}, err
		}
		add(gate(inv.Gate)...)
	}
	if inv.Effort != "" {
		add("-c", "model_reasoning_effort="+strconv.Quote(inv.Effort))
	}
	if inv.Model != "" {
		add("--model", inv.Model)
	}
	add(inv.Args...)
	switch s := inv.Session.Resume; s {
	case "":
	case "latest":
		// Right before the prompt: else the prompt is taken for the session id.
		add("resume", "--last")
	default:
		add("resume", s)
	}
	add("-")
	if err := cmd.StdinPrompt(a.Name(), inv, f, c.PromptMax); err != nil {
		return agent.Command{}, err
	}
	return cmd, agent.CheckArgs(cmd.Argv, cmd.Env, f.OS)
}

// VersionArgs print "codex-cli 0.171.0".
func (Agent) VersionArgs() []string { return []string{"--version"} }

// ParseVersion reads that line; a warning may stand before it.
func (Agent) ParseVersion(output []byte) string {
	if m := versionLine().FindSubmatch(output); m != nil {
		return string(m[1])
	}
	return ""
}

var versionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^codex(?:-cli)? (\d+\.\d+\.\d+\S*)`) })

// NewReader reads exec --json.
func (Agent) NewReader(f agent.Facts) agent.Reader { return &reader{version: f.Version} }

var (
	_ agent.Agent   = Agent{}
	_ agent.Decoder = Agent{}
	_ agent.Prober  = Agent{}
	_ agent.Gate    = Agent{}
)
