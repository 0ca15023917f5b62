package pi

import (
	"strings"

	"github.com/rein-run/rein/agent"
)

// beside puts what the agent is told beside the prompt into its system prompt,
// the rules and the limits in one flag.
func (a Agent) beside(inv agent.Invocation, c agent.Capabilities, f agent.Facts, cmd *agent.Command) (agent.Invocation, error) {
	taken := inv.Takes("--append-system-prompt")
	if taken && inv.RuleChannel(c) == agent.RulesBySystem {
		return inv, &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: "--append-system-prompt", Hint: "the rules of the run go there: leave it out, or give the rules by " + string(agent.RulesByPrompt)}
	}
	limits := inv.Limits
	inv, text := inv.Beside(c)
	if inv.Observer {
		// Without them SYSTEM.md and APPEND_SYSTEM.md are read, the user's and the
		// project's; --no-context-files is not about those.
		cmd.Argv = append(cmd.Argv, "--system-prompt", "You look at files and answer what you are asked. You change nothing.")
		if text == "" {
			text = "Answer from what you have read."
		}
	}
	switch {
	case text == "":
	case taken:
		inv.Limits = limits
		inv = inv.LimitsBehindPrompt()
	case len(text) > agent.MaxInline && inv.FilesDir != "":
		cmd.Files = append(cmd.Files, agent.File{Name: agent.SystemFile, Data: []byte(text)})
		cmd.Argv = append(cmd.Argv, "--append-system-prompt", agent.Join(f.OS, inv.FilesDir, agent.SystemFile))
	default:
		// A text that is the name of a file is taken for the file.
		if !strings.Contains(text, "\n") {
			text += "\n"
		}
		cmd.Argv = append(cmd.Argv, "--append-system-prompt", text)
	}
	return inv, nil
}
