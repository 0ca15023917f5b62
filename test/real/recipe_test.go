//go:build real

package real

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein/internal/fakemodel"
)

// each runs f for every CLI. Not in parallel: a CLI takes 200 to 300 MB, and
// two cores.
func each(t *testing.T, f func(*testing.T, subject)) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

// TestAnswer: the model's answer comes out, and the tokens in the stream are
// those that the model told.
func TestAnswer(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		r := s.run(t, t.TempDir(), fakemodel.Script{Turns: []fakemodel.Turn{
			{Text: "Hello from the scripted model.", In: 1234, Out: 567, CacheRead: 11},
		}})
		all := r.lines(t)
		last := all[len(all)-1]
		if r.code != 0 || last["type"] != s.end {
			t.Errorf("code %d, last line %v\n%s", r.code, last["type"], r.stderr)
		}
		if !bytes.Contains(joined(r.stdout), []byte("Hello from the scripted model.")) {
			t.Error("the answer is not there")
		}
		if len(r.requests) != 1 || !r.requests[0].Whole {
			t.Errorf("%d requests", len(r.requests))
		}
		if got := s.usage(t, all); got != r.told && !s.untold {
			t.Errorf("the stream says %+v, the model told %+v", got, r.told)
		}
	})
}

// TestToolsRun: a shell command and a file edit are really done, and seen.
func TestToolsRun(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		dir := t.TempDir()
		r := s.run(t, dir, fakemodel.Script{Turns: []fakemodel.Turn{
			{Text: "first", Tools: []fakemodel.Call{s.shell("echo from-the-shell > shell.txt && echo shown")}},
			{Tools: []fakemodel.Call{s.write(filepath.Join(dir, "edit.txt"), "edited\n")}},
			{Text: "All done."},
		}})
		if r.code != 0 || r.file("shell.txt") != "from-the-shell\n" || r.file("edit.txt") != "edited\n" {
			t.Fatalf("code %d, shell %q, edit %q\n%s\n%s", r.code, r.file("shell.txt"), r.file("edit.txt"), r.stdout, r.stderr)
		}
		for _, want := range []string{"from-the-shell", "shown", "edit.txt", "All done."} {
			if !bytes.Contains(r.stdout, []byte(want)) {
				t.Errorf("%q is not in the stream", want)
			}
		}
		if len(r.requests) != 3 {
			t.Errorf("%d requests", len(r.requests))
		}
		// The model was told what the tools gave.
		if body := string(r.requests[1].Body); !strings.Contains(body, "shown") {
			t.Error("the tool's output did not reach the model")
		}
		if got := s.usage(t, r.lines(t)); got != r.told && !s.untold {
			t.Errorf("the stream says %+v, the model told %+v", got, r.told)
		}
	})
}

// TestErrors: what each CLI makes of an error of the model: how often it asks,
// and with which code it ends. Pi says 0.
func TestErrors(t *testing.T) {
	type want struct{ requests, code int }
	for status, wants := range map[int]map[string]want{
		// claude retries 401 (once here, by the variable); codex five times.
		401: {"claude": {2, 1}, "codex": {6, 1}, "pi": {1, 0}, "pi-0.73.1": {1, 0}, "gemini": {1, 145}, "qwen": {1, 0}, "grok": {1, 1}, "copilot": {3, 1}},
		400: {"claude": {1, 1}, "codex": {1, 1}, "pi": {1, 0}, "pi-0.73.1": {1, 0}, "gemini": {1, 144}, "qwen": {1, 0}, "grok": {1, 1}, "copilot": {1, 1}},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			each(t, func(t *testing.T, s subject) {
				text := "scripted failure"
				if s.name == "claude" && status == 400 {
					// Words that claude knows: after another 400 it asks five times
					// more, each with one of its beta features left out. (pi 0.73.1
					// compacts the conversation at these, and asks twice more.)
					text = "prompt is too long: 250000 tokens > 200000 maximum"
				}
				r := s.run(t, t.TempDir(), fakemodel.Script{Turns: []fakemodel.Turn{
					{Status: status, ErrMessage: text, Repeat: -1},
				}})
				if got := (want{len(r.requests), r.code}); got != wants[s.name] {
					t.Errorf("%+v, want %+v\n%s\n%s", got, wants[s.name], r.stdout, r.stderr)
				}
				if !s.failed(r.lines(t)) {
					t.Errorf("the stream tells of no failure\n%s", r.stdout)
				}
			})
		})
	}
}

