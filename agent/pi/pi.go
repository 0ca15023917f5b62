// Package pi is all that is known about the Pi coding agent: its command line,
// its --mode json transcript, its environment. Observed on 0.73.1
// (@mariozechner/pi-coding-agent) and 1.6.0 (@earendil-works/pi-coding-agent).
package pi

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/rein-run/rein/agent"
)

// Agent is the Pi coding agent. It has no state; the zero value works.
type Agent struct{}

// Name is "pi".
func (Agent) Name() string { return "pi" }

// Capabilities differ before 1.0 in the efforts alone.
func (Agent) Capabilities(version string) agent.Capabilities {
	c := agent.Capabilities{
		Executables: []string{"pi"},
		Aliases:     []string{"pi-coding-agent"},
		Install:     "npm install -g @earendil-works/pi-coding-agent",
		Modes:       []agent.Mode{agent.Autonomous, agent.ReadOnly},
		Resume:      true,
		Efforts:     []string{"off", "minimal", "low", "medium", "high", "xhigh"},
		Prompt:      agent.ByStdin, // 5 MB were taken by both versions
		Announces:   true,
		Terminal:    true,
		Tools:       true,
		Gate:        true,
		Usage:       true,
		UsageLive:   true,
		Cost:        true,
		CostLive:    true,
		// No sub-agents: both versions say "skips features like sub-agents" of
		// themselves; what their example extension starts is another pi, which the
		// stream shows as any tool.
		Rules:      []agent.RuleChannel{agent.RulesBySystem, agent.RulesByPrompt, agent.RulesByFile},
		RulesFile:  "AGENTS.md",
		Observer:   true,
		TellsModel: true,
		Credentials: []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY",
			"CEREBRAS_API_KEY", "XAI_API_KEY", "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "OPENROUTER_API_KEY", "AI_GATEWAY_API_KEY",
			"ZAI_API_KEY", "MISTRAL_API_KEY", "MINIMAX_API_KEY", "MOONSHOT_API_KEY", "OPENCODE_API_KEY", "KIMI_API_KEY",
			"CLOUDFLARE_API_KEY", "XIAOMI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		},
		Scrub: agent.Nested(),
		Reserved: map[string]string{
			"--mode": already, "-p": already, "--print": already,
			"--model": "use the model of the run", "--thinking": "use the effort of the run",
			"-c": useResume, "--continue": useResume, "-r": useResume, "--resume": useResume, "--session": useResume, "--session-id": useResume,
			"--fork":    "it begins another session; use the session of the run",
			"--api-key": "an argument can be read by every user of the machine; use the environment",
			"--export":  "it runs no agent", "--list-models": "it runs no agent",
			"-h": "it only prints help", "--help": "it only prints help", "-v": "it only prints the version", "--version": "it only prints the version",
		},
	}
	// auth.json in ~/.pi/agent is looked at before any variable.
	c.AfterLogin = c.Credentials
	if modern(version) {
		c.Efforts = append(c.Efforts, "max")
	}
	return c
}

const (
	already   = "a run sets it already; leave it out"
	useResume = "use the session of the run"
)

// modern says that the version is 1.0 or later; an unknown one is.
func modern(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err != nil || n >= 1
}

// Command builds
//
//	pi --mode json -p … ARGS
//
// with the prompt on stdin: as an argument one that begins with '-' is
// "Unknown option" (0.73.1 even behind "--"), and one that begins with '@' is
// taken for a file. The CLI trims white space around it.
func (a Agent) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	if err := agent.Validate(a, inv, f); err != nil {
		return agent.Command{}, err
	}
	c := a.Capabilities(f.Version)
	exe := f.Exe
	if exe == "" {
		exe = "pi"
	}
	cmd := agent.Command{Argv: []string{exe, "--mode", "json", "-p"}, Unset: c.Scrub}
	add := func(args ...string) { cmd.Argv = append(cmd.Argv, args...) }
	if inv.Mode == agent.ReadOnly || inv.Observer {
		for _, arg := range inv.Args {
			flag, _, _ := strings.Cut(arg, "=")
			if hint, ok := readOnlyArgs[flag]; ok {
				return agent.Command{}, &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: flag, Hint: hint}
			}
		}
		// There is no permission system: what is not there cannot be used.
		add("--tools", "read,grep,find,ls")
		if modern(f.Version) {
			add("--no-mcp") // 1.6.0: an allowlist keeps the tools of MCP servers
		}
	}
	if inv.Observer {
		// -e of the gate works with --no-extensions.
		add("--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes", "--no-context-files")
		if modern(f.Version) {
			add("--no-approve") // what a project's .pi folder says
		}
	}
	if inv.Model != "" {
		add("--model", inv.Model)
	}
	if inv.Effort != "" {
		add("--thinking", inv.Effort)
	}
	switch s := inv.Session.Resume; s {
	case "":
	case "latest":
		add("--continue")
	default:
		// Of this directory only: for a session of another one the CLI asks on
		// stderr, and ends with code 0 and nothing on stdout.
		add("--session", s)
	}
	inv, err := a.beside(inv, c, f, &cmd)
	if err != nil {
		return agent.Command{}, err
	}
	add(inv.Args...)
	if inv.Gate != nil {
		ext, err := gate(inv, f)
		if err != nil {
			return agent.Command{}, err
		}
		cmd.Files = append(cmd.Files, ext)
		// Behind the user's own: handlers are called in the order of the -e, so
		// that it is asked about what those have made of the input.
		add("-e", agent.Join(f.OS, inv.FilesDir, ext.Name))
	}
	// TERM is right for it (the run's default): it kills the tree of a running
	// tool. INT would leave that as an orphan, in both versions.
	if err := cmd.StdinPrompt(a.Name(), inv, f, c.PromptMax); err != nil {
		return agent.Command{}, err
	}
	return cmd, agent.CheckArgs(cmd.Argv, cmd.Env, f.OS)
}

// readOnlyArgs would bring writing tools back.
var readOnlyArgs = func() map[string]string {
	m := make(map[string]string)
	// For an observer they bring back what is the user's.
	for _, f := range []string{"--tools", "-t", "--extension", "-e", "--exclude-tools", "-xt"} {
		m[f] = "read-only mode chooses the tools; leave it out, or run in autonomous mode"
	}
	return m
}()

// VersionArgs print "1.6.0" on stdout, and "0.73.1" on stderr in that version.
func (Agent) VersionArgs() []string { return []string{"--version"} }

// ParseVersion reads a line that is nothing but a version.
func (Agent) ParseVersion(output []byte) string {
	if m := versionLine().FindSubmatch(output); m != nil {
		return string(m[1])
	}
	return ""
}

var versionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^v?(\d+\.\d+\.\d+[^\s]*)\s*$`) })

// NewReader reads --mode json.
func (Agent) NewReader(f agent.Facts) agent.Reader { return &reader{version: f.Version} }

var (
	_ agent.Agent   = Agent{}
	_ agent.Decoder = Agent{}
	_ agent.Prober  = Agent{}
	_ agent.Gate    = Agent{}
)
