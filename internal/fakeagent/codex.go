package fakeagent

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

// codex writes `codex exec --json` as codex 0.171.0 does.
type codex struct {
	*agent
	id    string
	items int
}

func newCodex(a *agent) *codex {
	w := &codex{agent: a}
	resume := ""
	if i := slices.Index(a.args, "resume"); i >= 0 {
		for _, arg := range a.args[i+1:] {
			if !strings.HasPrefix(arg, "-") && strings.Count(arg, "-") == 4 { // the id among options
				resume = arg
				break
			}
		}
	}
	w.id = firstOf(a.Session, resume, newUUID())
	return w
}

func (w *codex) begin() {
	w.out.line(object{"type", "thread.started", "thread_id", w.id})
	if slices.Contains(w.args, "--dangerously-bypass-hook-trust") {
		for range 2 {
			w.item("item.completed", object{"type", "error", "message", "`--dangerously-bypass-hook-trust` is enabled. Enabled hooks may run without review for this invocation."})
		}
	}
	w.item("item.completed", object{"type", "error", "message", "Model metadata for `fake-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues."})
	w.out.line(object{"type", "turn.started"})
}

func (w *codex) next() string {
	w.items++
	return fmt.Sprintf("item_%d", w.items-1)
}

func (w *codex) item(event string, item object) {
	w.out.line(object{"type", event, "item", append(object{"id", w.next()}, item...)})
}

func (w *codex) request()          {}
func (w *codex) turnOver(*message) {}

func (w *codex) message(m *message) {
	for _, b := range m.Blocks {
		switch {
		case b.Kind == "thinking":
			w.item("item.completed", object{"type", "reasoning", "text", b.Text})
		case b.Kind == "text" && b.Text != "":
			w.item("item.completed", object{"type", "agent_message", "text", b.Text})
		}
	}
}

func (w *codex) toolStarted(b *block) {
	if b.Refused != "" {
		fmt.Fprintln(os.Stderr, "ERROR codex_core::tools::router: error="+b.Refused)
	}
	if b.Denied || b.Refused != "" { // what the sandbox or a hook blocks gives no item at all
		return
	}
	b.ID = w.next()
	w.out.line(object{"type", "item.started", "item", w.toolItem(b, true)})
}

func (w *codex) toolFinished(b *block) {
	if b.Denied || b.Refused != "" || b.Back { // one that goes on is never completed
		return
	}
	w.out.line(object{"type", "item.completed", "item", w.toolItem(b, false)})
}

func (w *codex) toolItem(b *block, open bool) object {
	status := "completed"
	switch {
	case open:
		status = "in_progress"
	case b.Failed:
		status = "failed"
	}
	if b.Name == "Write" || b.Name == "Edit" {
		kind := "update"
		if b.New {
			kind = "add"
		}
		return object{"id", b.ID, "type", "file_change", "changes", []object{{"path", b.Path, "kind", kind}}, "status", status}
	}
	var code any
	if !open {
		code = b.Exit
	}
	return object{
		"id", b.ID, "type", "command_execution", "command", "/bin/bash -lc " + quote(b.Command),
		"aggregated_output", b.Output, "exit_code", code, "status", status,
	}
}

// quote is for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (w *codex) failText(s Step) string {
	switch {
	case s.Text != "":
		return s.Text
	case s.Status == 429:
		return "exceeded retry limit, last status: 429 Too Many Requests"
	}
	return fmt.Sprintf("unexpected status %d %s: fake error, url: http://127.0.0.1:1/v1/responses", s.Status, http.StatusText(s.Status))
}

func (w *codex) retry(s Step, attempt int) {
	w.out.line(object{"type", "error", "message", fmt.Sprintf("Reconnecting... %d/5 (%s)", attempt, w.failText(s))})
}

func (w *codex) result(s Step) int {
	if s.Error || s.Status != 0 {
		text := w.failText(s)
		w.out.line(object{"type", "error", "message", text})
		w.out.line(object{"type", "turn.failed", "error", object{"message", text}})
		return 1
	}
	u := w.Before // cumulative over the thread, and the cache is inside the input
	u.add(w.used)
	w.out.line(object{"type", "turn.completed", "usage", object{
		"input_tokens", u.In + u.CacheRead + u.CacheWrite, "cached_input_tokens", u.CacheRead,
		"cache_write_input_tokens", u.CacheWrite, "output_tokens", u.Out, "reasoning_output_tokens", 0,
	}})
	return 0
}

func (w *codex) interrupted() int { return 1 }

// filler has no usage: codex tells it once, at the end of the turn.
func (w *codex) filler(size int, _ *Usage, n int) []byte {
	line := marshal(object{"type", "item.completed", "item", object{"id", serial("item_fill", n), "type", "agent_message", "text", "@pad@"}})
	return padTo(append(line, '\n'), []byte("@pad@"), size)
}