// TestStreamIsCut: a stream that breaks off is asked for again, and what is
// answered then is what counts.
func TestStreamIsCut(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		r := s.run(t, t.TempDir(), fakemodel.Script{Turns: []fakemodel.Turn{
			{Text: "this text will be cut off in its middle", Drop: "mid"}, {Text: "second try"},
		}})
		if s.name == "gemini" { // it does not ask again, and says that it failed
			if r.code != 1 || len(r.requests) != 1 || !s.failed(r.lines(t)) {
				t.Errorf("code %d, %d requests\n%s\n%s", r.code, len(r.requests), r.stdout, r.stderr)
			}
			return
		}
		if r.code != 0 || !bytes.Contains(r.stdout, []byte("second try")) || len(r.requests) != 2 {
			t.Errorf("code %d, %d requests\n%s\n%s", r.code, len(r.requests), r.stdout, r.stderr)
		}
		if r.requests[0].Whole || !r.requests[1].Whole {
			t.Errorf("%+v", r.requests)
		}
	})
}

// usage sums up what the stream says, each CLI in its own way.
func (s subject) usage(t *testing.T, all []map[string]any) (u fakemodel.Usage) {
	t.Helper()
	for _, line := range all {
		var v struct {
			Type    string
			Usage   map[string]any
			Message struct {
				Role  string
				Usage map[string]any
			}
		}
		b, _ := json.Marshal(line)
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		n := func(m map[string]any, key string) int64 {
			f, _ := m[key].(float64)
			return int64(f)
		}
		switch {
		case v.Type == "result" && line["stats"] != nil: // gemini: the cache is inside the input, thoughts are beside the output
			stats, _ := line["stats"].(map[string]any)
			u = fakemodel.Usage{
				Input: n(stats, "input_tokens") - n(stats, "cached"), CacheRead: n(stats, "cached"),
				Output: n(stats, "total_tokens") - n(stats, "input_tokens"),
			}
		case v.Type == "result" && line["uuid"] != nil && line["total_cost_usd"] == nil: // qwen: the cache is inside the input
			u = fakemodel.Usage{
				Input: n(v.Usage, "input_tokens") - n(v.Usage, "cache_read_input_tokens"), Output: n(v.Usage, "output_tokens"),
				CacheRead: n(v.Usage, "cache_read_input_tokens"),
			}
		case v.Type == "result": // claude
			u = fakemodel.Usage{
				Input: n(v.Usage, "input_tokens"), Output: n(v.Usage, "output_tokens"),
				CacheRead: n(v.Usage, "cache_read_input_tokens"), CacheWrite: n(v.Usage, "cache_creation_input_tokens"),
			}
		case v.Type == "end": // grok
			u = fakemodel.Usage{Input: n(v.Usage, "input_tokens"), Output: n(v.Usage, "output_tokens"), CacheRead: n(v.Usage, "cache_read_input_tokens")}
		case v.Type == "turn.completed": // codex: the cache is inside the input
			u = fakemodel.Usage{
				Input: n(v.Usage, "input_tokens") - n(v.Usage, "cached_input_tokens"), Output: n(v.Usage, "output_tokens"),
				CacheRead: n(v.Usage, "cached_input_tokens"),
			}
		case v.Type == "message_end" && v.Message.Role == "assistant": // pi
			u.Input += n(v.Message.Usage, "input")
			u.Output += n(v.Message.Usage, "output")
			u.CacheRead += n(v.Message.Usage, "cacheRead")
		}
	}
	return u
}

// failed says whether the stream tells of a failure, whatever the exit code.
func (s subject) failed(all []map[string]any) bool {
	for _, v := range all {
		if text, _ := v["result"].(string); strings.HasPrefix(text, "[API Error: ") { // qwen calls it a success
			return true
		}
		m, _ := v["message"].(map[string]any)
		if v["is_error"] == true || v["status"] == "error" || v["type"] == "turn.failed" || v["type"] == "error" || v["type"] == "session.error" || m["stopReason"] == "error" {
			return true
		}
	}
	return false
}
