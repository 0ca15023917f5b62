package codex

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

var hooked = agent.Invocation{Prompt: "x", Dir: "/w", Gate: &agent.Hook{Argv: []string{"/opt/it's/rein", "keeper", "ask", "/run/a b"}}}

func TestGateCommand(t *testing.T) {
	cmd, err := Agent{}.Command(hooked, agent.Facts{Version: "0.171.0"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--enable", "hooks", "--disable", "unified_exec_tty", "--dangerously-bypass-hook-trust", "-c",
		`hooks.PreToolUse=[{matcher="*",hooks=[{type="command",command="r=$('/opt/it'\\''s/rein' keeper ask '/run/a b') \u0026\u0026 [ \"$r\" = yes ] || { echo 'refused by rein' \u003e\u00262; exit 2; }",timeout=2000000}]}]`,
	}
	i := slices.Index(cmd.Argv, "--enable")
	if i < 0 || !slices.Equal(cmd.Argv[i:i+len(want)], want) {
		t.Errorf("%q", cmd.Argv)
	}
	inv := hooked
	inv.Gate = nil
	if cmd, err := (Agent{}).Command(inv, agent.Facts{}); err != nil || slices.Contains(cmd.Argv, "--enable") || slices.Contains(cmd.Argv, trustFlag) {
		t.Errorf("without a gate: %q %v", cmd.Argv, err)
	}
	for version, ok := range map[string]bool{"": true, "0.171.0": true, "0.172.3-alpha": true, "1.0.0": true, "0.170.9": false, "0.99.0": false, "strange": false} {
		if got := (Agent{}).Capabilities(version).Gate; got != ok {
			t.Errorf("%q: gate %v", version, got)
		}
		if _, err := (Agent{}).Command(hooked, agent.Facts{Version: version}); (err == nil) != ok || err != nil && !errors.Is(err, agent.ErrUnsupported) {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// What would open the gate again is refused, and nothing else.
func TestGateArgs(t *testing.T) {
	for args, ok := range map[string]bool{
		"-c hooks.PreToolUse=[]": false, "-chooks.PreToolUse=[]": false, "--config=hooks={}": false, `-c "hooks".PreToolUse=[]`: false,
		"-c features.hooks=false": false, "-c features.unified_exec_tty=true": false, "-c features={hooks=false}": false,
		"--disable hooks": false, "--disable=hooks": false, "--enable unified_exec_tty": false, "--dangerously-bypass-hook-trust": false,
		"-c model_provider=fake": true, "--enable plugins": true, "-c features.plugins=true": true, "--add-dir hooks": true, "-c": true,
	} {
		inv := hooked
		inv.Args = strings.Fields(args)
		_, err := Agent{}.Command(inv, agent.Facts{})
		if (err == nil) != ok || err != nil && !errors.Is(err, agent.ErrArgument) {
			t.Errorf("%s: %v", args, err)
		}
		inv.Gate = nil
		if _, err := (Agent{}).Command(inv, agent.Facts{}); err != nil {
			t.Errorf("%s without a gate: %v", args, err)
		}
	}
}

// The forms are those of codex 0.171.0.
func TestGateQuestion(t *testing.T) {
	tool, dir, err := Agent{}.Question([]byte(`{"session_id":"x","turn_id":"y","cwd":"/tmp","hook_event_name":"PreToolUse","model":"m","permission_mode":"bypassPermissions","tool_name":"Bash","tool_input":{"command":"touch ok"},"tool_use_id":"call_1"}`))
	if err != nil || dir != "/tmp" || tool.Command != "touch ok" || tool.ID != "call_1" || tool.Name != "Bash" {
		t.Errorf("%+v %q %v", tool, dir, err)
	}
	tool, _, err = Agent{}.Question([]byte(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"apply_patch <<'END'\n*** Begin Patch\n*** Add File: f.txt\n+hello\n*** Update File: d/g.txt\n*** End Patch\nEND"}}`))
	if err != nil || !tool.Writes || !slices.Equal(tool.Files, []string{"f.txt", "d/g.txt"}) || tool.Command == "" {
		t.Errorf("%+v %v", tool, err)
	}
	for _, bad := range []string{"", "{}", "[]", "null", `{"hook_event_name":"PostToolUse","tool_name":"Bash"}`, `{"hook_event_name":"PreToolUse"}`} {
		if _, _, err := (Agent{}).Question([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a question", bad)
		}
	}
}

// Pairs as codex 0.171.0 gave them to the hook and to the stream.
func TestGateSame(t *testing.T) {
	a := Agent{}
	for asked, ran := range map[string]string{
		`touch ok && echo 'done' "ok"; sleep 1`: `/bin/bash -lc "touch ok && echo 'done' \"ok\"; sleep 1"`,
		"bash":                                  "/bin/bash -lc bash",
		"echo one; echo two":                    "/usr/bin/sh -c 'echo one; echo two'",
		"cat <<'E' > x\nit's \"$HOME\" `x` \\ é\nE\n": "/bin/bash -lc \"cat <<'E' > x\nit's \\\"\"'$HOME\" `x` \\ é\nE\n'",
	} {
		if !a.Same(agent.Tool{Name: "Bash", Command: asked}, agent.Tool{Name: "command_execution", Command: ran}) {
			t.Errorf("%q is not %q", asked, ran)
		}
		if a.Same(agent.Tool{Name: "Bash", Command: asked + " && git push"}, agent.Tool{Name: "command_execution", Command: ran}) {
			t.Errorf("%q is more than %q", asked, ran)
		}
	}
	if a.Same(agent.Tool{Name: "Bash"}, agent.Tool{Name: "command_execution", Command: "/bin/bash -lc ls"}) {
		t.Error("a question without a command is good for any")
	}
	if !a.Same(agent.Tool{Name: "mcp__probe__poke"}, agent.Tool{Name: "probe.poke"}) || a.Same(agent.Tool{Name: "Bash", Command: "ls"}, agent.Tool{Name: "probe.poke"}) {
		t.Error("tools of MCP servers")
	}
}

func FuzzGateQuestion(f *testing.F) {
	f.Add([]byte(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"x"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tool, _, err := Agent{}.Question(b)
		if err == nil && tool.Name == "" {
			t.Errorf("%q", b)
		}
	})
}

// The flag is announced by two items of type error, which are no failure.
func TestGateAnnouncement(t *testing.T) {
	line := "{\"type\":\"item.completed\",\"item\":{\"id\":\"item_0\",\"type\":\"error\",\"message\":\"`--dangerously-bypass-hook-trust` is enabled. Enabled hooks may run without review for this invocation.\"}}"
	Agent{}.NewReader(agent.Facts{}).Read(agent.Line{Bytes: []byte(line)}, func(r agent.Reading) {
		if r.Kind != agent.KindActivity {
			t.Errorf("%+v", r)
		}
	})
}
