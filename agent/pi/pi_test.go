package pi

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/internal/golden"
)

var versions = []string{"0.73.1", "1.6.0"}

func facts(name string) agent.Facts {
	_, v, _ := strings.Cut(name, "_pi-")
	v, _, _ = strings.Cut(v, "_")
	return agent.Facts{Version: v}
}

func read(t *testing.T, name, version string) golden.Readings {
	t.Helper()
	name += "_pi-" + version + "_2026-11-30"
	return golden.File(t, Agent{}, facts(name), name)
}

func TestGolden(t *testing.T) { golden.All(t, Agent{}, facts) }

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		name, version string
		inv           agent.Invocation
		argv          string
	}{
		{"plain", "1.6.0", agent.Invocation{}, "pi --mode json -p"},
		{"read-only", "1.6.0", agent.Invocation{Mode: agent.ReadOnly}, "pi --mode json -p --tools read,grep,find,ls --no-mcp"},
		{"read-only, no MCP to switch off", "0.73.1", agent.Invocation{Mode: agent.ReadOnly}, "pi --mode json -p --tools read,grep,find,ls"},
		{"all", "1.6.0", agent.Invocation{Model: "anthropic/claude-sonnet-4-6", Effort: "max", Session: agent.Session{Resume: "01a2-b"}, Args: []string{"--offline"}}, "pi --mode json -p --model anthropic/claude-sonnet-4-6 --thinking max --session 01a2-b --offline"},
		{"latest", "0.73.1", agent.Invocation{Session: agent.Session{Resume: "latest"}}, "pi --mode json -p --continue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.inv.Prompt = "- @x\n"
			cmd, err := Agent{}.Command(c.inv, agent.Facts{Version: c.version})
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
		inv     agent.Invocation
		version string
		want    error
	}{
		{agent.Invocation{Prompt: "x", Effort: "max"}, "0.73.1", agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Mode: agent.ReadOnly, Args: []string{"--tools", "bash"}}, "", agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Args: []string{"--api-key", "k"}}, "", agent.ErrArgument},
		{agent.Invocation{Prompt: "x", Session: agent.Session{Resume: "../x"}}, "", agent.ErrSession},
	} {
		if _, err := (Agent{}).Command(c.inv, agent.Facts{Version: c.version}); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{"1.6.0\n": "1.6.0", "warn 9.9.9 x\n0.73.1\n": "0.73.1", "none": ""} {
		if got := (Agent{}).ParseVersion([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestEnds(t *testing.T) {
	for _, v := range versions {
		for _, c := range []struct {
			name    string
			class   agent.Class // "" is success, "-" is no end at all
			retries int
		}{
			{"bash-touch", "", 0},
			{"hello-chat", "", 0},
			{"hello-ant", "", 0},
			{"hello-resp", "", 0},
			{"drop-mid", "", 1},
			{"err401", agent.Auth, 0},
			{"err429", agent.RateLimit, 3},
			{"err529-ant", agent.Overloaded, 3},
			{"rpc-fg-abort", agent.Cancelled, 0},
			{"fg-term", "-", 0},
			{"hang-int", "-", 0},
		} {
			t.Run(c.name+"_"+v, func(t *testing.T) {
				rs := read(t, c.name, v)
				ends := rs.Of(agent.KindTurnEnded)
				if c.class == "-" {
					if len(ends) != 0 {
						t.Fatalf("a cut turn has an end: %+v", ends[0])
					}
					return
				}
				// A retry is not an end, so there is exactly one.
				if len(ends) != 1 {
					t.Fatalf("%d ends, want 1", len(ends))
				}
				end := ends[0]
				if end.OK != (c.class == "") || !end.OK && (end.Failure == nil || end.Failure.Class != c.class) {
					t.Errorf("end %+v %+v", end, end.Failure)
				}
				if end.OK && end.Text == "" {
					t.Error("no answer")
				}
				retries := rs.Of(agent.KindRetry)
				if len(retries) != c.retries {
					t.Fatalf("%d retries, want %d", len(retries), c.retries)
				}
				for i, r := range retries {
					if r.Attempt != i+1 || r.After <= 0 || c.class != "" && r.Failure.Class != c.class {
						t.Errorf("retry %+v %+v", r, r.Failure)
					}
				}
			})
		}
	}
}

func TestToolsAndUsage(t *testing.T) {
	for _, v := range versions {
		rs := read(t, "bash-touch", v)
		start, end := rs.Of(agent.KindToolStarted), rs.Of(agent.KindToolFinished)
		if len(start) != 1 || start[0].Tool.Command != "touch made-by-tool && echo ok" || len(end) != 1 || end[0].Tool.ID != start[0].Tool.ID || end[0].Tool.Failed {
			t.Errorf("%s: %+v %+v", v, start, end)
		}
		var in, out int64
		for _, u := range rs.Of(agent.KindUsage) {
			if u.Usage.ID == "" || u.Usage.Scope != agent.PerRequest || u.Usage.CostUSD <= 0 {
				t.Errorf("%s: %+v", v, u.Usage)
			}
			in, out = in+u.Usage.Input, out+u.Usage.Output
		}
		if in != 200 || out != 100 {
			t.Errorf("%s: %d in %d out, want 200 and 100", v, in, out)
		}
		if s := rs.Last(t, agent.KindSession); s.Model != "fake-chat" || s.SessionID == "" || s.Version != v {
			t.Errorf("%s: %+v", v, s)
		}
		if end := read(t, "bash-timeout", v).Last(t, agent.KindToolFinished); !end.Tool.Failed {
			t.Errorf("%s: a timeout is no failure", v)
		}
	}
	rs := golden.Read(t, Agent{}.NewReader(agent.Facts{}), []byte(`{"type":"tool_execution_start","toolCallId":"a","toolName":"edit","args":{"path":"/w/watch/clock.go"}}`))
	if r := rs.Last(t, agent.KindToolStarted); !r.Tool.Writes || r.Activity != "editing watch/clock.go" {
		t.Errorf("%+v", r)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"type":"agent_end","willRetry":false}` + "\n" + `{"type":"agent_settled","aborted":1}`,
		`{"type":"message_end","message":{"role":"assistant","content":"x","usage":[]}}`,
		`{"type":"agent_end"}`, `{"type":"auto_retry_start","delayMs":1e400}`, "\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		golden.Read(t, Agent{}.NewReader(agent.Facts{}), b)
	})
}
