package qwen

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/internal/golden"
)

func facts(string) agent.Facts { return agent.Facts{Version: "0.15.10"} }

func read(t *testing.T, name string) golden.Readings {
	t.Helper()
	return golden.File(t, Agent{}, facts(""), name+"_qwen-0.15.10_2026-11-30")
}

func lines(t *testing.T, all ...string) golden.Readings {
	t.Helper()
	return golden.Read(t, Agent{}.NewReader(agent.Facts{}), []byte(strings.Join(all, "\n")+"\n"))
}

func TestGolden(t *testing.T) { golden.All(t, Agent{}, facts) }

func TestCommand(t *testing.T) {
	const base = "qwen --output-format stream-json --include-partial-messages "
	for _, c := range []struct {
		name string
		inv  agent.Invocation
		argv string
	}{
		{"fresh", agent.Invocation{}, base + "--approval-mode yolo"},
		{"read-only", agent.Invocation{Mode: agent.ReadOnly}, base + "--core-tools read_file list_directory glob grep_search todo_write --allowed-mcp-server-names none --approval-mode plan"},
		{"all", agent.Invocation{Model: "qwen3-coder-plus", Session: agent.Session{Resume: "01a2-b"}, Schema: []byte(`{}`), Args: []string{"--auth-type", "openai"}}, base + "--approval-mode yolo --model qwen3-coder-plus --resume 01a2-b --json-schema {} --auth-type openai"},
		{"latest", agent.Invocation{Session: agent.Session{Resume: "latest"}}, base + "--approval-mode yolo --continue"},
		{"withheld", agent.Invocation{Withhold: agent.Withhold{Commands: []string{"push", "a,b"}, Web: true}}, base + "--exclude-tools run_shell_command(push) web_fetch web_search --approval-mode yolo"},
		{"rules and limits", agent.Invocation{Rules: "R", Limits: "L"}, base + "--approval-mode yolo --append-system-prompt R|L"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.inv.Prompt = "- /x\n"
			cmd, err := Agent{}.Command(c.inv, agent.Facts{})
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Fields(c.argv)
			for i := range want {
				want[i] = strings.ReplaceAll(want[i], "|", "\n\n")
			}
			if diff := cmp.Diff(want, cmd.Argv); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if string(cmd.Stdin) != c.inv.Prompt {
				t.Errorf("stdin %q", cmd.Stdin)
			}
		})
	}
}

