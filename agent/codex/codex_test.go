package codex

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/internal/golden"
)

func facts(string) agent.Facts { return agent.Facts{Version: "0.171.0"} }

func read(t *testing.T, name string) golden.Readings {
	t.Helper()
	return golden.File(t, Agent{}, facts(""), name+"_codex-0.171.0_2026-11-30")
}

func TestGolden(t *testing.T) { golden.All(t, Agent{}, facts) }

func TestCommand(t *testing.T) {
	const bypass = "--dangerously-bypass-approvals-and-sandbox"
	const off = " -c analytics.enabled=false -c features.plugins=false"
	for _, c := range []struct {
		name string
		inv  agent.Invocation
		git  string
		argv string
	}{
		{"fresh", agent.Invocation{Dir: "/w"}, "/w/.git", "codex exec --json --cd /w " + bypass + off + " -"},
		{"no repository", agent.Invocation{Dir: "/w"}, "", "codex exec --json --cd /w --skip-git-repo-check " + bypass + off + " -"},
		{"read-only", agent.Invocation{Dir: "/w", Mode: agent.ReadOnly}, "/g", "codex exec --json --cd /w --sandbox read-only" + off + " -"},
		{
			"resume, everything before the subcommand",
			agent.Invocation{Dir: "/w", Model: "gpt-5-codex", Effort: "high", Args: []string{"-c", "a=1"}, Session: agent.Session{Resume: "01a2-b"}},
			"/g", "codex exec --json --cd /w " + bypass + off + ` -c model_reasoning_effort="high" --model gpt-5-codex -c a=1 resume 01a2-b -`,
		},
		{"latest", agent.Invocation{Session: agent.Session{Resume: "latest"}}, "/g", "codex exec --json " + bypass + off + " resume --last -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.inv.Prompt = "- resume\n"
			cmd, err := Agent{}.Command(c.inv, agent.Facts{GitCommonDir: c.git})
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
		{agent.Invocation{Prompt: "x", Args: []string{"--cd", "/"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Dir: "rel"}, agent.ErrArgument},
		{agent.Invocation{Prompt: strings.Repeat("x", 1<<20+1)}, agent.ErrPrompt},
	} {
		if _, err := (Agent{}).Command(c.inv, agent.Facts{}); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

func TestParseVersion(t *testing.T) {
	got := (Agent{}).ParseVersion([]byte("WARNING: proceeding, even though 1.2.3 …\ncodex-cli 0.171.0\n"))
	if got != "0.171.0" {
		t.Errorf("got %q", got)
	}
}

func TestTools(t *testing.T) {
	rs := read(t, "exec-fail")
	start, end := rs.Last(t, agent.KindToolStarted), rs.Last(t, agent.KindToolFinished)
	if start.Tool.Command != "/bin/bash -lc 'echo out; echo err >&2; exit 3'" || start.Activity != "running echo out; echo err >&2; exit 3" {
		t.Errorf("started %+v %q", start.Tool, start.Activity)
	}
	if end.Tool.ID != start.Tool.ID || !end.Tool.Failed || end.Tool.Exit == nil || *end.Tool.Exit != 3 {
		t.Errorf("finished %+v", end.Tool)
	}
	patch := read(t, "exec-patch-sh").Last(t, agent.KindToolFinished)
	if !patch.Tool.Writes || len(patch.Tool.Files) != 1 || patch.Tool.Files[0] != "/w/new.txt" {
		t.Errorf("patch %+v", patch.Tool)
	}
	// A command that yielded to the background never finishes.
	rs = read(t, "fg-yield")
	if n := len(rs.Of(agent.KindToolFinished)); n != 0 || len(rs.Of(agent.KindToolStarted)) != 1 {
		t.Errorf("%d finished", n)
	}
	// A tool that is only told when it is over has begun too.
	rs = golden.Read(t, Agent{}.NewReader(agent.Facts{}), []byte(`{"type":"item.completed","item":{"id":"i","type":"web_search","query":"q"}}`))
	if len(rs.Of(agent.KindToolStarted)) != 1 || len(rs.Of(agent.KindToolFinished)) != 1 {
		t.Errorf("web search %+v", rs)
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		class agent.Class // "" is success
		tries int
	}{
		{"exec-bypass", "", 0},
		{"exec-stdin-prompt", "", 0},
		{"drop-mid", "", 1},
		{"stream-err", "", 1},
		{"err500-once", "", 0},
		{"err401", agent.Auth, 5},
		{"err500", agent.Overloaded, 5},
		{"err429", agent.RateLimit, 0},
		{"err429-usage", agent.RateLimit, 0},
		{"err429-quota", agent.Billing, 0},
		{"hang-idle", agent.Network, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			rs := read(t, c.name)
			end := rs.Last(t, agent.KindTurnEnded)
			if end.OK != (c.class == "") {
				t.Fatalf("end %+v %+v", end, end.Failure)
			}
			if !end.OK && (end.Failure == nil || end.Failure.Class != c.class || end.Failure.Text == "") {
				t.Errorf("failure %+v", end.Failure)
			}
			retries := rs.Of(agent.KindRetry)
			if len(retries) != c.tries {
				t.Errorf("%d retries, want %d", len(retries), c.tries)
			}
			for i, r := range retries {
				if r.Attempt != i+1 || c.class != "" && r.Failure.Class != c.class {
					t.Errorf("retry %+v %+v", r, r.Failure)
				}
			}
			if end.OK {
				if errs := rs.Of(agent.KindError); len(errs) != 0 {
					t.Errorf("errors in a good run: %+v", errs[0].Failure)
				}
				if end.Text == "" || end.Usage == nil {
					t.Errorf("end %+v", end)
				}
			}
		})
	}
	for _, name := range []string{"hang-term", "fg-term", "fg-int"} {
		if ends := read(t, name).Of(agent.KindTurnEnded); len(ends) != 0 {
			t.Errorf("%s: a cut turn has an end", name)
		}
	}
}

// The second turn used 300 tokens in and 30 out; the thread has 400 and 80.
func TestUsageIsOfTheThread(t *testing.T) {
	u := read(t, "resume-2").Last(t, agent.KindTurnEnded).Usage
	if u.Scope != agent.PerThread || u.Input != 400 || u.Output != 80 {
		t.Errorf("%+v", u)
	}
	rs := golden.Read(t, Agent{}.NewReader(agent.Facts{}), []byte(`{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":60,"output_tokens":5}}`))
	if u := rs.Last(t, agent.KindTurnEnded).Usage; u.Input != 40 || u.CacheRead != 60 {
		t.Errorf("cached tokens are counted twice: %+v", u)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"type":"item.completed","item":{"id":1,"type":"file_change","changes":{}}}`,
		`{"type":"turn.completed","usage":{"input_tokens":-1,"cached_input_tokens":1e300}}`,
		`{"type":"error","message":"Reconnecting... 99999999999/5 (`, `{"item":`, "\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		golden.Read(t, Agent{}.NewReader(agent.Facts{}), b)
	})
}
