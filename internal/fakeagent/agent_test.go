package fakeagent

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Reexec()
	os.Exit(m.Run())
}

// run is one agent started by a test.
type run struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
	dir    string // of the files: pids, record
	err    error
}

func command(t *testing.T, name string, s Scenario, args ...string) *run {
	t.Helper()
	r := &run{dir: t.TempDir()}
	if err := Install(r.dir, name); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(r.dir, name)
	if runtime.GOOS == "windows" {
		exe += ".exe"
	}
	s.Lax = true
	r.cmd = exec.Command(exe, args...)
	r.cmd.Dir = t.TempDir()
	r.cmd.Env = append(os.Environ(), s.Env(), EnvPids+"="+r.pids(), EnvRecord+"="+r.records(), "PWD="+r.cmd.Dir, "GORACE=atexit_sleep_ms=0")
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	return r
}

func (r *run) pids() string    { return filepath.Join(r.dir, "pids") }
func (r *run) records() string { return filepath.Join(r.dir, "records") }

func (r *run) run(t *testing.T) *run {
	t.Helper()
	if r.err = r.cmd.Run(); r.err != nil && r.cmd.ProcessState == nil {
		t.Fatal(r.err)
	}
	if r.cmd.ProcessState.ExitCode() == 2 {
		t.Fatalf("fakeagent itself failed: %s", r.stderr.String())
	}
	return r
}

// lines decodes stdout; a line that is no JSON fails the test.
func (r *run) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(r.stdout.Bytes()) {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%v: %.200q", err, line)
		}
		all = append(all, v)
	}
	return all
}

// poll waits for ok, generously: the machine may be slow.
func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

var work = Scenario{Steps: []Step{
	{Do: "thinking", Text: "hmm", More: true},
	{Do: "text", Text: "I will work.", More: true},
	{Do: "bash", Argv: []string{"{self}", childArg, `{"role":"end"}`}},
	{Do: "write", Path: "made.txt", Text: "made\n"},
	{Do: "text", Text: "All <done> & well.", Usage: &Usage{In: 1234, Out: 567, CacheRead: 11, CacheWrite: 22}},
	{Do: "result"},
}}

// recorded returns the lines that a real CLI wrote.
func recorded(t *testing.T, name string) []map[string]any {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for line := range bytes.Lines(b) {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func kind(v map[string]any) string {
	s, _ := v["type"].(string)
	for _, key := range []string{"subtype"} {
		if sub, ok := v[key].(string); ok && s == "system" {
			s += "/" + sub
		}
	}
	for _, key := range []string{"item", "event", "message", "assistantMessageEvent"} {
		if in, ok := v[key].(map[string]any); ok {
			for _, k := range []string{"type", "role"} {
				if sub, ok := in[k].(string); ok && sub != "message" {
					s += "/" + sub
				}
			}
		}
	}
	return s
}

// TestShapes: whatever the fake writes is a line that the real CLI writes: the
// same kind, and no key that the recording has not.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name, recording string
		args            []string
	}{
		{"claude", "claude-2.1.332-2026-11-30.jsonl", []string{"-p", "go", "--include-partial-messages"}},
		{"codex", "codex-0.171.0-2026-11-30.jsonl", []string{"exec", "--json", "go"}},
		{"pi", "pi-1.6.0-2026-11-30.jsonl", []string{"--mode", "json", "-p", "go"}},
		{"gemini", "gemini-0.61.0-2026-11-30.jsonl", []string{"--output-format", "stream-json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			known := map[string][]map[string]any{}
			for _, v := range recorded(t, c.recording) {
				known[kind(v)] = append(known[kind(v)], v)
			}
			got := command(t, c.name, work, c.args...).run(t)
			if got.err != nil {
				t.Errorf("exit: %v, %s", got.err, got.stderr.String())
			}
			seen := map[string]bool{}
			for _, v := range got.lines(t) {
				k := kind(v)
				seen[k] = true
				if len(known[k]) == 0 {
					t.Errorf("the real CLI writes no line of kind %s", k)
					continue
				}
				if !slices.ContainsFunc(known[k], func(real map[string]any) bool { return len(extra("", v, real)) == 0 }) {
					t.Errorf("%s: keys that the real one has not: %v", k, extra("", v, known[k][0]))
				}
			}
			for k := range known {
				if !seen[k] && !strings.Contains(k, "tool_execution_update") {
					t.Errorf("the recording has a line of kind %s, the fake writes none", k)
				}
			}
		})
	}
}

// extra lists keys of got that real has not, in the members both have.
func extra(path string, got, real map[string]any) (keys []string) {
	for k, v := range got {
		r, ok := real[k]
		if !ok {
			keys = append(keys, path+k)
			continue
		}
		if free := k == "input" || k == "args" || k == "arguments" || k == "tool_use_result" || k == "result" || k == "delta"; free {
			continue
		}
		a, ok1 := v.(map[string]any)
		b, ok2 := r.(map[string]any)
		if ok1 && ok2 {
			keys = append(keys, extra(path+k+".", a, b)...)
		}
	}
	return keys
}
