// Package claude is all that is known about Claude Code: its command line, its
// stream-json transcript, its environment. Observed on 2.1.197 and 2.1.332.
package claude

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// Agent is Claude Code. It has no state; the zero value works.
type Agent struct{}

// Name is "claude".
func (Agent) Name() string { return "claude" }

// Capabilities hold for every version that is known.
func (Agent) Capabilities(string) agent.Capabilities {
	return agent.Capabilities{
		Executables: []string{"claude"},
		Aliases:     []string{"claude-code", "cc"},
		Install:     "npm install -g @anthropic-ai/claude-code",
		Modes:       []agent.Mode{agent.Autonomous, agent.ReadOnly},
		Resume:      true,
		Efforts:     []string{"low", "medium", "high", "xhigh", "max"},
		Families:    []string{agent.Anthropic},
		Prompt:      agent.ByStdin,
		// 2.1.332: "piped stdin input exceeds 10MB", exit code 1.
		PromptMax: 10_000_000,
		Announces: true,
		Terminal:  true,
		Tools:     true,
		Gate:      true,
		Usage:     true,
		UsageLive: true,
		Subagents: true,
		Rules:     []agent.RuleChannel{agent.RulesBySystem, agent.RulesByPrompt},
		Observer:  true,
		Schema:    true,
		Cost:      true, // in the result alone

		TellsModel: true,
		Credentials: []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "AWS_BEARER_TOKEN_BEDROCK",
		},
		CredentialsIf: map[string][]string{
			"CLAUDE_CODE_USE_BEDROCK": {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE"},
			"CLAUDE_CODE_USE_VERTEX":  {"GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_AUTH_ACCESS_TOKEN"},
			"CLAUDE_CODE_USE_FOUNDRY": {"AZURE_CLIENT_SECRET"},
		},
		Subscriptions: []string{"CLAUDE_CODE_OAUTH_TOKEN"},
		Scrub:         agent.Nested(),
		Reserved: map[string]string{
			"-p": already, "--print": already, "--output-format": already, "--verbose": already, "--include-partial-messages": already,
			"--input-format":         "the prompt goes to stdin as text; a session is opened by another command",
			"--replay-user-messages": "it belongs to --input-format stream-json, which a run does not use",
			"--permission-mode":      useMode, "--dangerously-skip-permissions": useMode, "--allow-dangerously-skip-permissions": useMode,
			"--model": "use the model of the run", "--effort": "use the effort of the run",
			"-r": useResume, "--resume": useResume, "-c": useResume, "--continue": useResume,
			"--bg": stays, "--background": stays, "--cloud": stays, "--desktop": stays, "--environment": stays,
			"-h": "it only prints help", "--help": "it only prints help", "-v": "it only prints the version", "--version": "it only prints the version",
		},
	}
}

const (
	already   = "a run sets it already; leave it out"
	useMode   = "use the mode of the run"
	useResume = "use the session of the run"
	stays     = "the agent would go on outside this run; leave it out"
)

