package fakeagent

import (
	"fmt"
	"os"
	"strings"
)

// qwen writes `--output-format stream-json` as qwen 0.15.10 does: claude's form
// with fewer words.
type qwen struct {
	*agent
	id    string
	turns int
}

func newQwen(a *agent) *qwen {
	return &qwen{agent: a, id: firstOf(a.Session, a.argAfter("--session-id"), a.argAfter("--resume", "-r"), newUUID())}
}

func (w *qwen) model() string { return firstOf(w.Model, w.argAfter("--model", "-m"), "fake-chat") }

func (w *qwen) begin() {
	dir, _ := os.Getwd()
	w.out.line(object{
		"type", "system", "subtype", "init", "uuid", w.id, "session_id", w.id, "cwd", dir, "tools",
		[]string{"read_file", "edit", "write_file", "run_shell_command"},
		"mcp_servers",
		[]string{},
		"model", w.model(), "permission_mode", firstOf(w.argAfter("--approval-mode"), "default"), "slash_commands",
		[]string{"compress"},
		"qwen_code_version", w.Version, "agents",
		[]string{"general-purpose"},
	})
}

func (w *qwen) request() {}

func qwenUsage(u Usage) object {
	return object{
		"input_tokens", u.In + u.CacheRead, "output_tokens", u.Out, "cache_read_input_tokens", u.CacheRead,
		"total_tokens", u.In + u.CacheRead + u.Out,
	}
}

func (w *qwen) assistant(content []object, stop any, usage object) {
	id := newUUID()
	w.out.line(object{
		"type", "assistant", "uuid", id, "session_id", w.id, "parent_tool_use_id", nil,
		"message",
		object{
			"id", id, "type", "message", "role", "assistant", "model", w.model(), "content", content,
			"stop_reason", stop, "usage", usage,
		},
	})
}

func (w *qwen) message(m *message) {
	w.turns++
	content, stop := []object{}, any(nil)
	for _, b := range m.Blocks {
		switch b.Kind {
		case "thinking":
			content = append(content, object{"type", "thinking", "thinking", b.Text, "signature", ""})
		case "tool":
			name, input := qwenCall(b)
			content = append(content, object{"type", "tool_use", "id", "call_" + b.ID, "name", name, "input", input})
			stop = "tool_use"
		default:
			content = append(content, object{"type", "text", "text", b.Text})
		}
	}
	w.assistant(content, stop, qwenUsage(m.Usage))
}

func qwenCall(b *block) (name string, input any) {
	switch b.Name {
	case "Write":
		name, input = "write_file", object{"file_path", b.Path, "content", b.Content}
	case "Edit":
		name, input = "edit", object{"file_path", b.Path, "old_string", "", "new_string", b.Content}
	default:
		name, input = "run_shell_command", object{"command", b.Command, "is_background", b.Back}
	}
	if b.ShowInput != nil {
		input = b.ShowInput
	}
	return firstOf(b.Shown, name), input
}

func (w *qwen) toolStarted(*block) {}
func (w *qwen) turnOver(*message)  {}

func (w *qwen) toolFinished(b *block) {
	content := strings.TrimRight(b.Output, "\n")
	failed := b.Denied || b.Refused != ""
	if b.Refused != "" {
		content = b.Refused
	} else if b.Failed && b.Name == "Bash" && !b.Denied {
		content = fmt.Sprintf("Command: %s\nOutput: %s\nExit Code: %d", b.Command, content, b.Exit)
	}
	w.out.line(object{
		"type", "user", "uuid", newUUID(), "session_id", w.id, "parent_tool_use_id", nil,
		"message",
		object{"role", "user", "content", []object{{"type", "tool_result", "tool_use_id", "call_" + b.ID, "is_error", failed, "content", content}}},
	})
}

// retry is told to nobody on stdout.
func (w *qwen) retry(Step, int) {}

// result ends with code 0 whatever the model said, as qwen does.
func (w *qwen) result(s Step) int {
	text := firstOf(s.Text, w.answer)
	if s.Error || s.Status != 0 {
		text = firstOf(s.Text, fmt.Sprintf("[API Error: %d fake error %d]", s.Status, s.Status))
		w.assistant([]object{{"type", "text", "text", text}}, nil, object{"input_tokens", 0, "output_tokens", 0})
	}
	w.out.line(object{
		"type", "result", "subtype", "success", "uuid", newUUID(), "session_id", w.id, "is_error", false,
		"duration_ms", 1, "duration_api_ms", 1, "num_turns", w.turns, "result", text, "usage", qwenUsage(w.used),
		"permission_denials",
		[]object{},
	})
	w.begun = false
	return 0
}

func (w *qwen) interrupted() int { return -1 }

func (w *qwen) filler(size int, usage *Usage, n int) []byte {
	u := object{"input_tokens", 0, "output_tokens", 0}
	if usage != nil {
		u = qwenUsage(*usage)
	}
	line := marshal(object{
		"type", "assistant", "uuid", "u", "session_id", w.id, "parent_tool_use_id", nil,
		"message",
		object{
			"id", serial("msg_fill", n), "type", "message", "role", "assistant", "model", w.model(),
			"content",
			[]object{{"type", "text", "text", "@pad@"}},
			"stop_reason", nil, "usage", u,
		},
	})
	return padTo(append(line, '\n'), []byte("@pad@"), size)
}
