package fakeagent

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// pi writes `--mode json` as pi 1.6.0 does, or as 0.73.1 when the scenario's
// version says so.
type pi struct {
	*agent
	id       string
	old      bool // 0.x: whole partial messages, no agent_settled
	inTurn   bool
	retrying bool
	failed   string
	messages []object // of agent_end
	results  []object // tool results of this turn
}

func newPi(a *agent) *pi {
	w := &pi{agent: a, old: strings.HasPrefix(a.Version, "0.")}
	w.id = firstOf(a.Session, a.argAfter("--session"), newUUID())
	return w
}

func millis() int64 { return time.Now().UnixMilli() }

func (w *pi) model() string    { return firstOf(w.Model, w.argAfter("--model"), "fake-chat") }
func (w *pi) provider() string { return firstOf(w.argAfter("--provider"), "fake") }

func (w *pi) begin() {
	dir, _ := os.Getwd()
	w.out.line(object{"type", "session", "version", 3, "id", w.id, "timestamp", timestamp(), "cwd", dir})
	w.turn(true)
	if !w.old {
		w.whole(object{"role", "system", "content", "", "sections", object{"preamble", "You are a coding assistant."}, "timestamp", millis()})
	}
	prompt := ""
	if n := len(w.args); n > 0 {
		prompt = w.args[n-1]
	}
	w.whole(object{"role", "user", "content", []object{{"type", "text", "text", prompt}}, "timestamp", millis()})
}

func (w *pi) turn(first bool) {
	if first {
		w.out.line(object{"type", "agent_start"})
	}
	w.out.line(object{"type", "turn_start"})
	w.inTurn = true
}

// whole is a message that was not streamed.
func (w *pi) whole(m object) {
	w.out.line(object{"type", "message_start", "message", m})
	w.out.line(object{"type", "message_end", "message", m})
	w.messages = append(w.messages, m)
}

func (w *pi) request() {
	if !w.inTurn {
		w.turn(w.retrying)
	}
	w.retrying, w.failed = false, ""
}

func (w *pi) usage(u Usage) object {
	in, out := float64(u.In)/1e6, float64(2*u.Out)/1e6
	return object{
		"input", u.In, "output", u.Out, "cacheRead", u.CacheRead, "cacheWrite", u.CacheWrite,
		"totalTokens", u.In + u.Out + u.CacheRead + u.CacheWrite,
		"cost",
		object{"input", in, "output", out, "cacheRead", 0, "cacheWrite", 0, "total", in + out},
	}
}

func (w *pi) assistant(content []object, u Usage, stop string) object {
	return object{
		"role", "assistant", "content", content, "api", "openai-completions", "provider", w.provider(), "model", w.model(),
		"usage", w.usage(u), "stopReason", stop, "timestamp", millis(),
	}
}

func (w *pi) message(m *message) {
	var content []object
	stop, raw := "stop", "stop"
	pending := "pending"
	if w.old {
		pending = "stop"
	}
	w.out.line(object{"type", "message_start", "message", w.assistant([]object{}, Usage{}, pending)})
	for i, b := range m.Blocks {
		kind, part, end := piBlock(b)
		content = append(content, part)
		if b.Kind == "tool" {
			stop, raw = "toolUse", "tool_calls"
		}
		w.update(m, content, object{"type", kind + "_start", "contentIndex", i})
		w.update(m, content, object{"type", kind + "_delta", "contentIndex", i, "delta", piDelta(b)})
		w.update(m, content, append(object{"type", kind + "_end", "contentIndex", i}, end...))
	}
	full := append(w.assistant(content, m.Usage, stop), "responseId", fmt.Sprintf("chatcmpl-fake%06d", m.N))
	if !w.old {
		full = append(full, "rawStopReason", raw, "durationMs", 1, "thinkingLevel", "off")
	}
	w.out.line(object{"type", "message_end", "message", full})
	w.messages = append(w.messages, full)
}

// update is one streamed piece: 0.73.1 repeats the whole message in each.
func (w *pi) update(m *message, content []object, event object) {
	if !w.old {
		w.out.line(object{"type", "message_update", "usage", w.usage(m.Usage), "assistantMessageEvent", event})
		return
	}
	partial := w.assistant(content, m.Usage, "stop")
	w.out.line(object{"type", "message_update", "assistantMessageEvent", append(event, "partial", partial), "message", partial})
}