// There is one flag for the system prompt: where the user's own Args have it,
// rules and limits go to the prompt.
func TestRules(t *testing.T) {
	inv := agent.Invocation{Prompt: "do it", Rules: "be kind", Limits: "no push", Args: []string{"--append-system-prompt", "mine"}}
	cmd, err := Agent{}.Command(inv, agent.Facts{})
	if s := string(cmd.Stdin); err != nil || !strings.Contains(s, "be kind\n\n---\n\ndo it\n\nno push") || slices.Contains(cmd.Argv, "be kind") {
		t.Errorf("%q %q %v", s, cmd.Argv, err)
	}
	inv = agent.Invocation{Prompt: "do it", Rules: "be kind", RulesBy: agent.RulesByFile}
	if cmd, err = (Agent{}).Command(inv, agent.Facts{}); err != nil || string(cmd.Stdin) != "do it" || slices.Contains(cmd.Argv, "be kind") {
		t.Errorf("%q %q %v", cmd.Stdin, cmd.Argv, err)
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, c := range []struct {
		inv  agent.Invocation
		want error
	}{
		{agent.Invocation{Prompt: "x", Args: []string{"--yolo"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Args: []string{"--openai-api-key=k"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Mode: agent.ReadOnly, Args: []string{"--core-tools", "edit"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Schema: []byte("[]")}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Observer: true}, agent.ErrUnsupported},
		{agent.Invocation{Prompt: "x", Effort: "high"}, agent.ErrUnsupported},
		{agent.Invocation{Prompt: "x", Gate: &agent.Hook{Argv: []string{"rein"}}}, agent.ErrUnsupported},
	} {
		if _, err := (Agent{}).Command(c.inv, agent.Facts{}); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{"0.15.10\n": "0.15.10", "warn 9.9.9 x\n0.15.10\n": "0.15.10", "none": ""} {
		if got := (Agent{}).ParseVersion([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestParseLogin(t *testing.T) {
	for in, want := range map[string]agent.Login{
		"\n=== Authentication Status ===\n⚠️  No authentication method configured.\n":           {State: agent.LoginUnknown, Detail: "none is configured; a key in the environment may do"},
		"✓ Authentication Method: OpenRouter\n  Status: API key configured\n":                   {State: agent.LoggedIn, Pays: "key", Detail: "OpenRouter"},
		"⚠️  Authentication Method: OpenRouter (Incomplete)\n  Issue: API key not found in …\n": {State: agent.LoggedOut, Detail: "OpenRouter (Incomplete)"},
		"": {State: agent.LoginUnknown},
	} {
		if got := (Agent{}).ParseLogin(0, []byte(in)); got != want {
			t.Errorf("%q: %+v", in, got)
		}
	}
}

func TestTools(t *testing.T) {
	rs := read(t, "tools")
	started, finished := rs.Of(agent.KindToolStarted), rs.Of(agent.KindToolFinished)
	if len(started) != 6 || len(finished) != 6 {
		t.Fatalf("%d started, %d finished", len(started), len(finished))
	}
	if w := started[0].Tool; !w.Writes || !slices.Equal(w.Files, []string{"/w/made.txt"}) || w.Name != "write_file" {
		t.Errorf("%+v", w)
	}
	if c := finished[1].Tool; c.Command != "echo ran > ran.txt && echo shown" || c.Failed || c.NotRun {
		t.Errorf("%+v", c)
	}
	if n := finished[4].Tool; n.Name != "nonexist" || !n.NotRun || !n.Failed {
		t.Errorf("%+v", n)
	}
	// What plan mode refused has not run, and is told in the result.
	rs = read(t, "plan")
	if f := rs.Of(agent.KindToolFinished); len(f) != 5 || !f[0].Tool.NotRun || !f[1].Tool.NotRun || !f[2].Tool.NotRun {
		t.Errorf("%+v", f)
	}
	if d := rs.Of(agent.KindDenied); len(d) == 0 || !slices.ContainsFunc(d, func(r agent.Reading) bool { return r.Tool.Command == "touch shell.txt" }) {
		t.Errorf("denied %+v", d)
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		class agent.Class // "" is success
		text  string
	}{
		{"hello", "", "Hello from the fake model."},
		{"bash", "", "fin"},
		{"tools", "", "All done."},
		{"schema", "", `{"n":7}`},
		{"err429-once", "", "second try"},
		{"err500-once", "", "second try"},
		{"err401", agent.Auth, "401 fake error 401"}, // in the stream a success
		{"err400", agent.Other, "400 the model exploded"},
		{"refusal", agent.Other, "Model stream ended with empty response text."},
	} {
		t.Run(c.name, func(t *testing.T) {
			rs := read(t, c.name)
			ends := rs.Of(agent.KindTurnEnded)
			if len(ends) != 1 || len(rs.Of(agent.KindTurnStarted)) != 1 {
				t.Fatalf("%d ends", len(ends))
			}
			end := ends[0]
			if c.class == "" {
				if !end.OK || end.Failure != nil || end.Text != c.text {
					t.Errorf("%+v", end)
				}
				return
			}
			if end.OK || end.Failure == nil || end.Failure.Class != c.class || end.Failure.Text != c.text {
				t.Errorf("%+v %+v", end, end.Failure)
			}
		})
	}
	if n := len(read(t, "fg-term").Of(agent.KindTurnEnded)); n != 0 {
		t.Errorf("a cut turn has %d ends", n)
	}
	// Words about an error are an answer.
	result := `{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"result":"It says [API Error: 401 x]","usage":{"input_tokens":9,"output_tokens":9}}`
	if end := lines(t, result).Last(t, agent.KindTurnEnded); !end.OK || end.Failure != nil {
		t.Errorf("%+v", end)
	}
	for message, class := range map[string]agent.Class{
		"Reached max session turns for this session.": agent.Limit, "Operation cancelled.": agent.Cancelled, "Connection error. (cause: terminated)": agent.Network,
	} {
		end := lines(t, `{"type":"result","subtype":"error_during_execution","is_error":true,"duration_ms":5,"error":{"message":"`+message+`"}}`).Last(t, agent.KindTurnEnded)
		if end.OK || end.Failure == nil || end.Failure.Class != class {
			t.Errorf("%s: %+v", message, end.Failure)
		}
	}
	// A sub-agent's failure does not end the run.
	if rs := lines(t, `{"type":"result","subtype":"error_during_execution","is_error":true,"duration_ms":0,"error":{"message":"x"}}`); len(rs.Of(agent.KindTurnEnded)) != 0 || len(rs.Of(agent.KindError)) != 1 {
		t.Errorf("%+v", rs)
	}
}

// The cache is inside the input; a message is told in several lines, and the
// last has its tokens. The result has what side requests used, too.
func TestUsage(t *testing.T) {
	us := read(t, "tools").Of(agent.KindUsage)
	if len(us) != 4 || us[0].Usage.Input != 1223 || us[0].Usage.CacheRead != 11 || us[0].Usage.Output != 567 || us[0].Usage.Model != "fake-chat" {
		t.Errorf("%+v", us)
	}
	rs := read(t, "hello")
	if us, end := rs.Of(agent.KindUsage), rs.Last(t, agent.KindTurnEnded); len(us) != 1 || us[0].Usage.Input != 123 || end.Usage.Input != 223 || end.Usage.Scope != agent.PerTurn {
		t.Errorf("%+v %+v", us, end.Usage)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"type":"system","subtype":"init","session_id":7}`, `{"type":"assistant","message":{"content":"x","usage":{"input_tokens":-1}}}`,
		`{"type":"assistant","message":{"content":[1,{"type":"tool_use","id":"a","name":"run_shell_command","input":{"command":{}}}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":{}}]}}`,
		`{"type":"result","result":"[API Error: ]","usage":{"input_tokens":1e99},"permission_denials":[{}]}`, `{"type":"stream_event","event":7}`, "\x00", "[]", "{",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		golden.Read(t, Agent{}.NewReader(agent.Facts{}), b)
	})
}
