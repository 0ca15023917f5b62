package gemini

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

const (
	settingsVar  = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
	settingsFile = "rein-settings.json"
)

// CannotGate says why the CLI would not read the settings that make it ask:
// it takes an administrator's from nowhere but files of root, in directories
// that nobody else can write to, all the way up (0.61.0). Else it goes on
// without them. "" when nothing speaks against it.
func (Agent) CannotGate(f agent.Facts, filesDir string) string {
	if f.UID != 0 {
		return "gemini reads the settings of a hook only from files of root"
	}
	for _, tmp := range []string{"/tmp", "/var/tmp", "/dev/shm", "/private/tmp"} {
		if filesDir == tmp || strings.HasPrefix(filesDir, tmp+"/") {
			return "gemini reads the settings of a hook from nowhere below " + tmp + ", where everybody can write"
		}
	}
	return ""
}

// gate returns the settings of an administrator that make gemini 0.61.0 ask
// before every tool call, those of MCP servers and sub-agents included.
//
//   - hooksConfig.enabled stands over false in the repository's settings.
//   - The timeout is in milliseconds. When it is over the CLI waits for the
//     hook's children, and then runs the tool.
//   - They take the place of /etc/gemini-cli/settings.json for this run. Those
//     of the user and of the repository hold beside them, their hooks too.
func gate(inv agent.Invocation, f agent.Facts) (agent.File, error) {
	if inv.FilesDir == "" {
		return agent.File{}, &agent.Error{Agent: "gemini", Err: agent.ErrUnsupported, Value: "gate", Hint: "it needs a directory for its settings where the agent runs"}
	}
	b, err := json.Marshal(map[string]any{
		"hooksConfig": map[string]any{"enabled": true},
		"hooks": map[string]any{"BeforeTool": []any{map[string]any{
			"matcher": "*",
			"hooks": []any{map[string]any{
				"type": "command", "command": inv.Gate.Shell(), "timeout": agent.HookTimeout * 1000,
			}},
		}}},
	})
	return agent.File{Name: settingsFile, Data: b}, err
}

// Question reads the input of a BeforeTool hook. It has no id of the call.
func (Agent) Question(b []byte) (agent.Tool, string, error) {
	var q struct {
		Event string          `json:"hook_event_name"`
		Name  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
		Dir   string          `json:"cwd"`
	}
	if err := json.Unmarshal(b, &q); err != nil {
		return agent.Tool{}, "", err
	}
	if q.Event != "BeforeTool" || q.Name == "" {
		return agent.Tool{}, "", &agent.Error{Agent: "gemini", Err: agent.ErrArgument, Value: "hook input", Hint: "it is no BeforeTool question"}
	}
	t := agent.Tool{Name: q.Name}
	dir := arguments(&t, q.Input)
	if !path.IsAbs(dir) {
		dir = path.Join(q.Dir, dir)
	}
	return t, dir, nil
}

// Answer: no is exit code 2 and the reason on stderr.
func (Agent) Answer(allow bool, reason string) driver.Reply {
	if allow {
		return agent.Permit()
	}
	return driver.Refuse(reason)
}

// Ran: the result of a call that really ran. The call itself is written before
// the hook is asked.
func (Agent) Ran(r agent.Reading) bool {
	return r.Kind == agent.KindToolFinished && r.Tool != nil && !r.Tool.NotRun
}

// Same compares what is asked for: the hook is not told the id.
func (Agent) Same(asked, ran agent.Tool) bool {
	return asked.Name != "" && asked.Name == ran.Name && asked.Command == ran.Command && slices.Equal(asked.Files, ran.Files)
}
