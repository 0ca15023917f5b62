package grok

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/internal/golden"
)

func facts(string) agent.Facts { return agent.Facts{Version: "1.0.41"} }

func read(t *testing.T, name string) golden.Readings {
	t.Helper()
	return golden.File(t, Agent{}, facts(""), name+"_grok-1.0.41_2026-11-30")
}

func TestGolden(t *testing.T) { golden.All(t, Agent{}, facts) }

func TestCommand(t *testing.T) {
	const begin, end = "grok --no-auto-update --output-format streaming-json ", " --verbatim --prompt-file /dev/stdin"
	const auto = "--permission-mode bypassPermissions"
	for _, c := range []struct {
		name string
		inv  agent.Invocation
		argv string
	}{
		{"fresh", agent.Invocation{}, auto},
		{"read-only", agent.Invocation{Mode: agent.ReadOnly}, "--permission-mode plan --tools read_file,list_dir,grep --deny MCPTool"},
		{
			"all",
			agent.Invocation{Model: "grok-4.6", Effort: "high", Session: agent.Session{Resume: "01a2-b"}, Args: []string{"--max-turns", "3"}, Limits: "LIMITS", Rules: "RULES"},
			auto + " --resume 01a2-b --model grok-4.6 --reasoning-effort high --rules RULES\n\nLIMITS --max-turns 3",
		},
		{"latest", agent.Invocation{Session: agent.Session{Resume: "latest"}}, auto + " --continue"},
		{"a session of its own", agent.Invocation{FilesDir: "/run/r1"}, auto + " --session-id b2d9cf08-1aac-89d5-a266-302e89e9441f"},
		{
			"withheld",
			agent.Invocation{Withhold: agent.Withhold{Commands: []string{"git push", "odd(1)"}, Web: true}},
			auto + " --deny Bash(git push:*) --disable-web-search",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.inv.Prompt = "- @x\n"
			cmd, err := Agent{}.Command(c.inv, agent.Facts{OS: "linux"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(begin+c.argv+end, strings.Join(cmd.Argv, " ")); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if string(cmd.Stdin) != c.inv.Prompt {
				t.Errorf("stdin %q", cmd.Stdin)
			}
			if i := slices.Index(cmd.Argv, "--session-id"); i >= 0 && cmd.SessionID != cmd.Argv[i+1] {
				t.Errorf("session %q", cmd.SessionID)
			}
		})
	}
}

// Rules and limits go where the user's own are not.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name          string
		by            agent.RuleChannel
		args          []string
		flag, prompt  string
		withoutLimits bool
	}{
		{name: "system", flag: "RULES\n\nLIMITS", prompt: "do"},
		{name: "prompt", by: agent.RulesByPrompt, flag: "LIMITS", prompt: "# Rules for this run\n\nRULES\n\n---\n\ndo"},
		{name: "the user's own", args: []string{"--rules=mine"}, prompt: "# Rules for this run\n\nRULES\n\n---\n\ndo\n\nLIMITS"},
	} {
		inv := agent.Invocation{Prompt: "do", Rules: "RULES", RulesBy: c.by, Limits: "LIMITS", Args: c.args}
		if c.withoutLimits {
			inv.Limits = ""
		}
		cmd, err := Agent{}.Command(inv, agent.Facts{})
		if err != nil {
			t.Fatal(err)
		}
		flag := ""
		if i := slices.Index(cmd.Argv, "--rules"); i >= 0 {
			flag = cmd.Argv[i+1]
		}
		if flag != c.flag || string(cmd.Stdin) != c.prompt {
			t.Errorf("%s: --rules %q, prompt %q", c.name, flag, cmd.Stdin)
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, c := range []struct {
		inv  agent.Invocation
		os   string
		want error
	}{
		{agent.Invocation{Prompt: "x", Model: "gpt-5"}, "", agent.ErrModel},
		{agent.Invocation{Prompt: "x", Args: []string{"--worktree"}}, "", agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Mode: agent.ReadOnly, Args: []string{"--tools=write"}}, "", agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Schema: []byte("{}")}, "", agent.ErrUnsupported},
		{agent.Invocation{Prompt: "x", Observer: true}, "", agent.ErrUnsupported},
		{agent.Invocation{Prompt: "x"}, "windows", agent.ErrPrompt},
		{agent.Invocation{Prompt: strings.Repeat("x", 900_001)}, "", agent.ErrPrompt},
	} {
		if _, err := (Agent{}).Command(c.inv, agent.Facts{OS: c.os}); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

// Windows has no /dev/stdin.
func TestPromptFileOnWindows(t *testing.T) {
	cmd, err := Agent{}.Command(agent.Invocation{Prompt: "do", FilesDir: `C:\run`}, agent.Facts{OS: "windows"})
	if err != nil || cmd.Argv[len(cmd.Argv)-1] != `C:\run\prompt.md` || len(cmd.Files) != 1 || string(cmd.Files[0].Data) != "do" || cmd.Stdin != nil {
		t.Errorf("%q %s %v", cmd.Argv, cmd.Files, err)
	}
}

func TestParse(t *testing.T) {
	if got := (Agent{}).ParseVersion([]byte("grok 1.0.41 (4220f3b224a6)\n")); got != "1.0.41" {
		t.Errorf("version %q", got)
	}
	for out, want := range map[string]agent.Login{
		"You are not authenticated.\n\nDefault model: grok-4.6\n": {State: agent.LoggedOut},
		"You are using XAI_API_KEY.\n":                            {State: agent.LoggedIn, Pays: "key"},
		"You are logged in with grok.com.\n":                      {State: agent.LoggedIn},
		"":                                                        {State: agent.LoginUnknown},
	} {
		if got := (Agent{}).ParseLogin(0, []byte(out)); got.State != want.State || got.Pays != want.Pays {
			t.Errorf("%q: %+v", out, got)
		}
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		class  agent.Class // "" is success
		answer string
	}{
		{"hello", "", "Hello from the fake model."},
		{"tools", "", "All done."},
		{"subagent", "", "All done."},
		{"resume", "", "second"},
		{"drop-mid", "", "this text wisecond try"}, // the CLI takes nothing back
		{"err400", agent.Other, ""},
		{"err401", agent.Auth, ""},
		{"err429", agent.RateLimit, ""},
		{"err500", agent.Overloaded, ""},
		{"stream-err", agent.Overloaded, ""},
		{"cancelled", agent.Cancelled, ""},
		{"max-turns", agent.Limit, ""},
	} {
		rs := read(t, c.name)
		end := rs.Last(t, agent.KindTurnEnded)
		if n := len(rs.Of(agent.KindTurnEnded)); n != 1 {
			t.Errorf("%s: %d ends", c.name, n)
		}
		if end.OK != (c.class == "") || end.Text != c.answer {
			t.Errorf("%s: %+v %+v", c.name, end, end.Failure)
		}
		if !end.OK && (end.Failure == nil || end.Failure.Class != c.class || end.Failure.Text == "") {
			t.Errorf("%s: %+v", c.name, end.Failure)
		}
		if n := len(rs.Of(agent.KindTurnStarted)); n != 1 {
			t.Errorf("%s: %d turns began", c.name, n)
		}
	}
	if f := read(t, "err401").Last(t, agent.KindTurnEnded).Failure; f.Status != 401 || strings.Contains(f.Text, "Version") {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"fg-term", "fg-int"} {
		if ends := read(t, name).Of(agent.KindTurnEnded); len(ends) != 0 {
			t.Errorf("%s: a cut turn has an end", name)
		}
	}
}

func TestUsage(t *testing.T) {
	for name, want := range map[string]agent.Usage{
		"usage":    {Input: 170, Output: 100, CacheRead: 30},
		"subagent": {Input: 800, Output: 157}, // with what the sub-agent used
	} {
		rs := read(t, name)
		var sum agent.Usage
		for _, r := range rs.Of(agent.KindUsage) {
			sum.Input, sum.Output, sum.CacheRead = sum.Input+r.Usage.Input, sum.Output+r.Usage.Output, sum.CacheRead+r.Usage.CacheRead
		}
		end := *rs.Last(t, agent.KindTurnEnded).Usage
		if end.Model != "fake-chat" || end.Scope != agent.PerTurn {
			t.Errorf("%s: %+v", name, end)
		}
		end.Model, end.Scope = "", ""
		if sum != want || end != want {
			t.Errorf("%s: requests %+v, turn %+v, want %+v", name, sum, end, want)
		}
	}
	if s := read(t, "hello").Last(t, agent.KindSession); s.Model != "fake-chat" || s.SessionID == "" || s.Version != "1.0.41" {
		t.Errorf("%+v", s)
	}
}

// What ran and what did not, in the order of the calls.
func TestTools(t *testing.T) {
	rs := read(t, "tools")
	starts := map[string]*agent.Tool{}
	for _, r := range rs.Of(agent.KindToolStarted) {
		starts[r.Tool.ID] = r.Tool
	}
	type outcome struct{ failed, notRun bool }
	want := map[string]outcome{
		"0": {failed: true}, "1": {failed: true}, "2": {failed: true}, "3": {}, "4": {}, "5": {failed: true}, "6": {true, true},
		"7": {failed: true}, "8": {failed: true}, "9": {true, true}, "10": {true, true}, "11": {},
	}
	for _, r := range rs.Of(agent.KindToolFinished) {
		_, n, _ := strings.Cut(r.Tool.ID, "000002_")
		if got := (outcome{r.Tool.Failed, r.Tool.NotRun}); got != want[n] || starts[r.Tool.ID] == nil {
			t.Errorf("call %s (%+v): %+v, want %+v", n, starts[r.Tool.ID], got, want[n])
		}
		delete(want, n)
	}
	if len(want) != 0 {
		t.Errorf("no end of %v", want)
	}
	shell, write := starts["call_fake000002_5"], starts["call_fake000002_3"]
	if shell.Command != "echo out; exit 3" || !write.Writes || !slices.Equal(write.Files, []string{"new/n.txt"}) {
		t.Errorf("%+v %+v", shell, write)
	}
	if d := rs.Of(agent.KindDenied); len(d) != 1 || !strings.Contains(d[0].Text, "git push") {
		t.Errorf("denied %+v", d)
	}
	if s := read(t, "subagent").Of(agent.KindToolStarted); !s[0].Tool.Spawns {
		t.Errorf("%+v", s[0].Tool)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"type":"tool_call_update","status":"failed","content":[{"content":{"text":1}}],"rawOutput":null}`,
		`{"type":"text","data":["x"]}` + "\n" + `{"type":"end","modelUsage":{"a":{"modelCalls":-1}},"usage":{"input_tokens":1e300}}`,
		`{"type":"error","message":"Internal error: {\"message\":\"x\",\"http_status\":-1}"}`, `{"type":"tool_call_update","content":[`, "\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		golden.Read(t, Agent{}.NewReader(agent.Facts{}), b)
	})
}
