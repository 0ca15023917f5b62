package fakeagent

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// gemini writes `--output-format stream-json` as gemini 0.61.0 does.
type gemini struct {
	*agent
	id      string
	calls   int
	results []object // of the tools of one message: they are told together
}

func newGemini(a *agent) *gemini {
	return &gemini{agent: a, id: firstOf(a.Session, a.argAfter("--resume", "-r"), newUUID())}
}

func (w *gemini) model() string {
	return firstOf(w.Model, w.argAfter("--model", "-m"), "gemini-2.5-flash")
}

func (w *gemini) line(typ string, more object) {
	w.out.line(slices.Concat(object{"type", typ, "timestamp", timestamp()}, more))
}

func (w *gemini) begin() {
	w.line("init", object{"session_id", w.id, "model", w.model()})
	w.line("message", object{"role", "user", "content", "go\n"})
}

func (w *gemini) request() {}

func (w *gemini) message(m *message) {
	for _, b := range m.Blocks {
		switch {
		case b.Kind == "text" && b.Text != "":
			w.line("message", object{"role", "assistant", "content", b.Text, "delta", true})
		case b.Kind == "tool":
			name, input := geminiCall(b)
			w.line("tool_use", object{"tool_name", name, "tool_id", name + "__" + b.ID, "parameters", input})
		}
	}
}

func geminiCall(b *block) (name string, input any) {
	switch b.Name {
	case "Write":
		name, input = "write_file", object{"file_path", b.Path, "content", b.Content}
	case "Edit":
		name, input = "replace", object{"file_path", b.Path, "old_string", "", "new_string", b.Content, "instruction", "edit"}
	default:
		name, input = "run_shell_command", object{"command", b.Command}
	}
	if b.ShowInput != nil {
		input = b.ShowInput
	}
	return firstOf(b.Shown, name), input
}

func (w *gemini) toolStarted(*block) { w.calls++ }

func (w *gemini) toolFinished(b *block) {
	name, _ := geminiCall(b)
	r := object{"tool_id", name + "__" + b.ID, "status", "success"}
	output := strings.TrimRight(b.Output, "\n")
	switch {
	case b.Denied:
		r = object{"tool_id", name + "__" + b.ID, "status", "error", "output", output, "error", object{"type", "policy_violation", "message", "Tool execution denied by policy."}}
	case b.Refused != "":
		r = object{"tool_id", name + "__" + b.ID, "status", "error", "output", b.Refused, "error", object{"type", "policy_violation", "message", b.Refused}}
	case b.Name == "Bash":
		if b.Failed && output == "" {
			output = fmt.Sprintf("Command exited with code: %d", b.Exit)
		}
		r = append(r, "output", output)
	}
	w.results = append(w.results, r)
}

func (w *gemini) turnOver(*message) {
	for _, r := range w.results {
		w.line("tool_result", r)
	}
	w.results = nil
}

// retry is told to nobody on stdout.
func (w *gemini) retry(Step, int) {}

// geminiCode is the number of the HTTP status, as far as it fits.
func geminiCode(status int) int {
	if status == 0 {
		return 1
	}
	return status & 0xff
}

func (w *gemini) result(s Step) int {
	u := w.used
	counts := object{
		"total_tokens", u.In + u.CacheRead + u.Out, "input_tokens", u.In + u.CacheRead, "output_tokens", u.Out,
		"cached", u.CacheRead, "input", u.In,
	}
	stats := slices.Concat(counts, object{"duration_ms", 1, "tool_calls", w.calls, "models", object{w.model(), counts}})
	if s.Error || s.Status != 0 {
		text := s.Text
		if text == "" {
			text = fmt.Sprintf(`[API Error: {"error":{"code":%d,"message":"fake error %d","status":%q}}]`, s.Status, s.Status, claudeTypes[s.Status])
		}
		w.line("result", object{"status", "error", "error", object{"type", "unknown", "message", text}, "stats", stats})
		return geminiCode(s.Status)
	}
	w.line("result", object{"status", "success", "stats", stats})
	w.begun = false
	return 0
}

func (w *gemini) interrupted() int { return -1 }

// filler has no usage: gemini tells it once, at the end.
func (w *gemini) filler(size int, _ *Usage, n int) []byte {
	line := marshal(object{"type", "message", "timestamp", serial("fill", n), "role", "assistant", "content", "@pad@", "delta", true})
	return padTo(append(line, '\n'), []byte("@pad@"), size)
}

// settingsHooks are the commands of a settings file for one event.
func settingsHooks(file, event string) (found []hook) {
	var s struct {
		Hooks map[string][]struct {
			Hooks []struct{ Command string }
		}
	}
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &s) != nil {
		return nil
	}
	for _, m := range s.Hooks[event] {
		for _, h := range m.Hooks {
			found = append(found, hook{shell(h.Command), h.Command})
		}
	}
	return found
}
