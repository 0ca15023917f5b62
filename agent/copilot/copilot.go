// Package copilot is all that is known about GitHub Copilot CLI: its command
// line, its json transcript, its hooks, its environment. Observed on 1.0.102.
package copilot

import (
	"regexp"
	"strings"
	"sync"

	"github.com/rein-run/rein/agent"
)

// Agent is GitHub Copilot CLI. It has no state; the zero value works.
type Agent struct{}

// Name is "copilot".
func (Agent) Name() string { return "copilot" }

// Capabilities hold for every version that is known. Tokens are in no line of
// the stream: --usage-output-file and OpenTelemetry have them, in a file.
func (Agent) Capabilities(string) agent.Capabilities {
	return agent.Capabilities{
		Executables: []string{"copilot"},
		Aliases:     []string{"github-copilot", "copilot-cli"},
		Install:     "npm install -g @github/copilot",
		Modes:       []agent.Mode{agent.Autonomous, agent.ReadOnly},
		Resume:      true,
		Efforts:     []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"},
		Prompt:      agent.ByStdin,
		// 200 KB arrived whole; of 900 KB no request was made.
		PromptMax:  200_000,
		Announces:  true,
		Terminal:   true,
		Tools:      true,
		Subagents:  true,
		Gate:       true,
		TellsModel: true,
		// GH_TOKEN and GITHUB_TOKEN log it in too, and every gh that it starts:
		// they are not kept for it.
		Credentials: []string{"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN"},
		// COPILOT_ALLOW_ALL=true trusts the repository's own hooks, which could
		// switch the gate off.
		Scrub:     append(agent.Nested(), "COPILOT_ALLOW_ALL"),
		Rules:     []agent.RuleChannel{agent.RulesByPrompt, agent.RulesByFile},
		RulesFile: "AGENTS.md",
		Metered:   true, // by premium requests
		Reserved: map[string]string{
			"-p": already, "--prompt": already, "-s": already, "--silent": already, "--output-format": already, "--no-ask-user": already, "--no-auto-update": already,
			"-i": "a run has nobody to talk to; leave it out", "--interactive": "a run has nobody to talk to; leave it out",
			"--acp":       "a session is opened by another command",
			"-C":          "use the directory of the run",
			"--allow-all": useMode, "--yolo": useMode, "--allow-all-tools": useMode, "--mode": useMode, "--plan": useMode, "--autopilot": useMode,
			"--trust-folder": "the repository's own settings could switch off what is asked before a tool runs; leave it out",
			"--model":        "use the model of the run", "--reasoning-effort": "use the effort of the run",
			"-r": useResume, "--resume": useResume, "--continue": useResume, "--session-id": useResume, "--connect": useResume,
			"--remote": leaves, "--remote-export": leaves, "--share-gist": leaves, "--environment-host": leaves,
			"-h": "it only prints help", "--help": "it only prints help", "-v": "it only prints the version", "--version": "it only prints the version",
		},
	}
}

const (
	already   = "a run sets it already; leave it out"
	useMode   = "use the mode of the run"
	useResume = "use the session of the run"
	leaves    = "the session would leave this machine; leave it out"
)

// Command builds
//
//	copilot --output-format json --no-ask-user --no-auto-update … ARGS
//
// with the prompt on stdin. Options that take several values have them behind
// a "=": they would swallow what follows.
func (a Agent) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	if err := agent.Validate(a, inv, f); err != nil {
		return agent.Command{}, err
	}
	c := a.Capabilities(f.Version)
	exe := f.Exe
	if exe == "" {
		exe = "copilot"
	}
	cmd := agent.Command{Argv: []string{exe, "--output-format", "json", "--no-ask-user", "--no-auto-update"}, Unset: c.Scrub}
	add := func(args ...string) { cmd.Argv = append(cmd.Argv, args...) }
	if inv.Mode == agent.ReadOnly {
		if inv.Takes("--available-tools", "--excluded-tools") {
			return agent.Command{}, &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: "--available-tools", Hint: "read-only mode chooses the tools; leave it out, or run in autonomous mode"}
		}
		// What is not there cannot be used; plan mode has the shell.
		add("--allow-all-tools", "--available-tools=view,grep,glob")
	} else {
		add("--allow-all")
		if inv.Withhold.Web && !inv.Takes("--excluded-tools", "--available-tools") {
			add("--excluded-tools=web_fetch,web_search")
		}
	}
	for _, rule := range withheld(inv.Withhold) {
		add("--deny-tool=" + rule)
	}
	switch s := inv.Session.Resume; s {
	case "":
		if inv.FilesDir != "" {
			cmd.SessionID = agent.NewSessionID(inv.FilesDir)
			add("--session-id=" + cmd.SessionID)
		}
	case "latest":
		add("--continue")
	default:
		cmd.SessionID = s
		add("--resume=" + s)
	}
	if inv.Model != "" {
		add("--model", inv.Model)
	}
	if inv.Effort != "" {
		add("--reasoning-effort", inv.Effort)
	}
	if inv.RuleChannel(c) == agent.RulesByPrompt {
		inv = inv.RulesBeforePrompt()
	}
	inv = inv.LimitsBehindPrompt()
	if inv.Gate != nil {
		files, err := gate(inv)
		if err != nil {
			return agent.Command{}, err
		}
		cmd.Files = append(cmd.Files, files...)
		add("--plugin-dir", inv.FilesDir)
	}
	add(inv.Args...)
	if err := cmd.StdinPrompt(a.Name(), inv, f, c.PromptMax); err != nil {
		return agent.Command{}, err
	}
	return cmd, agent.CheckArgs(cmd.Argv, cmd.Env, f.OS)
}

// withheld are rules for --deny-tool: hints, since 1.0.102 runs sh -c "git push".
func withheld(w agent.Withhold) (rules []string) {
	for _, c := range w.Commands {
		if !strings.ContainsAny(c, "()*,:") {
			rules = append(rules, "shell("+c+")")
		}
	}
	return rules
}

// VersionArgs print "GitHub Copilot CLI 1.0.102." and what to do for an update.
func (Agent) VersionArgs() []string { return []string{"--version"} }

// ParseVersion reads that line.
func (Agent) ParseVersion(output []byte) string {
	if m := versionLine().FindSubmatch(output); m != nil {
		return string(m[1])
	}
	return ""
}

var versionLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^GitHub Copilot CLI (\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[A-Za-z0-9.]{0,62}[A-Za-z0-9])?)\.?\s*$`)
})

// NewReader reads --output-format json.
func (Agent) NewReader(f agent.Facts) agent.Reader { return &reader{version: f.Version} }

// HelpArgs print the help, in which all flags stand.
func (Agent) HelpArgs(string) [][]string { return [][]string{{"--help"}} }

// Flags are those that Command may use.
func (Agent) Flags(string) []string {
	return []string{
		"--output-format", "--no-ask-user", "--no-auto-update", "--allow-all", "--allow-all-tools", "--available-tools", "--excluded-tools", "--deny-tool",
		"--session-id", "--continue", "--resume", "--model", "--reasoning-effort", "--plugin-dir",
	}
}

// LoginArgs: it can only log in, not say who is.
func (Agent) LoginArgs(string) []string { return nil }

// ParseLogin knows nothing.
func (Agent) ParseLogin(int, []byte) agent.Login { return agent.Login{State: agent.LoginUnknown} }

var (
	_ agent.Agent   = Agent{}
	_ agent.Decoder = Agent{}
	_ agent.Prober  = Agent{}
	_ agent.Gate    = Agent{}
	_ agent.Doctor  = Agent{}
)
