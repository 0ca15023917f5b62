package copilot

import (
	"encoding/json"
	"slices"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/shell"
)

// gate returns a plugin for --plugin-dir with a preToolUse hook: the one way to
// set a hook for a single run. (Another COPILOT_HOME would take the login away.)
//
// What was seen on 1.0.102: plugin hooks run under --allow-all; a hook that is
// missing, crashes or exits with 1 keeps the tool closed, one that prints garbage
// or takes too long does not, so it is wrapped and has all the time. The reason
// for the model is read from stdout, as JSON, also with exit code 2; what is on
// stderr is lost.
func gate(inv agent.Invocation) ([]agent.File, error) {
	if inv.FilesDir == "" {
		return nil, &agent.Error{Agent: "copilot", Err: agent.ErrUnsupported, Value: "gate", Hint: "it needs a directory for its plugin where the agent runs"}
	}
	command := "r=$(" + shell.Join(inv.Gate.Argv) + "); c=$?; [ $c = 0 ] && [ \"$r\" = " + agent.Yes + " ] && exit 0; " +
		// Only what refuses may speak: an allow that came with another code would
		// be read as one.
		"[ $c = 2 ] && printf '%s\\n' \"$r\" || echo '" + refusal("refused by rein") + "'; exit 2"
	hooks, err := json.Marshal(map[string]any{"version": 1, "hooks": map[string]any{"preToolUse": []any{
		map[string]any{"type": "command", "bash": command, "timeoutSec": agent.HookTimeout},
	}}})
	if err != nil {
		return nil, err
	}
	return []agent.File{
		{Name: "plugin.json", Data: []byte(`{"name":"rein","version":"1.0.0","description":"asks before a tool runs","hooks":"hooks.json"}`)},
		{Name: "hooks.json", Data: hooks},
	}, nil
}

// refusal is what the CLI takes for a no, with the reason.
func refusal(reason string) string {
	b, err := json.Marshal(map[string]string{"permissionDecision": "deny", "permissionDecisionReason": reason})
	if err != nil {
		panic("copilot: " + err.Error()) // two strings
	}
	return string(b)
}

// Question reads the input of a preToolUse hook. It has no id of the call.
func (Agent) Question(b []byte) (agent.Tool, string, error) {
	var q struct {
		Name string          `json:"toolName"`
		Args json.RawMessage `json:"toolArgs"`
		Dir  string          `json:"cwd"`
	}
	if err := json.Unmarshal(b, &q); err != nil {
		return agent.Tool{}, "", err
	}
	if q.Name == "" {
		return agent.Tool{}, "", &agent.Error{Agent: "copilot", Err: agent.ErrArgument, Value: "hook input", Hint: "it is no preToolUse question"}
	}
	return *tool("", q.Name, q.Args), q.Dir, nil
}

// Answer: no is exit code 2, with the reason as JSON.
func (Agent) Answer(allow bool, reason string) driver.Reply {
	if allow {
		return agent.Permit()
	}
	r := driver.Refuse(reason)
	if reason == "" {
		reason = "refused by rein"
	}
	r.Stdout = []byte(refusal(reason) + "\n")
	return r
}

// Ran: the end of a call that really ran. Its start is written before the hook
// is asked.
func (Agent) Ran(r agent.Reading) bool {
	return r.Kind == agent.KindToolFinished && r.Tool != nil && !r.Tool.NotRun
}

// Same compares what the calls do: the hook is told no id.
func (Agent) Same(asked, ran agent.Tool) bool {
	return asked.Name != "" && asked.Name == ran.Name && asked.Command == ran.Command && slices.Equal(asked.Files, ran.Files)
}
