package claude

import (
	"encoding/json"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// gateOff are variables with which hooks do not run.
var gateOff = []string{"CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"}

// gate returns the value of --settings that makes claude ask before every tool
// call, sub-agents' and MCP servers' included, and the user's arguments without
// the settings that are in it now.
//
// What was seen on 2.1.332 (2.1.197 alike): hooks run under bypassPermissions;
// "disableAllHooks": true in the repository's or the user's own settings, also
// when the agent writes it in mid-run, switches them off, unless the same
// --settings say false; rewriting a settings file that --settings named has no
// effect. With a timeout of 2147484 s and more nothing runs early either.
func gate(inv agent.Invocation) (settings string, rest []string, err error) {
	refuse := func(value, hint string) error {
		return &agent.Error{Agent: "claude", Err: agent.ErrArgument, Value: value, Hint: hint}
	}
	s := map[string]json.RawMessage{}
	for i := 0; i < len(inv.Args); i++ {
		arg := inv.Args[i]
		flag, value, given := strings.Cut(arg, "=")
		switch flag {
		case "--bare", "--safe-mode":
			return "", nil, refuse(flag, "with it the CLI does not ask before it runs a tool; leave it out")
		case "--settings":
			if !given {
				if i++; i == len(inv.Args) {
					return "", nil, refuse(flag, "its value is missing")
				}
				value = inv.Args[i]
			}
			// Command reads no file, and of two --settings the CLI takes the last.
			clear(s)
			if json.Unmarshal([]byte(value), &s) != nil || s == nil {
				return "", nil, refuse(flag, "a run adds its own settings: give yours as a JSON object, not as a file")
			}
		default:
			rest = append(rest, arg)
		}
	}
	if v := string(s["disableAllHooks"]); v != "" && v != "false" && v != "null" {
		return "", nil, refuse("disableAllHooks", "with it the CLI does not ask before it runs a tool; leave it out")
	}
	s["disableAllHooks"] = json.RawMessage("false")

	hooks := map[string]json.RawMessage{}
	var before []json.RawMessage
	if h := s["hooks"]; h != nil && json.Unmarshal(h, &hooks) != nil {
		return "", nil, refuse("hooks", "they are not a JSON object")
	}
	if p := hooks["PreToolUse"]; p != nil && json.Unmarshal(p, &before) != nil {
		return "", nil, refuse("hooks.PreToolUse", "it is not a JSON array")
	}
	if hooks == nil { // "hooks": null
		hooks = map[string]json.RawMessage{}
	}
	ours := raw(map[string]any{"matcher": "*", "hooks": []any{map[string]any{
		"type": "command", "command": inv.Gate.Shell(), "timeout": agent.HookTimeout,
	}}})
	hooks["PreToolUse"] = raw(append([]json.RawMessage{ours}, before...))
	s["hooks"] = raw(hooks)
	return string(raw(s)), rest, nil
}

// raw marshals what cannot fail to.
func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("claude: " + err.Error())
	}
	return b
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
		return agent.Tool{}, "", &agent.Error{Agent: "claude", Err: agent.ErrArgument, Value: "hook input", Hint: "it is no PreToolUse question"}
	}
	return *tool(q.ID, q.Name, q.Input), q.Dir, nil
}

// Answer: no is exit code 2 and the reason on stderr. The JSON form gives the
// model a cleaner line, but comes with exit code 0: a version that reads it otherwise
// would run the tool.
func (Agent) Answer(allow bool, reason string) driver.Reply {
	if allow {
		return agent.Permit()
	}
	return driver.Refuse(reason)
}

// Ran: the result of a tool that really ran. The call itself is written before
// the hook is asked.
func (Agent) Ran(r agent.Reading) bool {
	return r.Kind == agent.KindToolFinished && r.Tool != nil && !r.Tool.NotRun
}

// Same: the hook is told the id of the call.
func (Agent) Same(asked, ran agent.Tool) bool { return asked.ID != "" && asked.ID == ran.ID }
