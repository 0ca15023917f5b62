//go:build real

package real

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/internal/fakemodel"
)

// kinds counts the lines by what a reader tells them apart by.
func kinds(all []map[string]any) []string {
	seen := map[string]bool{}
	for _, v := range all {
		k, _ := v["type"].(string)
		add := func(m map[string]any, keys ...string) {
			for _, key := range keys {
				if s, ok := m[key].(string); ok {
					k += " " + s
				}
			}
		}
		add(v, "subtype", "status")
		nested := []string{"item", "event", "message"}
		if k == "message_update" { // pi 0.73.1 repeats a message that already runs ahead
			nested = []string{"assistantMessageEvent"}
		}
		for _, key := range nested {
			m, _ := v[key].(map[string]any)
			add(m, "type", "role", "stopReason", "status")
			if blocks, ok := m["content"].([]any); ok {
				for _, b := range blocks {
					m, _ := b.(map[string]any)
					add(m, "type")
				}
			}
		}
		seen[k] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// TestFakeIsLikeReal: the scripted agent, told to do what the real CLI just
// did, writes the same kinds of lines. It is what the fast tests stand on.
func TestFakeIsLikeReal(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		dir := t.TempDir()
		r := s.run(t, dir, fakemodel.Script{Turns: []fakemodel.Turn{
			{Thinking: "hmm", Text: "first", Tools: []fakemodel.Call{s.shell("echo shown; exit 3")}},
			{Tools: []fakemodel.Call{s.write(filepath.Join(dir, "edit.txt"), "edited\n")}},
			{Text: "All done."},
		}})
		bin := t.TempDir()
		cli := s.cli(t)
		name := filepath.Base(cli.Exe)
		if err := fakeagent.Install(bin, name); err != nil {
			t.Fatal(err)
		}
		scenario := fakeagent.Scenario{Version: cli.Version, Steps: []fakeagent.Step{
			{Do: "thinking", Text: "hmm", More: true},
			{Do: "text", Text: "first", More: true},
			{Do: "bash", Command: "echo shown; exit 3"},
			{Do: "write", Path: "edit.txt", Text: "edited\n"},
			{Do: "text", Text: "All done."},
			{Do: "result"},
		}}
		cmd := exec.Command(filepath.Join(bin, name), append(slices.Clone(s.args), "do the work")...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(append(os.Environ(), s.env...), scenario.Env(), "GORACE=atexit_sleep_ms=0")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, errs.String())
		}
		want, got := kinds(r.lines(t)), kinds(result{stdout: out}.lines(t))
		for _, k := range got {
			if !slices.Contains(want, k) {
				t.Errorf("the real %s writes no line like %q", s.name, k)
			}
		}
		for _, k := range want {
			// Optional progress that the fake has no need of.
			if !slices.Contains(got, k) && k != "tool_execution_update" && k != "session.info" {
				t.Errorf("the real %s writes %q, the fake does not", s.name, k)
			}
		}
	})
}
