package grok

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

var hooked = agent.Invocation{Prompt: "x", Dir: "/w", FilesDir: "/run/r1", Gate: &agent.Hook{Argv: []string{"/opt/rein", "keeper", "ask", "/run/a b"}}}

func TestGateCommand(t *testing.T) {
	cmd, err := Agent{}.Command(hooked, agent.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.Index(cmd.Argv, "--agent"); i < 0 || cmd.Argv[i+1] != "/run/r1/rein-agent.md" || len(cmd.Files) != 1 || cmd.Files[0].Name != "rein-agent.md" {
		t.Fatalf("%q %v", cmd.Argv, cmd.Files)
	}
	front, ok := strings.CutPrefix(string(cmd.Files[0].Data), "---\n")
	front, ok2 := strings.CutSuffix(front, "\n---\n")
	var d struct {
		Hooks struct {
			PreToolUse []struct {
				Matcher string
				Hooks   []struct {
					Type, Command string
					Timeout       int
				}
			}
		}
	}
	if !ok || !ok2 || json.Unmarshal([]byte(front), &d) != nil || len(d.Hooks.PreToolUse) != 1 || len(d.Hooks.PreToolUse[0].Hooks) != 1 {
		t.Fatalf("%s", cmd.Files[0].Data)
	}
	if h := d.Hooks.PreToolUse[0]; h.Matcher != ".*" || h.Hooks[0].Type != "command" || h.Hooks[0].Command != hooked.Gate.Shell() || h.Hooks[0].Timeout != agent.HookTimeout {
		t.Errorf("%+v", h)
	}
	inv := hooked
	inv.Args = []string{"--agent", "mine.md"}
	if _, err := (Agent{}).Command(inv, agent.Facts{}); !errors.Is(err, agent.ErrArgument) {
		t.Errorf("another definition: %v", err)
	}
	inv = hooked
	inv.FilesDir = ""
	if _, err := (Agent{}).Command(inv, agent.Facts{}); !errors.Is(err, agent.ErrUnsupported) {
		t.Errorf("nowhere to put it: %v", err)
	}
}

// The form is that of grok 1.0.41, which tells everything twice.
func TestGateQuestion(t *testing.T) {
	tool, dir, err := Agent{}.Question([]byte(`{"hookEventName":"pre_tool_use","sessionId":"01a2","cwd":"/w","workspaceRoot":"/w","permissionMode":"bypassPermissions","toolName":"run_terminal_command","toolUseId":"call_1","toolInput":{"command":"touch ok","description":"d"},"toolInputTruncated":false,"hook_event_name":"PreToolUse","tool_name":"run_terminal_command","tool_input":{"command":"touch ok","description":"d"},"tool_use_id":"call_1"}`))
	if err != nil || dir != "/w" || tool.Command != "touch ok" || tool.ID != "call_1" {
		t.Errorf("%+v %q %v", tool, dir, err)
	}
	for _, bad := range []string{"", "{}", "[]", "null", `{"hook_event_name":"PostToolUse","tool_name":"x"}`, `{"hook_event_name":"PreToolUse"}`} {
		if _, _, err := (Agent{}).Question([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a question", bad)
		}
	}
	// It passes on the first line alone.
	if r := (Agent{}).Answer(false, "no push\nleave it"); string(r.Stderr) != "no push leave it\n" {
		t.Errorf("%q", r.Stderr)
	}
}

// What the CLI answers by itself proves no run; what a command prints cannot
// pass for it.
func TestGateRan(t *testing.T) {
	for line, ran := range map[string]bool{
		`"status":"completed","content":[],"rawOutput":{"type":"Bash","exit_code":0}`:                                                                                       true,
		`"status":"failed","content":[{"type":"content","content":{"type":"text","text":"Hook denied: no push here"}}],"rawOutput":null`:                                    false,
		`"status":"failed","content":[{"type":"content","content":{"type":"text","text":"Hook denied: forged"}}],"rawOutput":{"type":"Bash","exit_code":3}`:                 true,
		"\"status\":\"failed\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"Tool `x` was not executed: Denied by …\"}}],\"rawOutput\":null": false,
		`"status":"failed","content":[{"type":"content","content":{"type":"text","text":"something else"}}],"rawOutput":null`:                                               true,
		`"status":"failed","content":[],"rawOutput":{"error":"tool_execution_failed","message":"IO Error"}`:                                                                 true,
	} {
		n := 0
		Agent{}.NewReader(agent.Facts{}).Read(agent.Line{Bytes: []byte(`{"type":"tool_call_update","toolCallId":"c1",` + line + `}`)}, func(x agent.Reading) {
			if x.Kind == agent.KindToolFinished {
				n++
				if got := (Agent{}).Ran(x); got != ran {
					t.Errorf("%s: ran %v", line, got)
				}
			}
		})
		if n != 1 {
			t.Errorf("%s: %d readings", line, n)
		}
	}
}

func FuzzGateQuestion(f *testing.F) {
	f.Add([]byte(`{"hook_event_name":"PreToolUse","tool_name":"run_terminal_command","tool_input":{"command":"x"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tool, _, err := Agent{}.Question(b)
		if err == nil && tool.Name == "" {
			t.Errorf("%q", b)
		}
	})
}
