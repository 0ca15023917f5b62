// Package qwen is all that is known about Qwen Code: its command line, its
// stream-json transcript, its environment. Observed on 0.15.10.
package qwen

import (
	"regexp"
	"strings"
	"sync"

	"github.com/rein-run/rein/agent"
)

// Agent is Qwen Code. It has no state; the zero value works.
//
// It is no agent.Gate, though the CLI has a hook before tools, which refuses
// (0.15.10, seen): one that does not answer within 60 s means yes, whatever its
// timeout says (MessageBus.request, read in its source), so a program that hangs
// would open it.
type Agent struct{}

// Name is "qwen".
func (Agent) Name() string { return "qwen" }

// Capabilities hold for every version that is known.
func (Agent) Capabilities(string) agent.Capabilities {
	return agent.Capabilities{
		Executables: []string{"qwen"},
		Aliases:     []string{"qwen-code"},
		Install:     "npm install -g @qwen-code/qwen-code",
		Modes:       []agent.Mode{agent.Autonomous, agent.ReadOnly},
		Resume:      true,
		Prompt:      agent.ByStdin,
		// 5 MB arrived whole; beyond 8 MiB the CLI cuts what it reads.
		PromptMax:  8_000_000,
		Announces:  true,
		Terminal:   true,
		Tools:      true,
		Subagents:  true,
		Usage:      true,
		UsageLive:  true,
		TellsModel: true,

		Rules:     []agent.RuleChannel{agent.RulesBySystem, agent.RulesByPrompt, agent.RulesByFile},
		RulesFile: "QWEN.md",
		Schema:    true,

		Credentials: []string{
			"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "DASHSCOPE_API_KEY",
			"BAILIAN_CODING_PLAN_API_KEY", "OPENROUTER_API_KEY",
		},
		Scrub: agent.Nested(),
		Reserved: map[string]string{
			"-o": already, "--output-format": already, "--include-partial-messages": already,
			"--input-format": "the prompt goes to stdin as text; a session is opened by another command",
			"-p":             usePrompt, "--prompt": usePrompt, "-i": usePrompt, "--prompt-interactive": usePrompt,
			"-m": "use the model of the run", "--model": "use the model of the run",
			"-y": useMode, "--yolo": useMode, "--approval-mode": useMode,
			"-r": useResume, "--resume": useResume, "-c": useResume, "--continue": useResume,
			"--json-schema":    "use the schema of the run",
			"--openai-api-key": "an argument can be read by every user of the machine; use the environment",
			"--acp":            "it is another protocol, which a run does not use",
			"-l":               "it runs no agent", "--list-extensions": "it runs no agent",
			"-h": "it only prints help", "--help": "it only prints help", "-v": "it only prints the version", "--version": "it only prints the version",
		},
	}
}

const (
	already   = "a run sets it already; leave it out"
	useMode   = "use the mode of the run"
	usePrompt = "use the prompt of the run"
	useResume = "use the session of the run"
)

// reading are the tools that change nothing. Plan mode holds by itself where
// there is no terminal (the model's exit_plan_mode is declined, 0.15.10, seen);
// a list of what is left holds against what the user's settings allow.
var reading = []string{"read_file", "list_directory", "glob", "grep_search", "todo_write"}

// Command builds
//
//	qwen --output-format stream-json --include-partial-messages --approval-mode MODE … ARGS
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
		exe = "qwen"
	}
	cmd := agent.Command{
		// Partial messages: a model that writes for ten minutes is not silent.
		Argv:  []string{exe, "--output-format", "stream-json", "--include-partial-messages"},
		Unset: c.Scrub,
	}
	add := func(args ...string) { cmd.Argv = append(cmd.Argv, args...) }
	// These take any number of values: a flag has to follow.
	if held := withheld(inv.Withhold); len(held) > 0 {
		add(append([]string{"--exclude-tools"}, held...)...)
	}
	mode := "yolo"
	if inv.Mode == agent.ReadOnly {
		if inv.Takes("--core-tools", "--allowed-tools", "--bare") {
			return agent.Command{}, &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: "--core-tools, --allowed-tools or --bare", Hint: "read-only mode chooses the tools; leave it out, or run in autonomous mode"}
		}
		add(append([]string{"--core-tools"}, reading...)...)
		add("--allowed-mcp-server-names", "none")
		mode = "plan"
	}
	add("--approval-mode", mode)
	if inv.Model != "" {
		add("--model", inv.Model)
	}
	switch s := inv.Session.Resume; s {
	case "":
	case "latest":
		add("--continue")
	default:
		add("--resume", s)
	}
	if inv.Schema != nil {
		add("--json-schema", string(inv.Schema))
	}
	inv, system := system(inv, c)
	if system != "" {
		add("--append-system-prompt", system)
	}
	// The user's own come last: several take any number of values.
	add(inv.Args...)
	if err := cmd.StdinPrompt(a.Name(), inv, f, c.PromptMax); err != nil {
		return agent.Command{}, err
	}
	return cmd, agent.CheckArgs(cmd.Argv, cmd.Env, f.OS)
}

// system is what goes behind the CLI's own system prompt: rules and limits,
// where the user's own Args leave the one flag for it free. Else they go to the
// prompt.
func system(inv agent.Invocation, c agent.Capabilities) (agent.Invocation, string) {
	var parts []string
	free := !inv.Takes("--append-system-prompt")
	switch inv.RuleChannel(c) {
	case agent.RulesBySystem:
		if free {
			parts = append(parts, inv.Rules)
			break
		}
		fallthrough
	case agent.RulesByPrompt:
		inv = inv.RulesBeforePrompt()
	}
	if free && inv.Limits != "" {
		parts = append(parts, inv.Limits)
	} else {
		inv = inv.LimitsBehindPrompt()
	}
	return inv, strings.Join(parts, "\n\n")
}

// withheld are the rules for --exclude-tools. They match the beginning of a
// command as it is written: "git -C . push" runs.
func withheld(w agent.Withhold) []string {
	var rules []string
	for _, c := range w.Commands {
		if !strings.ContainsAny(c, ",()") {
			rules = append(rules, "run_shell_command("+c+")")
		}
	}
	if w.Web {
		rules = append(rules, "web_fetch", "web_search")
	}
	return rules
}

// VersionArgs print "0.15.10".
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
)
