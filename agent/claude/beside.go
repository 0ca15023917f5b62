package claude

import (
	"strings"

	"github.com/rein-run/rein/agent"
)

// beside puts what the agent is told beside the prompt into its system prompt:
// the rules and the limits in one flag, because of two the CLI takes the last.
func (a Agent) beside(inv agent.Invocation, c agent.Capabilities, f agent.Facts, cmd *agent.Command) (agent.Invocation, error) {
	// Both forms of the flag together are refused by 2.1.197.
	taken := inv.Takes("--append-system-prompt", "--append-system-prompt-file")
	if taken && inv.RuleChannel(c) == agent.RulesBySystem {
		return inv, &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: "--append-system-prompt", Hint: "the rules of the run go there: leave it out, or give the rules by " + string(agent.RulesByPrompt)}
	}
	limits := inv.Limits
	inv, text := inv.Beside(c)
	switch {
	case text == "":
	case taken:
		// A prompt that begins with a slash is a command with arguments, and what
		// stands behind it would be one of them.
		if !strings.HasPrefix(inv.Prompt, "/") {
			inv.Limits = limits
			inv = inv.LimitsBehindPrompt()
		}
	case len(text) > agent.MaxInline && inv.FilesDir != "":
		// Not in the --help of 2.1.332, which takes it.
		cmd.Files = append(cmd.Files, agent.File{Name: agent.SystemFile, Data: []byte(text)})
		cmd.Argv = append(cmd.Argv, "--append-system-prompt-file", agent.Join(f.OS, inv.FilesDir, agent.SystemFile))
	default:
		cmd.Argv = append(cmd.Argv, "--append-system-prompt", text)
	}
	return inv, nil
}

// observe makes the CLI a mere reader: three tools that look at files, no
// settings, CLAUDE.md, skill or MCP server of the user's or the repository's.
// --bare and --restricted would do more or less of it; the one does not read the
// keychain, so that a subscription's login is lost, the other keeps MCP servers.
func (a Agent) observe(inv agent.Invocation, cmd *agent.Command) error {
	if inv.Schema != nil {
		if inv.Takes("--json-schema") {
			return &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: "--json-schema", Hint: "use the schema of the run"}
		}
		cmd.Argv = append(cmd.Argv, "--json-schema", string(inv.Schema))
	}
	if !inv.Observer {
		return nil
	}
	for _, arg := range inv.Args {
		flag, _, _ := strings.Cut(arg, "=")
		for _, opens := range []string{
			"--tools", "--allowedTools", "--allowed-tools", "--mcp-config", "--settings", "--setting-sources", "--plugin-dir", "--plugin-url",
			"--agent", "--agents", "--add-dir", "--chrome", "--ide", "-w", "--worktree", "--remote-control",
		} {
			if flag == opens {
				return &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: flag, Hint: "an observer has its own tools and no settings; leave it out, or run without that profile"}
			}
		}
	}
	cmd.Argv = append(
		cmd.Argv, "--tools", "Read,Grep,Glob", "--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands",
	)
	return nil
}
