//go:build real

package real

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/internal/fakemodel"
	"github.com/rein-run/rein/test/clis"
)

// subject is one CLI with the words that it and its model use.
type subject struct {
	name  string
	cli   func(testing.TB) clis.CLI
	setup func(*fakemodel.Server, string) (fakemodel.Setup, error)
	args  []string // before those of the setup and the prompt
	env   []string

	shell func(command string) fakemodel.Call
	write func(path, text string) fakemodel.Call
	end   string // type of the last line

	untold bool // it tells no tokens
}

type in map[string]any

var subjects = []subject{
	{
		name: "claude", cli: clis.Claude, setup: fakemodel.Claude, end: "result",
		args: []string{"-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"},
		// Root is refused without IS_SANDBOX; 401 is retried ten times otherwise.
		env:   []string{"IS_SANDBOX=1", "CLAUDE_CODE_MAX_RETRIES=1"},
		shell: func(c string) fakemodel.Call { return fakemodel.Tool("Bash", in{"command": c}) },
		write: func(p, s string) fakemodel.Call {
			return fakemodel.Tool("Write", in{"file_path": p, "content": s})
		},
	},
	{
		name: "codex", cli: clis.Codex, setup: fakemodel.Codex, end: "turn.completed",
		args: []string{"exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"},
		// Without a yield time a command that runs is left running after 10 s.
		shell: func(c string) fakemodel.Call {
			return fakemodel.Tool("exec_command", in{"cmd": c, "yield_time_ms": 30_000})
		},
		// Codex makes a file_change of an apply_patch that it sees in a command.
		write: func(p, s string) fakemodel.Call {
			return fakemodel.Tool("exec_command", in{"cmd": "apply_patch <<'END'\n*** Begin Patch\n*** Add File: " + filepath.Base(p) + "\n+" + s + "*** End Patch\nEND"})
		},
	},
	{
		name: "pi", cli: clis.Pi, setup: fakemodel.Pi, end: "agent_settled", args: []string{"--mode", "json", "-p"},
		shell: piShell, write: piWrite,
	},
	{
		name: "pi-0.73.1", cli: clis.Pi0, setup: fakemodel.Pi, end: "agent_end", args: []string{"--mode", "json", "-p"},
		shell: piShell, write: piWrite,
	},
	{
		name: "grok", cli: clis.Grok, setup: fakemodel.Grok, end: "end", shell: grokShell, write: grokWrite,
		args: []string{"--no-auto-update", "--always-approve", "--output-format", "streaming-json", "-p"},
	},
	{
		name: "copilot", cli: clis.Copilot, setup: fakemodel.Copilot, end: "result", untold: true, shell: copilotShell, write: copilotWrite,
		args: []string{"--no-auto-update", "--allow-all", "--output-format", "json", "-p"},
	},
}

// newer are CLIs of which not every table is proven yet: docs/agents.md says what
// is. They are in those of eachWithNewer.
var newer = []subject{
	{
		name: "gemini", cli: clis.Gemini, setup: fakemodel.Gemini, end: "result",
		args:  []string{"--output-format", "stream-json", "--yolo", "--skip-trust"},
		shell: geminiShell, write: geminiWrite,
	},
	{
		name: "qwen", cli: clis.Qwen, setup: fakemodel.Qwen, end: "result",
		args:  []string{"--output-format", "stream-json", "--yolo"},
		shell: qwenShell, write: geminiWrite,
	},
}

func eachWithNewer(t *testing.T, f func(*testing.T, subject)) {
	eachCLI(t, f)
	for _, s := range newer {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

// unsubstituted is for gemini and qwen, which run no command with a substitution
// in it.
func unsubstituted(c string) string {
	if strings.Contains(c, "$(") || strings.Contains(c, "`") {
		return "echo " + base64.StdEncoding.EncodeToString([]byte(c)) + " | base64 -d | sh"
	}
	return c
}

func geminiShell(c string) fakemodel.Call {
	return fakemodel.Tool("run_shell_command", in{"command": unsubstituted(c)})
}

func qwenShell(c string) fakemodel.Call {
	return fakemodel.Tool("run_shell_command", in{"command": unsubstituted(c), "is_background": false})
}

func geminiWrite(p, s string) fakemodel.Call {
	return fakemodel.Tool("write_file", in{"file_path": p, "content": s})
}

func grokShell(c string) fakemodel.Call {
	return fakemodel.Tool("run_terminal_command", in{"command": c, "description": "run it"})
}

func grokWrite(p, s string) fakemodel.Call {
	return fakemodel.Tool("write", in{"file_path": p, "content": s})
}

func piShell(c string) fakemodel.Call { return fakemodel.Tool("bash", in{"command": c}) }

func piWrite(p, s string) fakemodel.Call {
	return fakemodel.Tool("write", in{"path": p, "content": s})
}

// result is what one run gave.
type result struct {
	dir      string
	stdout   []byte
	stderr   []byte
	code     int
	requests []fakemodel.Request
	told     fakemodel.Usage
}

// run starts the CLI in an empty folder and home, and waits for its end.
func (s subject) run(t *testing.T, dir string, script fakemodel.Script) result {
	t.Helper()
	srv, err := fakemodel.New(script)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	setup, err := s.setup(srv, filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	cli := s.cli(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var args []string
	args = append(append(append(args, s.args...), setup.Args...), "do the work")
	cmd := exec.CommandContext(ctx, cli.Exe, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + cli.Path(os.Getenv("PATH"))}, s.env...)
	for k, v := range setup.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s did not end: %s%s", s.name, out.String(), errs.String())
	}
	return result{dir, out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode(), srv.Requests(), srv.Told()}
}

// lines decodes stdout.
func (r result) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(r.stdout) {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%v: %.300q", err, line)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		t.Fatalf("nothing was written; code %d, stderr %s", r.code, r.stderr)
	}
	return all
}

// copilotShell: without a wait of its own a command that runs is left running
// after 30 s.
func copilotShell(c string) fakemodel.Call {
	return fakemodel.Tool("bash", in{"command": c, "description": "run it", "initial_wait": 300})
}

// copilotWrite: it takes absolute paths alone.
func copilotWrite(p, s string) fakemodel.Call {
	if !filepath.IsAbs(p) {
		return copilotShell("printf '" + s + "' > " + p)
	}
	return fakemodel.Tool("create", in{"path": p, "file_text": s})
}

// joined is a stream with the pieces of its text behind it in one: grok writes
// no line with the whole.
func joined(stream []byte) []byte {
	var text []byte
	for line := range bytes.Lines(stream) {
		var v struct{ Type, Data string }
		if json.Unmarshal(line, &v) == nil && v.Type == "text" {
			text = append(text, v.Data...)
		}
	}
	return append(bytes.Clone(stream), text...)
}

func (r result) file(name string) string {
	b, _ := os.ReadFile(filepath.Join(r.dir, name))
	return string(b)
}
