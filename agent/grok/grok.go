// Package grok is all that is known about Grok CLI: its command line, its
// streaming-json transcript, its hooks, its environment. Observed on 1.0.41.
package grok

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// Agent is Grok CLI. It has no state; the zero value works.
type Agent struct{}

// Name is "grok".
func (Agent) Name() string { return "grok" }

// Capabilities hold for every version that is known.
func (Agent) Capabilities(string) agent.Capabilities {
	return agent.Capabilities{
		Executables: []string{"grok"},
		Aliases:     []string{"grok-cli", "grok-build"},
		Install:     "npm install -g @xai-official/grok",
		Modes:       []agent.Mode{agent.Autonomous, agent.ReadOnly},
		Resume:      true,
		Efforts:     []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"},
		Families:    []string{agent.XAI},
		Prompt:      agent.ByStdin,
		// 5 MB arrive, and the CLI compacts them before it does anything.
		PromptMax: 900_000,
		Announces: true,
		Terminal:  true,
		Tools:     true,
		Subagents: true,
		Gate:      true,
		Usage:     true,
		UsageLive: true,
		Cost:      true, // in the last line alone, as is the model
		Credentials: []string{
			"XAI_API_KEY", "GROK_CODE_XAI_API_KEY", "GROK_AUTH", "GROK_DEPLOYMENT_KEY", "GROK_AUTH_PROVIDER_ACCESS_TOKEN", "GROK_AUTH_PROVIDER_REFRESH_TOKEN",
		},
		Scrub: agent.Nested(),
		Rules: []agent.RuleChannel{agent.RulesBySystem, agent.RulesByPrompt},
		// Not by AGENTS.md: what stood there did not reach the model (1.0.41, the
		// scripted model, outside of a repository).
		Schema: false, // --json-schema gives one JSON object at the end instead of a stream
		Reserved: map[string]string{
			"-p": already, "--single": already, "--prompt-file": already, "--prompt-json": already, "--verbatim": already,
			"--output-format": already, "--include-partial-messages": already, "--no-auto-update": already,
			"--cwd":             "use the directory of the run",
			"--permission-mode": useMode, "--always-approve": useMode, "--yolo": useMode,
			"-m": "use the model of the run", "--model": "use the model of the run",
			"--reasoning-effort": "use the effort of the run", "--effort": "use the effort of the run",
			"-r": useResume, "--resume": useResume, "-c": useResume, "--continue": useResume, "-s": useResume, "--session-id": useResume,
			"--fork-session": "it begins another session; use the session of the run",
			"-w":             worktree, "--worktree": worktree, "--ref": worktree, "--worktree-ref": worktree, "--restore-code": worktree,
			"--json-schema": "it replaces the stream that a run reads by one object; describe the form in the prompt",
			"-h":            "it only prints help", "--help": "it only prints help", "-v": "it only prints the version", "--version": "it only prints the version",
		},
	}
}

const (
	already   = "a run sets it already; leave it out"
	useMode   = "use the mode of the run"
	useResume = "use the session of the run"
	worktree  = "the agent would work in another directory than the run's; leave it out"
)

