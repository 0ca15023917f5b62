//go:build real

package real

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/fakemodel"
)

// command runs what an agent makes of an invocation in a home that may hold
// files of the user's, and returns what the model was sent.
func (s subject) command(t *testing.T, dir string, inv agent.Invocation, script fakemodel.Script, files map[string]string) (result, string) {
	t.Helper()
	srv, err := fakemodel.New(script)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	home := filepath.Join(t.TempDir(), "home")
	setup, err := s.setup(srv, home)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "HOME", home), "DIR", dir)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name, _, _ := strings.Cut(s.name, "-")
	a, err := rein.Agents().Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	cli := s.cli(t)
	inv.Prompt, inv.Dir, inv.FilesDir = "do the work", dir, t.TempDir()
	inv.Args = append(inv.Args, setup.Args...)
	if name == "pi" {
		inv.Model, inv.Args = fakemodel.ChatModel, []string{"--provider", "fake"}
	}
	if name == "codex" && inv.Observer { // without the user's configuration, its provider has to be named
		inv.Args = append(inv.Args, "-c", `model_providers.fake={name="fake",base_url="`+srv.URL()+`/v1",env_key="FAKE_KEY",wire_api="responses"}`, "-c", `model_provider="fake"`, "-c", `model="`+fakemodel.ResponsesModel+`"`)
	}
	c, err := a.Command(inv, agent.Facts{Version: cli.Version, OS: "linux", UID: os.Getuid(), Exe: cli.Exe})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Files {
		if err := os.WriteFile(filepath.Join(inv.FilesDir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(c.Stdin)
	cmd.Env = []string{"PATH=" + cli.Path(os.Getenv("PATH"))}
	for k, v := range setup.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r := result{dir, out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode(), srv.Requests(), srv.Told()}
	var sent strings.Builder
	for _, q := range r.requests {
		sent.Write(q.Body)
	}
	if r.code != 0 || len(r.requests) == 0 {
		t.Fatalf("code %d, %d requests: %s\n%s", r.code, len(r.requests), r.stderr, r.stdout)
	}
	return r, sent.String()
}

var done = fakemodel.Script{Turns: []fakemodel.Turn{{Text: "Done."}}}

// eachThat is each, for the agents that say they can; the others refuse, which
// agent.Validate is tested for.
func eachThat(t *testing.T, can func(agent.Capabilities) bool, f func(*testing.T, subject)) {
	each(t, func(t *testing.T, s subject) {
		name, _, _ := strings.Cut(s.name, "-")
		a, err := rein.Agents().Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if can(a.Capabilities("")) {
			f(t, s)
		}
	})
}

// TestRulesReachTheModel: by every channel that is said to be one, short and
// long, with the limits beside them.
func TestRulesReachTheModel(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		name, _, _ := strings.Cut(s.name, "-")
		a, _ := rein.Agents().Lookup(name)
		c := a.Capabilities("")
		for _, by := range c.Rules {
			for what, rules := range map[string]string{"short": "canary-rule: say <b> & é", "long": strings.Repeat("Mind the gap. ", 3000) + "canary-rule: say <b> & é"} {
				t.Run(string(by)+" "+what, func(t *testing.T) {
					files := map[string]string{}
					inv := agent.Invocation{Rules: rules, RulesBy: by, Limits: "## canary-limits"}
					if by == agent.RulesByFile {
						rules = rules[max(0, len(rules)-32<<10):] // codex reads no more of it, and package rules places no more
						files["DIR/"+c.RulesFile] = rules
					}
					_, sent := s.command(t, t.TempDir(), inv, done, files)
					if !strings.Contains(sent, "canary-rule") || !strings.Contains(sent, "canary-limits") {
						t.Errorf("rules %v, limits %v", strings.Contains(sent, "canary-rule"), strings.Contains(sent, "canary-limits"))
					}
				})
			}
		}
	})
}

