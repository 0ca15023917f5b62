package fakeagent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestToolsReallyRun(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "pi", "gemini", "qwen", "grok", "copilot"} {
		r := command(t, name, work)
		r.run(t)
		b, err := os.ReadFile(filepath.Join(r.cmd.Dir, "made.txt"))
		if err != nil || string(b) != "made\n" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if !strings.Contains(r.stdout.String(), "All <done> ") {
			t.Errorf("%s: the text is escaped as no JavaScript CLI does", name)
		}
	}
}

// TestEnds: the last lines, and the numbers in them as each CLI counts.
func TestEnds(t *testing.T) {
	steps := []Step{
		{Do: "text", Text: "one", Usage: &Usage{In: 10, Out: 2, CacheRead: 5}},
		{Do: "text", Text: "two", Usage: &Usage{In: 20, Out: 3}},
		{Do: "result"},
	}
	failed := []Step{{Do: "retry", Status: 401, Count: 2}, {Do: "result", Status: 401}}
	for _, c := range []struct {
		what, name string
		s          Scenario
		code       int
		want       []string
	}{
		{"usage", "claude", Scenario{Steps: steps}, 0, []string{`"usage":{"input_tokens":30,"cache_creation_input_tokens":0,"cache_read_input_tokens":5,"output_tokens":5,`, `"result":"two"`, `"num_turns":2`, `"total_cost_usd":0.000221`}},
		{"usage over the thread", "codex", Scenario{Steps: steps, Before: Usage{In: 1000}}, 0, []string{`"input_tokens":1035,"cached_input_tokens":5,"cache_write_input_tokens":0,"output_tokens":5,`}},
		{"usage", "pi", Scenario{Steps: steps}, 0, []string{`"agent_settled"`, `"input":10,"output":2,"cacheRead":5`}},
		{"old", "pi", Scenario{Version: "0.73.1", Steps: steps}, 0, []string{`"partial":{`, `"agent_end"`}},
		{"401", "claude", Scenario{Steps: failed}, 1, []string{`"attempt":2,"max_retries":10,"retry_delay_ms":1000,"error_status":401,"error":"authentication_failed"`, `"is_error":true`, `"subtype":"success"`, `"api_error_status":401`}},
		{"401", "codex", Scenario{Steps: failed}, 1, []string{`Reconnecting... 2/5 (unexpected status 401`, `"turn.failed"`}},
		{"401", "pi", Scenario{Steps: failed}, 0, []string{`"auto_retry_start","attempt":2`, `"stopReason":"error"`, `"agent_settled"`}},
		{"max turns", "claude", Scenario{Steps: []Step{{Do: "result", Subtype: "error_max_turns", Text: "Reached maximum number of turns (1)"}}}, 1, []string{`"errors":["Reached maximum`}},
		{"code", "claude", Scenario{Steps: []Step{{Do: "result", Code: new(7)}}}, 7, nil},
		{
			"second result", "claude",
			Scenario{Steps: slices.Concat(steps, []Step{{Do: "session"}, {Do: "text", Text: "more", Usage: &Usage{In: 7}}, {Do: "result"}})},
			0,
			[]string{`"usage":{"input_tokens":7,`, `"modelUsage":{"claude-opus-5-5":{"inputTokens":37,`, `"result_index":1`},
		},
		{"denied", "claude", Scenario{Steps: []Step{{Do: "bash", Command: "git push", Denied: true}, {Do: "result"}}}, 0, []string{`"permission_denied"`, `"permission_denials":[{"tool_name":"Bash"`}},
		{"sub-agent", "claude", Scenario{Steps: []Step{{Do: "subagent", Text: "look", Steps: []Step{{Do: "text", Text: "deep"}}}, {Do: "text", Text: "top"}, {Do: "result"}}}, 0, []string{`"parent_tool_use_id":"toolu_fake000001_0"`, `"result":"top"`}},
		{"background", "claude", Scenario{Steps: []Step{{Do: "bash", Argv: childSpec{Role: "end"}.argv("{self}"), Back: true}, {Do: "text", Text: "first"}, {Do: "result"}, {Do: "await"}, {Do: "text", Text: "second"}, {Do: "result"}}}, 0, []string{`"task_started"`, `"task_notification"`, `"result":"second"`, `"result_index":1`}},
	} {
		t.Run(c.name+" "+c.what, func(t *testing.T) {
			t.Parallel()
			r := command(t, c.name, c.s).run(t)
			if code := r.cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			r.lines(t)
			for _, want := range c.want {
				if !strings.Contains(r.stdout.String(), want) {
					t.Errorf("not written: %s\n%s", want, r.stdout.String())
				}
			}
		})
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	r := command(t, "codex", Scenario{Record: []string{"REIN_RUN"}}, "exec", "-")
	r.cmd.Env = append(r.cmd.Env, "REIN_RUN=a/b")
	r.cmd.Stdin = strings.NewReader("the prompt")
	r.run(t)
	all, err := Records(r.records())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	got := all[0]
	if string(got.Stdin) != "the prompt" || !got.EOF || got.Name != "codex" || got.Value["REIN_RUN"] != "a/b" ||
		!slices.Equal(got.Argv[1:], []string{"exec", "-"}) || !slices.Contains(got.Env, EnvScenario) {
		t.Errorf("%+v", got)
	}
	if strings.Contains(strings.Join(got.Env, " "), "=") {
		t.Error("values are recorded that nobody asked for")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		args, env  []string
	}{
		{"claude", "requires --verbose", []string{"-p", "--output-format", "stream-json"}, nil},
		{"codex", "Not inside a trusted directory", []string{"exec", "--json"}, nil},
		{"claude", "", []string{"--version"}, nil},
	} {
		r := command(t, c.name, Scenario{}, c.args...)
		r.cmd.Env = append(r.cmd.Env, Scenario{}.Env())
		r.cmd.Run()
		if !strings.Contains(r.stderr.String(), c.want) || (r.cmd.ProcessState.ExitCode() == 0) != (c.want == "") {
			t.Errorf("%v: %v, %q", c.args, r.cmd.ProcessState, r.stderr.String())
		}
	}
}

// TestUnknownStep: a typing error in a scenario is no test that passes.
func TestUnknownStep(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"steps":[{"do":"txet"}]}`, `{"steps":[{"do":"text","txt":"x"}]}`} {
		r := command(t, "claude", Scenario{})
		r.cmd.Env = append(r.cmd.Env, EnvScenario+"="+text)
		r.cmd.Run()
		if r.cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%s: %v", text, r.cmd.ProcessState)
		}
	}
}

// TestScenarioBeside: the scenario is found where no variable reaches.
func TestScenarioBeside(t *testing.T) {
	t.Parallel()
	r := command(t, "claude", Scenario{})
	r.cmd.Env = slices.DeleteFunc(r.cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, EnvScenario) })
	s := Scenario{Steps: []Step{{Do: "text", Text: "from the file"}, {Do: "result"}}}
	if err := os.WriteFile(r.cmd.Path+".scenario.json", []byte(s.JSON()), 0o600); err != nil {
		t.Fatal(err)
	}
	if r.run(t); !strings.Contains(r.stdout.String(), "from the file") {
		t.Error(r.stdout.String())
	}
}