// Command builds
//
//	claude -p --output-format stream-json --verbose --include-partial-messages --permission-mode MODE … ARGS
//
// with the prompt on stdin. A prompt that begins with a slash is a command of
// the CLI's own, as it is for a person.
func (a Agent) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	if err := agent.Validate(a, inv, f); err != nil {
		return agent.Command{}, err
	}
	c := a.Capabilities(f.Version)
	mode := "bypassPermissions"
	switch {
	case inv.Observer: // what is not among its tools needs no permission
		mode = "default"
	case inv.Mode == agent.ReadOnly:
		mode = "plan"
	}
	if strings.HasPrefix(inv.Prompt, "/") && inv.RuleChannel(c) == agent.RulesByPrompt {
		return agent.Command{}, &agent.Error{Agent: a.Name(), Err: agent.ErrUnsupported, Value: "rules by prompt", Hint: "a prompt that begins with a slash is a command of the CLI's own, which has to stand first; use " + string(agent.RulesBySystem)}
	}
	cmd := agent.Command{
		Argv: []string{
			exe(f), "-p",
			// --verbose: without it stream-json is refused. Partial messages: the
			// true token counts stand only in their message_delta, and a model that
			// writes for ten minutes is not silent.
			"--output-format", "stream-json", "--verbose", "--include-partial-messages",
			"--permission-mode", mode,
		},
		// A CLI that replaces its own binary while ten runs use it is a race.
		Env:   driver.Env{"DISABLE_AUTOUPDATER": "1"},
		Unset: c.Scrub,
	}
	if held := withheld(inv.Withhold); len(held) > 0 {
		// It takes any number of values: a flag has to follow.
		cmd.Argv = slices.Insert(cmd.Argv, 2, "--disallowedTools", strings.Join(held, ","))
	}
	if err := a.observe(inv, &cmd); err != nil {
		return agent.Command{}, err
	}
	inv, err := a.beside(inv, c, f, &cmd)
	if err != nil {
		return agent.Command{}, err
	}
	if f.UID == 0 && mode == "bypassPermissions" && f.OS != "windows" {
		// As root, both 2.1.197 and 2.1.332 refuse it with exit code 1 and
		// nothing on stdout, unless they are told that they are in a sandbox.
		cmd.Env["IS_SANDBOX"] = "1"
	}
	if inv.Model != "" {
		cmd.Argv = append(cmd.Argv, "--model", inv.Model)
	}
	if inv.Effort != "" {
		cmd.Argv = append(cmd.Argv, "--effort", inv.Effort)
	}
	switch s := inv.Session.Resume; s {
	case "":
	case "latest":
		cmd.Argv = append(cmd.Argv, "--continue")
	default:
		cmd.Argv = append(cmd.Argv, "--resume", s)
	}
	args := inv.Args
	if inv.Gate != nil {
		settings, rest, err := gate(inv)
		if err != nil {
			return agent.Command{}, err
		}
		cmd.Argv = append(cmd.Argv, "--settings", settings)
		cmd.Unset = append(slices.Clone(cmd.Unset), gateOff...)
		args = rest
	}
	// The user's own come last: some take any number of values and would
	// swallow what follows.
	cmd.Argv = append(cmd.Argv, args...)
	if err := cmd.StdinPrompt(a.Name(), inv, f, c.PromptMax); err != nil {
		return agent.Command{}, err
	}
	return cmd, agent.CheckArgs(cmd.Argv, cmd.Env, f.OS)
}

// withheld are the rules for --disallowedTools. They match the beginning of a
// command as it is written: 2.1.332 runs "git -C . push" and sh -c "git push".
func withheld(w agent.Withhold) []string {
	var rules []string
	for _, c := range w.Commands {
		if !strings.ContainsAny(c, ",()") {
			rules = append(rules, "Bash("+c+":*)")
		}
	}
	if w.Web {
		rules = append(rules, "WebFetch", "WebSearch")
	}
	return rules
}

func exe(f agent.Facts) string {
	if f.Exe != "" {
		return f.Exe
	}
	return "claude"
}

// VersionArgs print "2.1.332 (Claude Code)".
func (Agent) VersionArgs() []string { return []string{"--version"} }

// ParseVersion reads that line.
func (Agent) ParseVersion(output []byte) string {
	if m := versionLine().FindSubmatch(output); m != nil {
		return string(m[1])
	}
	return ""
}

var versionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^(\d+\.\d+\.\d+\S*) \(Claude Code\)`) })

// NewReader reads stream-json.
func (Agent) NewReader(f agent.Facts) agent.Reader { return &reader{version: f.Version} }

var (
	_ agent.Agent   = Agent{}
	_ agent.Decoder = Agent{}
	_ agent.Prober  = Agent{}
	_ agent.Gate    = Agent{}
)