// TestObserver: nothing of the user's or the repository's own reaches the model,
// and no tool that runs commands.
func TestObserver(t *testing.T) {
	eachThat(t, func(c agent.Capabilities) bool { return c.Observer }, func(t *testing.T, s subject) {
		files := map[string]string{
			"HOME/.claude/CLAUDE.md": "canary-user", "DIR/CLAUDE.md": "canary-project", "DIR/.claude/skills/x/SKILL.md": "---\nname: x\ndescription: canary-skill\n---\n",
			"HOME/.claude/settings.json": `{"outputStyle":"Explanatory","env":{"CANARY":"canary-env"}}`,
			"HOME/.codex/AGENTS.md":      "canary-user", "DIR/AGENTS.md": "canary-project",
			"HOME/.pi/agent/AGENTS.md": "canary-user", "HOME/.pi/agent/SYSTEM.md": "canary-system", "HOME/.pi/agent/APPEND_SYSTEM.md": "canary-append",
			"DIR/.pi/SYSTEM.md": "canary-pisystem", "DIR/.pi/APPEND_SYSTEM.md": "canary-piappend",
		}
		_, sent := s.command(t, t.TempDir(), agent.Invocation{Observer: true, Limits: "## L"}, done, files)
		for _, part := range strings.Split(sent, "canary-")[1:] {
			if s.name == "codex" && strings.HasPrefix(part, "user") {
				continue // $CODEX_HOME/AGENTS.md: there is no switch for it
			}
			t.Errorf("the model was sent canary-%.20s", part)
		}
		for _, tool := range []string{`"name":"Bash"`, `"name":"bash"`, `"name":"exec_command"`, `"name":"shell"`, `"name":"Write"`, `"name":"write"`, `"name":"Edit"`, `"name":"Task"`, `"name":"Agent"`, `"name":"WebFetch"`} {
			if strings.Contains(strings.ReplaceAll(sent, " ", ""), tool) {
				t.Errorf("tool %s", tool)
			}
		}
	})
}

// TestSchema: the CLI passes the schema on.
func TestSchema(t *testing.T) {
	eachThat(t, func(c agent.Capabilities) bool { return c.Schema }, func(t *testing.T, s subject) {
		turn := fakemodel.Turn{Text: `{"verdict":"canary-good"}`}
		if s.name == "claude" {
			turn = fakemodel.Turn{Tools: []fakemodel.Call{fakemodel.Tool("StructuredOutput", in{"verdict": "canary-good"})}}
		}
		r, sent := s.command(t, t.TempDir(), agent.Invocation{Observer: true, Schema: []byte(`{"type":"object","properties":{"verdict":{"type":"string"}},"required":["verdict"],"additionalProperties":false}`)},
			fakemodel.Script{Turns: []fakemodel.Turn{turn, {Text: "Done."}}}, nil)
		if !strings.Contains(sent, "verdict") || !bytes.Contains(r.stdout, []byte("canary-good")) {
			t.Errorf("sent %v: %s", strings.Contains(sent, "verdict"), r.stdout)
		}
	})
}

// TestRulesInAFile: from the task to the model and away again, with a whole run.
func TestRulesInAFile(t *testing.T) {
	eachWithNewer(t, func(t *testing.T, s subject) {
		g := newStage(t, s, done)
		a, _ := rein.Agents().Lookup(g.task.Agent)
		if !slices.Contains(a.Capabilities("").Rules, agent.RulesByFile) {
			return
		}
		g.withRemote()
		g.task.Rules, g.task.RulesBy = "canary-rule: be brief", agent.RulesByFile
		rep := g.do()
		sent := ""
		for _, q := range g.model.Requests() {
			sent += string(q.Body)
		}
		if !rep.OK || !rep.Boundary.Clean || !strings.Contains(sent, "canary-rule") || g.ran("AGENTS.md") {
			t.Errorf("ok %v, sent %v, still there %v, %+v: %s", rep.OK, strings.Contains(sent, "canary-rule"), g.ran("AGENTS.md"), rep.Boundary.Changes, says(rep))
		}
	})
}
