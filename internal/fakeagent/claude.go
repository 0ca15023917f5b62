package fakeagent

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// claude writes `--output-format stream-json --verbose` as claude 2.1.332 does.
type claude struct {
	*agent
	id       string
	partial  bool // --include-partial-messages
	results  int
	started  time.Time
	usage    Usage // of the turn: since the last result
	turns    int
	begunIDs []string
	lastStop string
}

//go:embed shapes/claude-init.json
var claudeInit []byte // the recorded list of tools, commands, skills …

func newClaude(a *agent) *claude {
	w := &claude{agent: a, started: time.Now(), partial: slices.Contains(a.args, "--include-partial-messages")}
	w.id = firstOf(a.Session, a.argAfter("--session-id"), a.argAfter("--resume", "-r"), newUUID())
	if slices.Contains(a.args, "--fork-session") {
		w.id = newUUID()
	}
	return w
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

func (w *claude) model() string { return firstOf(w.Model, w.argAfter("--model"), "claude-opus-5-5") }

func (w *claude) begin() {
	var fixed map[string]json.RawMessage
	if err := json.Unmarshal(claudeInit, &fixed); err != nil {
		panic(err)
	}
	dir, _ := os.Getwd()
	mode := firstOf(w.argAfter("--permission-mode"), "default")
	if slices.Contains(w.args, "--dangerously-skip-permissions") {
		mode = "bypassPermissions"
	}
	w.out.line(object{
		"type", "system", "subtype", "init", "cwd", dir, "session_id", w.id, "tools", fixed["tools"],
		"mcp_servers", fixed["mcp_servers"], "model", w.model(), "permissionMode", mode,
		"slash_commands", fixed["slash_commands"], "apiKeySource", "ANTHROPIC_API_KEY",
		"claude_code_version", w.Version, "output_style", "default", "agents", fixed["agents"],
		"skills", fixed["skills"], "plugins", fixed["plugins"], "capabilities", fixed["capabilities"],
		"analytics_disabled", true, "uuid", newUUID(), "sandbox_enabled", false, "original_cwd", dir,
		"additional_directories",
		[]string{},
		"fast_mode_state", "off", "view_mode", "default",
	})
}

func (w *claude) system(subtype string, more object) {
	w.out.line(slices.Concat(object{"type", "system", "subtype", subtype}, more, object{"session_id", w.id, "uuid", newUUID()}))
}

// request: without --include-partial-messages the status line is left out too.
func (w *claude) request() {
	if w.partial && w.parent == "" {
		w.system("status", object{"status", "requesting"})
	}
}

func (w *claude) parentID() any {
	if w.parent == "" {
		return nil
	}
	return w.parent
}

func (w *claude) event(id string, event object) {
	if w.partial && w.parent == "" { // a sub-agent's messages come whole
		w.out.line(object{
			"type", "stream_event", "event", event, "session_id", w.id, "parent_tool_use_id", nil,
			"uuid", newUUID(), "api_message_id", id,
		})
	}
}

// usageOf the stream: the output count of an assistant line is the placeholder
// of message_start; the true one comes with message_delta and the result.
func claudeUsage(u Usage, out int64) object {
	return object{
		"cache_creation_input_tokens", u.CacheWrite, "cache_read_input_tokens", u.CacheRead,
		"input_tokens", u.In, "output_tokens", out, "service_tier", "standard",
	}
}

func (w *claude) message(m *message) {
	w.usage.add(m.Usage)
	w.begunIDs = append(w.begunIDs, m.ID)
	if w.parent == "" {
		w.turns++
	}
	head := func(content []object, stop any) object {
		return object{
			"content", content, "id", m.ID, "model", w.model(), "role", "assistant", "stop_reason", stop,
			"stop_sequence", nil, "type", "message", "usage", claudeUsage(m.Usage, min(1, m.Usage.Out)),
		}
	}
	w.event(m.ID, object{"message", head([]object{}, nil), "type", "message_start"})
	for i, b := range m.Blocks {
		if b.Kind == "thinking" {
			w.system("thinking_tokens", object{"estimated_tokens", 1, "estimated_tokens_delta", 1})
		}
		full, empty, delta := claudeBlock(b)
		w.event(m.ID, object{"content_block", empty, "index", i, "type", "content_block_start"})
		w.event(m.ID, object{"delta", delta, "index", i, "type", "content_block_delta"})
		w.out.line(object{
			"type", "assistant", "message", append(head([]object{full}, nil), "context_management", nil),
			"parent_tool_use_id", w.parentID(), "session_id", w.id, "uuid", newUUID(), "timestamp", timestamp(),
			"request_id", fmt.Sprintf("req_%d", m.N),
		})
		w.event(m.ID, object{"index", i, "type", "content_block_stop"})
	}
	w.lastStop = "end_turn"
	if len(m.tools()) > 0 {
		w.lastStop = "tool_use"
	}
	w.event(m.ID, object{
		"delta",
		object{"stop_reason", w.lastStop, "stop_sequence", nil},
		"type", "message_delta", "usage", claudeUsage(m.Usage, m.Usage.Out),
	})
	w.event(m.ID, object{"type", "message_stop"})
}

func claudeBlock(b *block) (full, empty, delta object) {
	switch b.Kind {
	case "thinking":
		return object{"signature", "ZmFrZQ==", "thinking", b.Text, "type", "thinking"},
			object{"signature", "", "thinking", "", "type", "thinking"},
			object{"thinking", b.Text, "type", "thinking_delta"}
	case "tool":
		id, name, input := "toolu_"+b.ID, firstOf(b.Shown, b.Name), claudeInput(b)
		return object{"id", id, "input", input, "name", name, "type", "tool_use"},
			object{"id", id, "input", object{}, "name", name, "type", "tool_use"},
			object{"partial_json", string(marshal(input)), "type", "input_json_delta"}
	}
	return object{"text", b.Text, "type", "text"}, object{"text", "", "type", "text"},
		object{"text", b.Text, "type", "text_delta"}
}

func claudeInput(b *block) any {
	if b.ShowInput != nil {
		return b.ShowInput
	}
	switch b.Name {
	case "Write":
		return object{"file_path", b.Path, "content", b.Content}
	case "Edit":
		return object{"file_path", b.Path, "old_string", "", "new_string", b.Content, "replace_all", false}
	}
	in := object{"command", b.Command}
	if b.Millis > 0 {
		in = append(in, "timeout", b.Millis)
	}
	if b.Back {
		in = append(in, "run_in_background", true)
	}
	return in
}

func (w *claude) toolStarted(*block) {}
func (w *claude) turnOver(*message)  {}

func (w *claude) toolFinished(b *block) {
	id := "toolu_" + b.ID
	content := strings.TrimRight(b.Output, "\n")
	var result any = object{"stdout", content, "stderr", "", "interrupted", false, "isImage", false, "noOutputExpected", false}
	decision := object{"decision", "accept", "source", "config", "reason_type", "mode"}
	switch {
	case b.Refused != "":
		content = b.Refused
		w.denials = append(w.denials, object{"tool_name", b.Name, "tool_use_id", id, "tool_input", claudeInput(b)})
		result, decision = "Error: "+content, object{"decision", "reject", "source", "hook", "reason_type", "hook"}
	case b.Denied:
		w.system("permission_denied", object{"tool_name", b.Name, "tool_use_id", id, "message", content})
		w.denials = append(w.denials, object{"tool_name", b.Name, "tool_use_id", id, "tool_input", claudeInput(b)})
		result, decision = "Error: "+content, object{"decision", "reject", "source", "config"}
	case b.Back:
		w.tasksOpen(append(slices.Clone(w.tasks), b))
		w.system("task_started", object{
			"task_id", "b" + b.ID, "tool_use_id", id, "description", b.Command,
			"is_backgrounded", true, "task_type", "local_bash",
		})
		content = "Command running in background with ID: b" + b.ID
		result = object{"stdout", "", "stderr", "", "interrupted", false, "backgroundTaskId", "b" + b.ID}
	case b.Failed && b.Name == "Bash":
		content = fmt.Sprintf("Exit code %d\n%s", b.Exit, content)
		result = "Error: " + content
	case b.Name == "Write" || b.Name == "Edit":
		kind := "update"
		if b.New {
			kind = "create"
		}
		result = object{"type", kind, "filePath", b.Path, "content", b.Content}
	}
	w.out.line(object{
		"type", "user", "message",
		object{"role", "user", "content", []object{{
			"tool_use_id", id, "type", "tool_result", "content", content, "is_error", b.Failed,
		}}},
		"parent_tool_use_id", w.parentID(), "session_id", w.id, "uuid", newUUID(), "timestamp", timestamp(),
		"tool_use_result", result, "tool_result_meta",
		[]object{{"id", id, "permission_decision", decision}},
	})
}

func (w *claude) tasksOpen(tasks []*block) {
	list := []object{}
	for _, b := range tasks {
		list = append(list, object{"task_id", "b" + b.ID, "task_type", "local_bash", "description", b.Command})
	}
	w.system("background_tasks_changed", object{"tasks", list})
}

// tasksOver is what comes when background commands have ended: then the CLI
// begins a turn by itself, with a new init line.
func (w *claude) tasksOver(tasks []*block) {
	for _, b := range tasks {
		w.system("task_updated", object{"task_id", "b" + b.ID, "patch", object{"status", "completed"}})
		w.system("task_notification", object{
			"task_id", "b" + b.ID, "tool_use_id", "toolu_" + b.ID, "status", "completed",
			"summary", fmt.Sprintf("Background command %q completed (exit code %d)", b.Command, b.cmd.ProcessState.ExitCode()),
		})
	}
	w.tasksOpen(nil)
	w.begin()
}