func piBlock(b *block) (kind string, part, end object) {
	switch b.Kind {
	case "thinking":
		return "thinking", object{"type", "thinking", "thinking", b.Text}, object{"content", b.Text}
	case "tool":
		call := object{"type", "toolCall", "id", "call_" + b.ID, "name", piName(b), "arguments", piArgs(b)}
		return "toolcall", call, object{"toolCall", call}
	}
	return "text", object{"type", "text", "text", b.Text}, object{"content", b.Text}
}

func piDelta(b *block) string {
	if b.Kind == "tool" {
		return string(marshal(piArgs(b)))
	}
	return b.Text
}

func piName(b *block) string { return firstOf(b.Shown, strings.ToLower(b.Name)) }

func piArgs(b *block) any {
	if b.ShowInput != nil {
		return b.ShowInput
	}
	switch b.Name {
	case "Write":
		return object{"path", b.Path, "content", b.Content}
	case "Edit":
		return object{"path", b.Path, "edits", []object{{"oldText", "", "newText", b.Content}}}
	}
	return object{"command", b.Command}
}

func (w *pi) toolStarted(b *block) {
	w.out.line(object{"type", "tool_execution_start", "toolCallId", "call_" + b.ID, "toolName", piName(b), "args", piArgs(b)})
	if b.Name == "Bash" && b.Refused == "" { // a command that starts tells its first progress, which is none
		w.out.line(object{
			"type", "tool_execution_update", "toolCallId", "call_" + b.ID, "toolName", piName(b), "args", piArgs(b),
			"partialResult",
			object{"content", []object{}},
		})
	}
}

func (w *pi) toolFinished(b *block) {
	content := []object{{"type", "text", "text", b.Output}}
	w.out.line(object{
		"type", "tool_execution_end", "toolCallId", "call_" + b.ID, "toolName", piName(b),
		"result",
		object{"content", content},
		"isError", b.Failed,
	})
	m := object{
		"role", "toolResult", "toolCallId", "call_" + b.ID, "toolName", piName(b), "content", content,
		"isError", b.Failed, "timestamp", millis(),
	}
	w.whole(m)
	w.results = append(w.results, m)
}

func (w *pi) turnOver(*message) {
	w.endTurn(w.messages[len(w.messages)-len(w.results)-1])
}

func (w *pi) endTurn(m object) {
	w.out.line(object{"type", "turn_end", "message", m, "toolResults", append([]object{}, w.results...)})
	w.results, w.inTurn = nil, false
}

func (w *pi) failText(s Step) string {
	if s.Text != "" {
		return s.Text
	}
	kind := firstOf(claudeTypes[s.Status], "api_error")
	return fmt.Sprintf(`%d: {"code":%q,"message":"fake error %d","param":null,"type":%q}`, s.Status, kind, s.Status, kind)
}

func (w *pi) failure(s Step) {
	w.request()
	w.failed = w.failText(s)
	m := append(w.assistant([]object{}, Usage{}, "error"), "errorMessage", w.failed)
	w.whole(m)
	w.endTurn(m)
}

func (w *pi) agentEnd(again bool) {
	line := object{"type", "agent_end", "messages", append([]object{}, w.messages...)}
	if !w.old {
		line = append(line, "willRetry", again)
	}
	w.out.line(line)
	w.messages = nil
}

func (w *pi) retry(s Step, attempt int) {
	w.failure(s)
	w.agentEnd(true)
	w.out.line(object{
		"type", "auto_retry_start", "attempt", attempt, "maxAttempts", 3, "delayMs", 1000 << attempt,
		"errorMessage", w.failed,
	})
	w.retrying = true
}

// result ends with code 0 whatever happened, as pi does.
func (w *pi) result(s Step) int {
	retried := w.retrying
	if s.Error || s.Status != 0 {
		w.failure(s)
	}
	w.agentEnd(false)
	if retried && w.failed != "" {
		w.out.line(object{"type", "auto_retry_end", "success", false, "attempt", 3, "finalError", w.failed})
	}
	if !w.old {
		w.out.line(object{"type", "agent_settled", "aborted", false})
	}
	w.begun = false // a second result is a second run of the agent
	return 0
}

func (w *pi) interrupted() int { return -1 }

func (w *pi) filler(size int, usage *Usage, n int) []byte {
	line := object{"type", "message_update", "usage", w.usage(Usage{}), "assistantMessageEvent", object{"type", "text_delta", "contentIndex", 0, "delta", "@pad@"}}
	if usage != nil {
		m := w.assistant([]object{{"type", "text", "text", "@pad@"}}, *usage, "stop")
		line = object{"type", "message_end", "message", append(m, "responseId", serial("chatcmpl_fill", n))}
	}
	return padTo(append(marshal(line), '\n'), []byte("@pad@"), size)
}
