package fakeagent

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// grok writes `--output-format streaming-json` as grok 1.0.41 does.
type grok struct {
	*agent
	id string
}

func newGrok(a *agent) *grok {
	w := &grok{agent: a}
	w.id = firstOf(a.Session, a.argAfter("--session-id", "-s"), a.argAfter("--resume", "-r"), newUUID())
	return w
}

func (w *grok) commands() {
	w.out.line(object{"type", "available_commands", "tools", []string{"run_terminal_command", "read_file", "write"}, "commands", []string{"compact"}})
}

func (w *grok) begin()            { w.commands() }
func (w *grok) request()          {}
func (w *grok) turnOver(*message) {}

// message is told in pieces, and its tokens before its tools run.
func (w *grok) message(m *message) {
	for _, b := range m.Blocks {
		kind := map[string]string{"text": "text", "thinking": "thought"}[b.Kind]
		for text := []rune(b.Text); kind != "" && len(text) > 0; {
			n := min(12, len(text))
			w.out.line(object{"type", kind, "data", string(text[:n])})
			text = text[n:]
		}
	}
	w.commands()
	w.out.line(object{"type", "usage", "usage", grokUsage(m.Usage)})
}

func grokUsage(u Usage) object {
	return object{
		"input_tokens", u.In, "output_tokens", u.Out, "cache_read_input_tokens", u.CacheRead,
		"cache_creation_input_tokens", u.CacheWrite, "reasoning_tokens", 0,
	}
}

func grokName(b *block) string {
	return firstOf(b.Shown, map[string]string{"Bash": "run_terminal_command", "Write": "write", "Edit": "search_replace", "Task": "spawn_subagent"}[b.Name], b.Name)
}

func grokInput(b *block) any {
	switch {
	case b.ShowInput != nil:
		return b.ShowInput
	case b.Name == "Write":
		return object{"file_path", b.Path, "content", b.Content}
	case b.Name == "Edit":
		return object{"file_path", b.Path, "old_string", "", "new_string", b.Content}
	case b.Name == "Task":
		return object{"prompt", b.Text, "description", "help", "background", false}
	}
	return object{"command", b.Command, "description", "run it"}
}

func (w *grok) toolStarted(b *block) {
	w.out.line(object{
		"type", "tool_call", "toolCallId", "call_" + b.ID, "title", grokName(b), "kind", "execute", "status", "pending",
		"toolName", grokName(b), "rawInput", grokInput(b), "content",
		[]object{},
		"locations",
		[]object{},
	})
	if b.Denied || b.Refused != "" {
		return
	}
	w.update(b, nil, "", nil)
	if b.Name == "Bash" {
		w.update(b, "in_progress", "", w.output(b, ""))
	}
}

func (w *grok) update(b *block, status any, text string, raw any) {
	w.out.line(object{
		"type", "tool_call_update", "toolCallId", "call_" + b.ID, "status", status,
		"content",
		[]object{{"type", "content", "content", object{"type", "text", "text", text}}},
		"rawOutput", raw, "locations",
		[]object{},
	})
}

func (w *grok) output(b *block, text string) any {
	if b.Name != "Bash" {
		return object{"type", "SearchReplace", "EditsApplied", object{"absolute_path", b.Path}}
	}
	return object{"type", "Bash", "output_for_prompt", text, "exit_code", b.Exit, "command", b.Command, "timed_out", false}
}

func (w *grok) toolFinished(b *block) {
	switch {
	case b.Refused != "":
		w.update(b, "failed", b.Refused, nil)
	case b.Denied:
		w.update(b, "failed", "Tool `"+grokName(b)+"` was not executed: Denied by permission policy: deny rule", nil)
	default:
		w.update(b, "completed", b.Output, w.output(b, fmt.Sprintf("exit: %d\n%s", b.Exit, b.Output)))
	}
}

func (w *grok) failText(s Step) string {
	switch {
	case s.Text != "":
		return s.Text
	case s.Status == 429:
		return "rate_limit_error: fake error 429"
	}
	return fmt.Sprintf(`Internal error: {"message":"API error (status %d): fake error","http_status":%d}`, s.Status, s.Status)
}

// retry: it repeats requests without a word.
func (w *grok) retry(Step, int) {}

func (w *grok) result(s Step) int {
	if s.Error || s.Status != 0 {
		text := w.failText(s)
		w.out.line(object{"type", "error", "message", text})
		fmt.Fprintln(os.Stderr, "Error: "+text)
		return 1
	}
	u := w.used
	w.out.line(object{
		"type", "end", "stopReason", "end_turn", "sessionId", w.id, "requestId", newUUID(),
		"usage", append(grokUsage(u), "total_tokens", u.In+u.Out+u.CacheRead+u.CacheWrite), "num_turns", w.messages,
		"modelUsage",
		object{firstOf(w.Model, w.argAfter("--model", "-m"), "fake-chat"), object{"inputTokens", u.In, "outputTokens", u.Out, "modelCalls", w.messages}},
	})
	return 0
}

func (w *grok) interrupted() int { return -1 }

func (w *grok) filler(size int, usage *Usage, n int) []byte {
	line := object{"type", "text", "data", "@pad@"}
	if usage != nil {
		line = object{"type", "usage", "messageId", serial("msg_fill", n), "usage", grokUsage(*usage), "signature", "@pad@"}
	}
	return padTo(append(marshal(line), '\n'), []byte("@pad@"), size)
}

// grokHook is what an agent's definition says in front.
func grokHook(file string) (command string) {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	_, front, _ := strings.Cut(string(b), "---\n")
	front, _, _ = strings.Cut(front, "\n---")
	var d struct {
		Hooks struct {
			PreToolUse []struct {
				Hooks []struct{ Command string }
			}
		}
	}
	if json.Unmarshal([]byte(front), &d) == nil && len(d.Hooks.PreToolUse) > 0 && len(d.Hooks.PreToolUse[0].Hooks) > 0 {
		return d.Hooks.PreToolUse[0].Hooks[0].Command
	}
	return ""
}
