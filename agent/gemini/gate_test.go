package gemini

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

func TestGateCommand(t *testing.T) {
	inv := agent.Invocation{Prompt: "x", Dir: "/w", FilesDir: "/run/r1", Gate: &agent.Hook{Argv: []string{"/opt/rein", "keeper", "ask", "/run/r1"}}}
	cmd, err := Agent{}.Command(inv, agent.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Env["GEMINI_CLI_SYSTEM_SETTINGS_PATH"] != "/run/r1/rein-settings.json" || len(cmd.Files) != 1 {
		t.Fatalf("%v %v", cmd.Env, cmd.Files)
	}
	var s struct {
		HooksConfig struct{ Enabled bool }
		Hooks       struct {
			BeforeTool []struct {
				Matcher string
				Hooks   []struct {
					Type, Command string
					Timeout       int
				}
			}
		}
	}
	if err := json.Unmarshal(cmd.Files[0].Data, &s); err != nil {
		t.Fatal(err)
	}
	// Milliseconds; beyond 31 bits a timer of JavaScript fires at once.
	if h := s.Hooks.BeforeTool[0]; !s.HooksConfig.Enabled || h.Matcher != "*" || h.Hooks[0].Command != inv.Gate.Shell() || h.Hooks[0].Timeout < 1e9 || h.Hooks[0].Timeout >= 1<<31 {
		t.Errorf("%s", cmd.Files[0].Data)
	}
	inv.FilesDir = ""
	if _, err := (Agent{}).Command(inv, agent.Facts{}); !errors.Is(err, agent.ErrUnsupported) {
		t.Errorf("nowhere to put it: %v", err)
	}
}

// The CLI skips settings that somebody else could write, and then asks nobody.
func TestCannotGate(t *testing.T) {
	for _, c := range []struct {
		uid int
		dir string
		can bool
	}{
		{0, "/var/lib/rein/runs/1", true},
		{1000, "/home/u/.local/state/rein/runs/1", false},
		{0, "/tmp/rein/1", false},
		{0, "/tmpfiles/1", true},
	} {
		if why := (Agent{}).CannotGate(agent.Facts{UID: c.uid}, c.dir); (why == "") != c.can {
			t.Errorf("%d %s: %q", c.uid, c.dir, why)
		}
	}
}

func TestGateQuestion(t *testing.T) {
	tool, dir, err := Agent{}.Question([]byte(`{"session_id":"s","cwd":"/w","hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls","dir_path":"sub"}}`))
	if err != nil || dir != "/w/sub" || tool.Command != "ls" || tool.Name != "run_shell_command" {
		t.Errorf("%+v %q %v", tool, dir, err)
	}
	if !(Agent{}).Same(tool, agent.Tool{ID: "x", Name: "run_shell_command", Command: "ls"}) || (Agent{}).Same(tool, agent.Tool{Name: "run_shell_command", Command: "ls -l"}) {
		t.Error("what is the same is told apart, or what is not is not")
	}
	for _, bad := range []string{"", "{}", "[]", "null", `{"hook_event_name":"BeforeTool"}`, `{"hook_event_name":"AfterTool","tool_name":"x"}`} {
		if _, _, err := (Agent{}).Question([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a question", bad)
		}
	}
}

func TestGateRan(t *testing.T) {
	end := func(rest string) string { return `{"type":"tool_result","tool_id":"a","status":` + rest + `}` }
	for name, c := range map[string]struct {
		line string
		ran  bool
	}{
		"done":         {end(`"success","output":"ok"`), true},
		"failed":       {end(`"error","error":{"type":"shell_execute_error","message":"x"}`), true},
		"refused":      {end(`"error","error":{"type":"policy_violation","message":"Tool execution blocked: nothing leaves"}`), false},
		"no such tool": {end(`"error","error":{"type":"tool_not_registered","message":"x"}`), false},
		"forged":       {end(`"success","output":"Tool execution blocked: x"`), true},
	} {
		var ran bool
		r := Agent{}.NewReader(agent.Facts{})
		for _, l := range []string{`{"type":"tool_use","tool_name":"run_shell_command","tool_id":"a","parameters":{"command":"ls"}}`, c.line} {
			r.Read(agent.Line{Bytes: []byte(l)}, func(x agent.Reading) {
				ran = ran || Agent{}.Ran(x)
				if x.Tool != nil && !strings.HasPrefix(x.Tool.Command, "ls") {
					t.Errorf("%s: %+v", name, x.Tool)
				}
			})
		}
		if ran != c.ran {
			t.Errorf("%s: ran %v", name, ran)
		}
	}
}