// Command builds
//
//	grok --no-auto-update --output-format streaming-json … ARGS --verbatim --prompt-file /dev/stdin
//
// with the prompt on stdin, which the CLI reads through that file alone: -p
// takes it from argv, and "-p -" reads nothing. Without --verbatim it cuts what
// is longer than 96 KB or so, without a word. It trims white space around it.
func (a Agent) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	if err := agent.Validate(a, inv, f); err != nil {
		return agent.Command{}, err
	}
	c := a.Capabilities(f.Version)
	exe := f.Exe
	if exe == "" {
		exe = "grok"
	}
	cmd := agent.Command{
		Argv: []string{exe, "--no-auto-update", "--output-format", "streaming-json"},
		// A request with the whole conversation after every turn, for a line on a
		// dashboard that nobody looks at: its tokens stand in no line.
		Env:   driver.Env{"GROK_TURN_SUMMARY": "0"},
		Unset: c.Scrub,
	}
	add := func(args ...string) { cmd.Argv = append(cmd.Argv, args...) }
	if inv.Mode == agent.ReadOnly {
		for _, arg := range inv.Args {
			if flag, _, _ := strings.Cut(arg, "="); slices.Contains(toolFlags, flag) {
				return agent.Command{}, &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: flag, Hint: "read-only mode chooses the tools; leave it out, or run in autonomous mode"}
			}
		}
		// Plan mode alone runs every command of the shell, and a write cancels
		// the turn. What is not there cannot be used; the tools of MCP servers
		// stay, and are denied.
		add("--permission-mode", "plan", "--tools", "read_file,list_dir,grep", "--deny", "MCPTool")
	} else {
		add("--permission-mode", "bypassPermissions")
	}
	for _, rule := range withheld(inv.Withhold) {
		add("--deny", rule)
	}
	if inv.Withhold.Web {
		add("--disable-web-search")
	}
	switch s := inv.Session.Resume; s {
	case "":
		// It tells its session in the last line, which a run that fails or is
		// stopped never has.
		if inv.FilesDir != "" {
			cmd.SessionID = agent.NewSessionID(inv.FilesDir)
			add("--session-id", cmd.SessionID)
		}
	case "latest":
		add("--continue")
	default:
		cmd.SessionID = s
		add("--resume", s)
	}
	if inv.Model != "" {
		add("--model", inv.Model)
	}
	if inv.Effort != "" {
		add("--reasoning-effort", inv.Effort)
	}
	inv = rules(inv, c, &cmd)
	if inv.Gate != nil {
		file, err := gate(inv)
		if err != nil {
			return agent.Command{}, err
		}
		cmd.Files = append(cmd.Files, file)
		add("--agent", agent.Join(f.OS, inv.FilesDir, file.Name))
	}
	add(inv.Args...)
	source := "/dev/stdin"
	if f.OS == "windows" {
		if inv.FilesDir == "" {
			return agent.Command{}, &agent.Error{Agent: a.Name(), Err: agent.ErrPrompt, Hint: "on Windows it takes a directory to put the prompt in"}
		}
		source = agent.Join(f.OS, inv.FilesDir, agent.PromptFile)
		cmd.Files = append(cmd.Files, agent.File{Name: agent.PromptFile, Data: []byte(inv.Prompt)})
	} else if err := cmd.StdinPrompt(a.Name(), inv, f, c.PromptMax); err != nil {
		return agent.Command{}, err
	}
	add("--verbatim", "--prompt-file", source)
	return cmd, agent.CheckArgs(cmd.Argv, cmd.Env, f.OS)
}

// toolFlags would bring writing tools back.
var toolFlags = []string{"--tools", "--disallowed-tools", "--allow", "--allowedTools", "--agent", "--agents"}

// rules puts rules and limits where the CLI has a place for them: --rules is
// appended to the system prompt. It is text, never the name of a file.
func rules(inv agent.Invocation, c agent.Capabilities, cmd *agent.Command) agent.Invocation {
	var system []string
	switch inv.RuleChannel(c) {
	case agent.RulesBySystem:
		if inv.Takes("--rules") { // of two the CLI takes none
			inv = inv.RulesBeforePrompt()
		} else {
			system = append(system, inv.Rules)
		}
	case agent.RulesByPrompt:
		inv = inv.RulesBeforePrompt()
	}
	if inv.Limits != "" {
		if inv.Takes("--rules") {
			inv = inv.LimitsBehindPrompt()
		} else {
			system = append(system, inv.Limits)
		}
	}
	if len(system) > 0 {
		cmd.Argv = append(cmd.Argv, "--rules", strings.Join(system, "\n\n"))
	}
	return inv
}

// withheld are rules for --deny. They match the beginning of a command: 1.0.41
// sees through sh -c "git push", and runs "git -C . push".
func withheld(w agent.Withhold) (rules []string) {
	for _, c := range w.Commands {
		if !strings.ContainsAny(c, "()*") {
			rules = append(rules, "Bash("+c+":*)")
		}
	}
	return rules
}

// VersionArgs print "grok 1.0.41 (4220f3b224a6)".
func (Agent) VersionArgs() []string { return []string{"--version"} }

// ParseVersion reads that line.
func (Agent) ParseVersion(output []byte) string {
	if m := versionLine().FindSubmatch(output); m != nil {
		return string(m[1])
	}
	return ""
}

var versionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^grok (\d{1,9}\.\d{1,9}\.\d{1,9}\S{0,64})`) })

// NewReader reads streaming-json.
func (Agent) NewReader(f agent.Facts) agent.Reader { return &reader{version: f.Version} }

var (
	_ agent.Agent   = Agent{}
	_ agent.Decoder = Agent{}
	_ agent.Prober  = Agent{}
	_ agent.Gate    = Agent{}
	_ agent.Doctor  = Agent{}
)
