package grok

import (
	"encoding/json"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// gateFile is the definition of the agent that asks.
const gateFile = "rein-agent.md"

// gate returns an agent definition without a prompt of its own and with a
// PreToolUse hook, for --agent.
//
// What was seen on 1.0.41: it is the one way to set a hook for a single run.
// GROK_CONFIG drops hooks, --plugin-dir is not for headless runs, and another
// GROK_HOME would take the login away. Hooks of the definition run under
// bypassPermissions and for the tools of sub-agents, the repository's files
// cannot remove them, and rewriting the definition in mid-run has no effect. The
// model is told the same as without, but for a passage on browsers.
//
// The user's own "allow_managed_hooks_only = true" (in ~/.grok or /etc/grok)
// keeps it from running, and an agent can write that for the next run: then the
// supervisor's book shows a tool that nobody was asked about.
func gate(inv agent.Invocation) (agent.File, error) {
	refuse := func(err error, value, hint string) error {
		return &agent.Error{Agent: "grok", Err: err, Value: value, Hint: hint}
	}
	if inv.FilesDir == "" {
		return agent.File{}, refuse(agent.ErrUnsupported, "gate", "it needs a directory for its definition where the agent runs")
	}
	if inv.Takes("--agent") {
		return agent.File{}, refuse(agent.ErrArgument, "--agent", "a run needs its own definition, to ask before a tool runs; leave it out")
	}
	front, err := json.Marshal(map[string]any{ // JSON is YAML
		"name": "rein", "description": "the usual agent, which asks before it runs a tool",
		"hooks": map[string]any{"PreToolUse": []any{map[string]any{
			"matcher": ".*", "hooks": []any{map[string]any{"type": "command", "command": inv.Gate.Shell(), "timeout": agent.HookTimeout}},
		}}},
	})
	if err != nil {
		return agent.File{}, err
	}
	return agent.File{Name: gateFile, Data: []byte("---\n" + string(front) + "\n---\n")}, nil
}

// Question reads the input of a PreToolUse hook.
func (Agent) Question(b []byte) (agent.Tool, string, error) {
	var q struct {
		Event string          `json:"hook_event_name"`
		Name  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
		ID    string          `json:"tool_use_id"`
		Dir   string          `json:"cwd"`
	}
	if err := json.Unmarshal(b, &q); err != nil {
		return agent.Tool{}, "", err
	}
	if q.Event != "PreToolUse" || q.Name == "" {
		return agent.Tool{}, "", &agent.Error{Agent: "grok", Err: agent.ErrArgument, Value: "hook input", Hint: "it is no PreToolUse question"}
	}
	return *tool(q.ID, q.Name, q.Input), q.Dir, nil
}

// Answer: no is exit code 2, and the model is told the first line of stderr.
func (Agent) Answer(allow bool, reason string) driver.Reply {
	if allow {
		return agent.Permit()
	}
	return driver.Refuse(strings.Join(strings.Fields(reason), " "))
}

// Ran: the end of a call that really ran. The call itself is written before the
// hook is asked.
func (Agent) Ran(r agent.Reading) bool {
	return r.Kind == agent.KindToolFinished && r.Tool != nil && !r.Tool.NotRun
}

// Same: the hook is told the id of the call.
func (Agent) Same(asked, ran agent.Tool) bool { return asked.ID != "" && asked.ID == ran.ID }
