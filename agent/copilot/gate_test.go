package copilot

import (
	"encoding/json"
	"errors"
	"os/exec"
	"runtime"
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
	if n := len(cmd.Argv); cmd.Argv[n-2] != "--plugin-dir" || cmd.Argv[n-1] != "/run/r1" || len(cmd.Files) != 2 {
		t.Errorf("%q %v", cmd.Argv, cmd.Files)
	}
	inv := hooked
	inv.FilesDir = ""
	if _, err := (Agent{}).Command(inv, agent.Facts{}); !errors.Is(err, agent.ErrUnsupported) {
		t.Errorf("nowhere to put it: %v", err)
	}
}

// The hook lets nothing but a clear yes pass, and hands on only a reason that
// came with a no.
func TestGateHook(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no gate on Windows")
	}
	for name, c := range map[string]struct {
		script, want string
		code         int
	}{
		"yes":        {"echo yes", "", 0},
		"no":         {`echo '{"permissionDecision":"deny","permissionDecisionReason":"why"}'; exit 2`, "why", 2},
		"mute":       {"exit 2", "", 2},
		"an allow":   {`echo '{"permissionDecision":"allow"}'`, "refused by rein", 2},
		"exit 1":     {"echo yes; exit 1", "refused by rein", 2},
		"crash":      {"kill -SEGV $$", "refused by rein", 2},
		"nothing":    {"", "refused by rein", 2},
		"yes and no": {"echo yes; echo no", "refused by rein", 2},
	} {
		inv := hooked
		inv.Gate = &agent.Hook{Argv: []string{"/bin/sh", "-c", c.script}}
		cmd, err := Agent{}.Command(inv, agent.Facts{})
		if err != nil {
			t.Fatal(err)
		}
		var h struct {
			Hooks struct {
				PreToolUse []struct {
					Bash    string
					Timeout int `json:"timeoutSec"`
				}
			}
		}
		if err := json.Unmarshal(cmd.Files[1].Data, &h); err != nil || len(h.Hooks.PreToolUse) != 1 || h.Hooks.PreToolUse[0].Timeout != agent.HookTimeout {
			t.Fatalf("%s: %v", cmd.Files[1].Data, err)
		}
		sh := exec.Command("/bin/sh", "-c", h.Hooks.PreToolUse[0].Bash)
		out, _ := sh.Output()
		if code := sh.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "allow") {
			t.Errorf("%s: code %d, %q", name, code, out)
		}
	}
}

// The form is that of copilot 1.0.102.
func TestGateQuestion(t *testing.T) {
	tool, dir, err := Agent{}.Question([]byte(`{"sessionId":"79ec","timestamp":1796065298302,"cwd":"/w","toolName":"bash","toolArgs":{"command":"touch ok","description":"d"}}`))
	if err != nil || dir != "/w" || tool.Command != "touch ok" || tool.Name != "bash" {
		t.Errorf("%+v %q %v", tool, dir, err)
	}
	for _, bad := range []string{"", "{}", "[]", "null", `{"toolArgs":{}}`} {
		if _, _, err := (Agent{}).Question([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a question", bad)
		}
	}
	r := (Agent{}).Answer(false, `no "push"`)
	var no struct{ PermissionDecision, PermissionDecisionReason string }
	if err := json.Unmarshal(r.Stdout, &no); err != nil || no.PermissionDecision != "deny" || no.PermissionDecisionReason != `no "push"` {
		t.Errorf("%s", r.Stdout)
	}
}

func TestGateSame(t *testing.T) {
	a := agent.Tool{Name: "bash", Command: "ls"}
	for _, c := range []struct {
		ran  agent.Tool
		want bool
	}{
		{agent.Tool{ID: "call_1", Name: "bash", Command: "ls"}, true},
		{agent.Tool{ID: "call_1", Name: "bash", Command: "ls -l"}, false},
		{agent.Tool{ID: "call_1", Name: "view", Command: "ls"}, false},
		{agent.Tool{ID: "call_1", Name: "bash", Command: "ls", Files: []string{"x"}}, false},
	} {
		if got := (Agent{}).Same(a, c.ran); got != c.want {
			t.Errorf("%+v: %v", c.ran, got)
		}
	}
}

func FuzzGateQuestion(f *testing.F) {
	f.Add([]byte(`{"toolName":"bash","toolArgs":{"command":"x"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tool, _, err := Agent{}.Question(b)
		if err == nil && tool.Name == "" {
			t.Errorf("%q", b)
		}
	})
}
