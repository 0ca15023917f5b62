package gemini

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/internal/golden"
)

func facts(string) agent.Facts { return agent.Facts{Version: "0.61.0"} }

func read(t *testing.T, name string) golden.Readings {
	t.Helper()
	return golden.File(t, Agent{}, facts(""), name+"_gemini-0.61.0_2026-11-30")
}

func lines(t *testing.T, all ...string) golden.Readings {
	t.Helper()
	return golden.Read(t, Agent{}.NewReader(agent.Facts{}), []byte(strings.Join(all, "\n")+"\n"))
}

func TestGolden(t *testing.T) { golden.All(t, Agent{}, facts) }

func TestCommand(t *testing.T) {
	const yolo = "gemini --output-format stream-json --approval-mode yolo --skip-trust"
	for _, c := range []struct {
		name string
		inv  agent.Invocation
		argv string
	}{
		{"fresh", agent.Invocation{FilesDir: "/run/r"}, yolo},
		{"read-only", agent.Invocation{Mode: agent.ReadOnly, FilesDir: "/run/r"}, "gemini --output-format stream-json --approval-mode plan --skip-trust --admin-policy /run/r/rein-policy.toml"},
		{"all", agent.Invocation{Model: "gemini-3-pro", Session: agent.Session{Resume: "01a2-b"}, Args: []string{"--debug"}}, yolo + " --model gemini-3-pro --resume 01a2-b --debug"},
		{"latest", agent.Invocation{Session: agent.Session{Resume: "latest"}}, yolo + " --resume latest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.inv.Prompt = "- /x\n"
			cmd, err := Agent{}.Command(c.inv, agent.Facts{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(c.argv), cmd.Argv); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if string(cmd.Stdin) != c.inv.Prompt {
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
		{agent.Invocation{Prompt: "x", Model: "claude-opus-4-8"}, agent.ErrModel},
		{agent.Invocation{Prompt: "x", Args: []string{"--yolo"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Mode: agent.ReadOnly}, agent.ErrMode},
		{agent.Invocation{Prompt: "x", Effort: "high"}, agent.ErrUnsupported},
		{agent.Invocation{Prompt: "x", Observer: true}, agent.ErrUnsupported},
		{agent.Invocation{Prompt: "x", Schema: []byte("{}")}, agent.ErrUnsupported},
		{agent.Invocation{Prompt: "x", Rules: "r", RulesBy: agent.RulesBySystem}, agent.ErrUnsupported},
		{agent.Invocation{Prompt: strings.Repeat("x", 900_001)}, agent.ErrPrompt},
	} {
		if _, err := (Agent{}).Command(c.inv, agent.Facts{}); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

// Rules stand before the prompt and limits behind it; a file is package rules'.
func TestRulesAndLimits(t *testing.T) {
	inv := agent.Invocation{Prompt: "do it", Rules: "be kind", Limits: "no push"}
	cmd, err := Agent{}.Command(inv, agent.Facts{})
	if s := string(cmd.Stdin); err != nil || !strings.Contains(s, "be kind\n\n---\n\ndo it\n\nno push") {
		t.Errorf("%q %v", s, err)
	}
	inv.RulesBy = agent.RulesByFile
	if cmd, err = (Agent{}).Command(inv, agent.Facts{}); err != nil || string(cmd.Stdin) != "do it\n\nno push" || (Agent{}).Capabilities("").RulesFile != "GEMINI.md" {
		t.Errorf("%q %v", cmd.Stdin, err)
	}
}

func TestPolicy(t *testing.T) {
	inv := agent.Invocation{Prompt: "x", FilesDir: "/run/r", Withhold: agent.Withhold{Commands: []string{"git push", "a \"b\"\n"}, Web: true}}
	cmd, err := Agent{}.Command(inv, agent.Facts{})
	if err != nil || len(cmd.Files) != 1 {
		t.Fatalf("%v %v", cmd.Files, err)
	}
	for _, want := range []string{`commandPrefix = "git push"`, `commandPrefix = "a \"b\"\u000A"`, `"web_fetch"`} {
		if !strings.Contains(string(cmd.Files[0].Data), want) {
			t.Errorf("%s is not in %s", want, cmd.Files[0].Data)
		}
	}
	if i := slices.Index(cmd.Argv, "--admin-policy"); i < 0 || cmd.Argv[i+1] != "/run/r/rein-policy.toml" {
		t.Errorf("%q", cmd.Argv)
	}
	inv.FilesDir = "" // a hint: nowhere to put it is no error
	if cmd, err = (Agent{}).Command(inv, agent.Facts{}); err != nil || len(cmd.Files) != 0 || slices.Contains(cmd.Argv, "--admin-policy") {
		t.Errorf("%q %v", cmd.Argv, err)
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{"0.61.0\n": "0.61.0", "warn 9.9.9 x\n0.61.0-nightly.1\n": "0.61.0-nightly.1", "none": ""} {
		if got := (Agent{}).ParseVersion([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
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
	if x := finished[5].Tool; !x.Failed || x.Exit == nil || *x.Exit != 3 || x.NotRun {
		t.Errorf("%+v", x)
	}
	if end := rs.Last(t, agent.KindTurnEnded); !end.OK || end.Text != "All done." || end.Model != "gemini-2.5-flash" {
		t.Errorf("%+v", end)
	}
	// What a rule or a hook refused has not run.
	rs = read(t, "push")
	if d := rs.Of(agent.KindDenied); len(d) != 1 || d[0].Tool.Command != "git push origin main" {
		t.Errorf("denied %+v", d)
	}
	if f := rs.Of(agent.KindToolFinished); len(f) != 3 || !f[0].Tool.NotRun || f[1].Tool.NotRun {
		t.Errorf("finished %+v", f)
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		class agent.Class // "" is success
		text  string
	}{
		{"bash", "", "fin"},
		{"hello", "", "Hello from the model, thinking."},
		{"err429-once", "", "second try"},
		{"err500-once", "", "second try"},
		{"maxtok", "", "some words"},
		{"err401", agent.Auth, "API key not valid. Please pass a valid API key."},
		{"err403", agent.Auth, "permission denied for this key"},
		{"err400", agent.Other, "the model exploded"},
		{"err404", agent.Other, "models/x is not found"},
		{"drop-mid", agent.Network, "terminated"},
		{"empty", agent.Other, "The model returned an empty response with no text or thoughts. This may be a transient API issue; please try again."},
		{"refusal", agent.Other, "The model response was blocked due to safety settings."},
	} {
		t.Run(c.name, func(t *testing.T) {
			ends := read(t, c.name).Of(agent.KindTurnEnded)
			if len(ends) != 1 {
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
	// What had come of an answer that was cut off is told.
	cut := lines(t, `{"type":"message","role":"assistant","content":"half an","delta":true}`)
	if got := cut.Last(t, agent.KindText); got.Text != "half an" {
		t.Errorf("%+v", got)
	}
	for message, class := range map[string]agent.Class{
		`[API Error: {\"error\":{\"code\":400,\"message\":\"API key not valid. Please pass a valid API key.\",\"status\":\"INVALID_ARGUMENT\"}}]`: agent.Auth,
		`[API Error: You have exhausted your capacity on this model. Your quota will reset after 5h.]`:                                            agent.RateLimit,
	} {
		end := lines(t, `{"type":"result","status":"error","error":{"type":"unknown","message":"`+message+`"}}`).Last(t, agent.KindTurnEnded)
		if end.Failure == nil || end.Failure.Class != class {
			t.Errorf("%s: %+v", message, end.Failure)
		}
	}
	for typ, class := range map[string]agent.Class{"FatalTurnLimitedError": agent.Limit, "FatalCancellationError": agent.Cancelled, "FatalAuthenticationError": agent.Auth} {
		end := lines(t, `{"type":"result","status":"error","error":{"type":"`+typ+`","message":"x"}}`).Last(t, agent.KindTurnEnded)
		if end.Failure == nil || end.Failure.Class != class {
			t.Errorf("%s: %+v", typ, end.Failure)
		}
	}
}

// The cache is inside the input; thoughts are in the total alone.
func TestUsage(t *testing.T) {
	u := read(t, "hello").Last(t, agent.KindTurnEnded).Usage
	if want := (agent.Usage{Model: "gemini-2.5-flash", Input: 1223, Output: 574, CacheRead: 11, Scope: agent.PerProcess}); *u != want {
		t.Errorf("%+v, want %+v", *u, want)
	}
	rs := lines(t, `{"type":"result","status":"success","stats":{"total_tokens":330,"input_tokens":300,"output_tokens":30,"cached":0,"models":{`+
		`"gemini-3-pro":{"total_tokens":220,"input_tokens":200,"output_tokens":20,"cached":0},"gemini-2.5-flash-lite":{"total_tokens":110,"input_tokens":100,"output_tokens":10,"cached":0}}}}`)
	if end := rs.Last(t, agent.KindTurnEnded); end.Model != "gemini-3-pro" || end.Usage.Input != 300 {
		t.Errorf("%+v", end)
	}
	var each []string
	for _, r := range rs.Of(agent.KindUsage) {
		each = append(each, r.Usage.Model)
	}
	if !slices.Equal(each, []string{"gemini-2.5-flash-lite", "gemini-3-pro"}) {
		t.Errorf("%q", each)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"type":"init","session_id":"s","model":7}`, `{"type":"message","role":"assistant","content":["x"]}`,
		`{"type":"tool_use","tool_name":"run_shell_command","tool_id":"a","parameters":{"command":{}}}`,
		`{"type":"tool_result","tool_id":"a","status":"error","error":{"type":"policy_violation"}}`,
		`{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\":1e99}}]"},"stats":{"models":{"":{"total_tokens":-1}}}}`,
		`{"type":"error","message":"Maximum session turns exceeded"}`, "\x00", "[]", "{",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		golden.Read(t, Agent{}.NewReader(agent.Facts{}), b)
	})
}
