package fakeagent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// copilot writes `--output-format json` as copilot 1.0.102 does.
type copilot struct {
	*agent
	id   string
	turn int
}

func newCopilot(a *agent) *copilot {
	w := &copilot{agent: a}
	w.id = firstOf(a.Session, a.argValue("--session-id"), a.argValue("--resume"), newUUID())
	return w
}

// argValue is what stands behind "NAME=".
func (a *agent) argValue(name string) string {
	for _, arg := range a.args {
		if v, ok := strings.CutPrefix(arg, name+"="); ok {
			return v
		}
	}
	return ""
}

func (w *copilot) model() string {
	return firstOf(w.Model, w.argAfter("--model"), os.Getenv("COPILOT_MODEL"), "fake-chat")
}

func (w *copilot) event(typ string, data object, more ...any) {
	line := append(object{"type", typ, "data", data}, more...)
	w.out.line(append(line, "id", newUUID(), "timestamp", timestamp(), "parentId", newUUID()))
}

func (w *copilot) begin() {
	w.event("session.skills_loaded", object{"skills", []object{}})
	w.event("session.mcp_servers_loaded", object{"servers", []object{}}, "ephemeral", true)
	w.event("session.tools_updated", object{"model", w.model()}, "ephemeral", true)
	w.event("user.message", object{"content", "do the work", "turnId", "0"})
}

func (w *copilot) request() {
	w.event("assistant.turn_start", object{"turnId", fmt.Sprint(w.turn)})
	w.event("model.call_start", object{"turnId", fmt.Sprint(w.turn), "model", w.model()}, "ephemeral", true)
}

func (w *copilot) message(m *message) {
	requests := []object{}
	var thinking string
	for _, b := range m.Blocks {
		switch b.Kind {
		case "thinking":
			thinking = b.Text
			w.event("assistant.reasoning_delta", object{"deltaContent", b.Text}, "ephemeral", true)
		case "text":
			w.event("assistant.message_start", object{"messageId", m.ID}, "ephemeral", true)
			w.event("assistant.message_delta", object{"messageId", m.ID, "deltaContent", b.Text}, "ephemeral", true)
		case "tool":
			w.event("assistant.tool_call_delta", object{"toolCallId", "call_" + b.ID, "toolName", copilotName(b), "inputDelta", string(marshal(copilotArgs(b)))}, "ephemeral", true)
			requests = append(requests, object{"toolCallId", "call_" + b.ID, "name", copilotName(b), "arguments", copilotArgs(b), "type", "function"})
		}
	}
	w.event("model.call_finished", object{"outcome", "success"}, "ephemeral", true)
	w.event("assistant.message", object{"messageId", m.ID, "model", w.model(), "content", m.text(), "toolRequests", requests})
	if thinking != "" {
		w.event("assistant.reasoning", object{"content", thinking}, "ephemeral", true)
	}
	w.event("model.call_final_result", object{"model", w.model(), "result", "success"}, "ephemeral", true)
}

func copilotName(b *block) string {
	return firstOf(b.Shown, map[string]string{"Bash": "bash", "Write": "create", "Edit": "edit", "Task": "task"}[b.Name], b.Name)
}

func copilotArgs(b *block) any {
	switch {
	case b.ShowInput != nil:
		return b.ShowInput
	case b.Name == "Write":
		return object{"path", b.Path, "file_text", b.Content}
	case b.Name == "Edit":
		return object{"path", b.Path, "old_str", "", "new_str", b.Content}
	case b.Name == "Task":
		return object{"description", "help", "prompt", b.Text}
	}
	return object{"command", b.Command, "description", "run it"}
}

func (w *copilot) toolStarted(b *block) {
	w.event("tool.execution_start", object{"toolCallId", "call_" + b.ID, "toolName", copilotName(b), "arguments", copilotArgs(b), "model", w.model()})
}

func (w *copilot) toolFinished(b *block) {
	data := object{"toolCallId", "call_" + b.ID, "model", w.model()}
	switch {
	case b.Refused != "":
		data = append(data, "success", false, "error", object{"message", b.Refused, "code", "denied"})
	case b.Denied:
		data = append(data, "success", false, "error", object{"message", "Permission to run this tool was denied due to the following rules: `shell`", "code", "denied"})
	case b.Name == "Bash":
		w.event("session.background_tasks_changed", object{}, "ephemeral", true)
		w.event("tool.shell_output", object{"toolCallId", "call_" + b.ID, "stream", "stdout", "text", b.Output}, "ephemeral", true)
		w.event("tool.execution_partial_result", object{"toolCallId", "call_" + b.ID, "partialOutput", b.Output}, "ephemeral", true)
		data = append(data, "shellExecution", object{"exitCode", b.Exit}, "success", true, "result", object{"content", b.Output})
	default:
		data = append(data, "success", !b.Failed, "result", object{"content", b.Output})
	}
	w.event("tool.execution_complete", data)
}

func (w *copilot) turnOver(*message) {
	w.event("assistant.turn_end", object{"turnId", fmt.Sprint(w.turn)})
	w.turn++
}

func (w *copilot) failText(s Step) string {
	return firstOf(s.Text, fmt.Sprintf("fake error %d", s.Status))
}

func (w *copilot) failure(s Step) {
	w.event("model.call_failure", object{"model", w.model(), "statusCode", s.Status, "failureKind", "api", "errorMessage", string(marshal(object{"message", w.failText(s)}))}, "ephemeral", true)
}

func (w *copilot) retry(s Step, _ int) {
	w.failure(s)
	w.event("assistant.turn_retry", object{"turnId", fmt.Sprint(w.turn), "model", w.model(), "reason", "transient"}, "ephemeral", true)
}

func (w *copilot) result(s Step) int {
	code := 0
	if s.Error || s.Status != 0 {
		code = 1
		w.failure(s)
		w.event("session.error", object{"errorType", "query", "message", w.failText(s), "statusCode", s.Status})
	}
	w.event("assistant.idle", object{}, "ephemeral", true)
	w.out.line(object{
		"type", "result", "timestamp", timestamp(), "sessionId", w.id, "exitCode", code,
		"usage",
		object{"premiumRequests", 1, "totalApiDurationMs", 1, "sessionDurationMs", 1},
	})
	return code
}

func (w *copilot) interrupted() int { return -1 }

// filler has no usage: copilot tells none.
func (w *copilot) filler(size int, _ *Usage, n int) []byte {
	line := marshal(object{"type", "assistant.message_delta", "data", object{"messageId", serial("msg_fill", n), "deltaContent", "@pad@"}, "ephemeral", true})
	return padTo(append(line, '\n'), []byte("@pad@"), size)
}

// copilotHook is what a plugin's hooks.json says.
func copilotHook(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "hooks.json"))
	if err != nil {
		return ""
	}
	var d struct {
		Hooks struct {
			PreToolUse []struct{ Bash string }
		}
	}
	if json.Unmarshal(b, &d) == nil && len(d.Hooks.PreToolUse) > 0 {
		return d.Hooks.PreToolUse[0].Bash
	}
	return ""
}
