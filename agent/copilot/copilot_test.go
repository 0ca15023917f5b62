package copilot

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/internal/golden"
)

func facts(string) agent.Facts { return agent.Facts{Version: "1.0.102"} }

func read(t *testing.T, name string) golden.Readings {
	t.Helper()
	return golden.File(t, Agent{}, facts(""), name+"_copilot-1.0.102_2026-11-30")
}

func TestGolden(t *testing.T) { golden.All(t, Agent{}, facts) }

func TestCommand(t *testing.T) {
	const begin = "copilot --output-format json --no-ask-user --no-auto-update "
	for _, c := range []struct {
		name         string
		inv          agent.Invocation
		argv, prompt string
	}{
		{"fresh", agent.Invocation{}, "--allow-all", "- @x\n"},
		{"read-only", agent.Invocation{Mode: agent.ReadOnly, Withhold: agent.Withhold{Web: true}}, "--allow-all-tools --available-tools=view,grep,glob", "- @x\n"},
		{
			"all",
			agent.Invocation{Model: "gpt-5.4", Effort: "high", Session: agent.Session{Resume: "01a2-b"}, Args: []string{"--add-dir", "/x"}, Limits: "LIMITS", Rules: "RULES"},
			"--allow-all --resume=01a2-b --model gpt-5.4 --reasoning-effort high --add-dir /x", "# Rules for this run\n\nRULES\n\n---\n\n- @x\n\nLIMITS",
		},
		{"latest", agent.Invocation{Session: agent.Session{Resume: "latest"}}, "--allow-all --continue", "- @x\n"},
		{"a session of its own", agent.Invocation{FilesDir: "/run/r1"}, "--allow-all --session-id=b2d9cf08-1aac-89d5-a266-302e89e9441f", "- @x\n"},
		{
			"withheld",
			agent.Invocation{Withhold: agent.Withhold{Commands: []string{"git push", "odd(1)"}, Web: true}},
			"--allow-all --excluded-tools=web_fetch,web_search --deny-tool=shell(git push)", "- @x\n",
		},
		{"rules in a file", agent.Invocation{Rules: "RULES", RulesBy: agent.RulesByFile}, "--allow-all", "- @x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.inv.Prompt = "- @x\n"
			cmd, err := Agent{}.Command(c.inv, agent.Facts{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(begin+c.argv, strings.Join(cmd.Argv, " ")); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if string(cmd.Stdin) != c.prompt {
				t.Errorf("stdin %q", cmd.Stdin)
			}
		})
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, c := range []struct {
		inv  agent.Invocation
		want error
	}{
		{agent.Invocation{Prompt: "x", Args: []string{"--trust-folder"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Args: []string{"--share-gist"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Mode: agent.ReadOnly, Args: []string{"--available-tools=bash"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Schema: []byte("{}")}, agent.ErrUnsupported},
		{agent.Invocation{Prompt: strings.Repeat("x", 200_001)}, agent.ErrPrompt},
	} {
		if _, err := (Agent{}).Command(c.inv, agent.Facts{}); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.\n": "1.0.102",
		"Package extraction took 7548ms\nGitHub Copilot CLI 1.0.103-1.\n":           "1.0.103-1",
		"none": "",
	} {
		if got := (Agent{}).ParseVersion([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		class   agent.Class // "" is success
		answer  string
		retries int
	}{
		{"hello", "", "Hello from the fake model.", 0},
		{"tools", "", "All done.", 0},
		{"drop-mid", "", "second try", 1},
		{"err400", agent.Other, "", 0},
		{"err401", agent.Auth, "", 2},
		{"err429", agent.RateLimit, "", 5},
	} {
		rs := read(t, c.name)
		end := rs.Last(t, agent.KindTurnEnded)
		if end.OK != (c.class == "") || end.Text != c.answer || end.SessionID == "" {
			t.Errorf("%s: %+v %+v", c.name, end, end.Failure)
		}
		if !end.OK && (end.Failure == nil || end.Failure.Class != c.class || end.Failure.Text == "") {
			t.Errorf("%s: %+v", c.name, end.Failure)
		}
		retries := rs.Of(agent.KindRetry)
		if len(retries) != c.retries || len(rs.Of(agent.KindTurnStarted)) != 1 {
			t.Errorf("%s: %d retries", c.name, len(retries))
		}
		for i, r := range retries {
			if r.Attempt != i+1 || r.Failure == nil || c.class != "" && r.Failure.Class != c.class {
				t.Errorf("%s: %+v %+v", c.name, r, r.Failure)
			}
		}
	}
	if f := read(t, "err400").Last(t, agent.KindTurnEnded).Failure; f.Status != 400 || !strings.Contains(f.Text, "the model exploded") {
		t.Errorf("%+v", f)
	}
	if f := read(t, "drop-mid").Last(t, agent.KindRetry).Failure; f.Class != agent.Network {
		t.Errorf("%+v", f)
	}
	if ends := read(t, "fg-term").Of(agent.KindTurnEnded); len(ends) != 0 {
		t.Error("a cut turn has an end")
	}
	if s := read(t, "hello").Last(t, agent.KindSession); s.Model != "fake-model" || s.SessionID == "" {
		t.Errorf("%+v", s)
	}
}

// What ran and what did not, in the order of the calls.
func TestTools(t *testing.T) {
	rs := read(t, "tools")
	type outcome struct{ failed, notRun bool }
	want := map[string]outcome{
		"0": {failed: true}, "1": {}, "2": {failed: true}, "3": {failed: true}, "4": {true, true}, "5": {true, true}, "6": {true, true}, "7": {true, true},
	}
	for _, r := range rs.Of(agent.KindToolFinished) {
		_, n, _ := strings.Cut(r.Tool.ID, "000001_")
		if got := (outcome{r.Tool.Failed, r.Tool.NotRun}); got != want[n] || r.Tool.Name == "" {
			t.Errorf("call %s: %+v, want %+v", n, r.Tool, want[n])
		}
		if n == "0" && (r.Tool.Exit == nil || *r.Tool.Exit != 3 || r.Tool.Command != "echo out; exit 3") {
			t.Errorf("%+v", r.Tool)
		}
		if n == "1" && (!r.Tool.Writes || len(r.Tool.Files) != 1) {
			t.Errorf("%+v", r.Tool)
		}
		delete(want, n)
	}
	if len(want) != 0 || len(rs.Of(agent.KindToolStarted)) != 8 {
		t.Errorf("no end of %v", want)
	}
	if d := rs.Of(agent.KindDenied); len(d) != 1 || d[0].Tool.Command != "git push origin x" {
		t.Errorf("denied %+v", d)
	}
	// A hook's no is not the permission system's.
	if rs := read(t, "hook"); len(rs.Of(agent.KindDenied)) != 0 || !rs.Of(agent.KindToolFinished)[0].Tool.NotRun {
		t.Error("a hook's refusal")
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"type":"tool.execution_complete","data":{"success":false,"error":[]}}`, `{"data":{"model":1},"type":"model.call_start","agentId":7}`,
		`{"type":"session.error","data":{"statusCode":1e300}}` + "\n" + `{"type":"result","exitCode":"x"}`, `{"type":"assistant.message","data":`, "\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		golden.Read(t, Agent{}.NewReader(agent.Facts{}), b)
	})
}
