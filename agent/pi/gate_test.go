package pi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

func TestGateCommand(t *testing.T) {
	inv := agent.Invocation{
		Prompt: "x", Dir: "/w", FilesDir: "/run/r1", Args: []string{"-e", "mine.ts"},
		Gate: &agent.Hook{Argv: []string{`/opt/"q"/rein`, "keeper", "ask", "/run/r1"}},
	}
	cmd, err := Agent{}.Command(inv, agent.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	// Ours comes last: it is asked about what the user's own have made of it.
	if n := len(cmd.Argv); !slices.Equal(cmd.Argv[n-4:], []string{"-e", "mine.ts", "-e", "/run/r1/rein-gate.js"}) {
		t.Errorf("%q", cmd.Argv)
	}
	if len(cmd.Files) != 1 || cmd.Files[0].Name != "rein-gate.js" || !strings.Contains(string(cmd.Files[0].Data), `const argv = ["/opt/\"q\"/rein","keeper","ask","/run/r1"];`) {
		t.Errorf("%s", cmd.Files)
	}
	inv.FilesDir = ""
	if _, err := (Agent{}).Command(inv, agent.Facts{}); !errors.Is(err, agent.ErrUnsupported) {
		t.Errorf("nowhere to put it: %v", err)
	}
	inv.Gate = nil
	if cmd, err := (Agent{}).Command(inv, agent.Facts{}); err != nil || len(cmd.Files) != 0 {
		t.Errorf("without a gate: %v %v", cmd.Files, err)
	}
}

func TestGateQuestion(t *testing.T) {
	tool, dir, err := Agent{}.Question([]byte(`{"type":"tool_call","tool":"bash","id":"call_1","input":{"command":"ls","timeout":5},"cwd":"/w"}`))
	if err != nil || dir != "/w" || tool.Command != "ls" || tool.ID != "call_1" {
		t.Errorf("%+v %q %v", tool, dir, err)
	}
	if tool, _, err = (Agent{}).Question([]byte(`{"type":"tool_call","tool":"edit","id":"call_2","input":{"path":"f"}}`)); err != nil || !tool.Writes || len(tool.Files) != 1 {
		t.Errorf("%+v %v", tool, err)
	}
	for _, bad := range []string{"", "{}", "[]", "null", `{"type":"tool_call"}`, `{"tool":"bash"}`} {
		if _, _, err := (Agent{}).Question([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a question", bad)
		}
	}
}

// A command that fails has run when it told progress, whatever it printed; what
// pi answers by itself has not. The lines are those of 0.73.1.
func TestGateRan(t *testing.T) {
	const update = `{"type":"tool_execution_update","toolCallId":"c1","toolName":"bash","args":{},"partialResult":{"content":[]}}`
	end := func(text, failed string) string {
		return `{"type":"tool_execution_end","toolCallId":"c1","toolName":"bash","result":{"content":[{"type":"text","text":"` + text + `"}],"details":{}},"isError":` + failed + `}`
	}
	for name, c := range map[string]struct {
		lines []string
		ran   bool
	}{
		"done":          {[]string{update, end("(no output)", "false")}, true},
		"failed":        {[]string{update, end("x\\n\\n\\nCommand exited with code 3", "true")}, true},
		"forged":        {[]string{update, end("Tool bash not found", "true")}, true},
		"no such tool":  {[]string{end("Tool nonexist not found", "true")}, false},
		"refused":       {[]string{end("nothing leaves", "true")}, false},
		"another's end": {[]string{strings.Replace(update, "c1", "c2", 1), end("x", "true")}, false},
	} {
		r := Agent{}.NewReader(agent.Facts{})
		var got bool
		for _, line := range c.lines {
			r.Read(agent.Line{Bytes: []byte(line)}, func(x agent.Reading) { got = got || Agent{}.Ran(x) })
		}
		if got != c.ran {
			t.Errorf("%s: ran %v", name, got)
		}
	}
}
