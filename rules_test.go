package rein_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/rules"
	"github.com/rein-run/rein/store"
)

// The rules reach the process by the way that was asked for, and the report says
// which and what.
func TestRules(t *testing.T) {
	t.Parallel()
	const text = "Canary-rule: be brief.\n"
	for _, by := range []agent.RuleChannel{"", agent.RulesBySystem, agent.RulesByPrompt} {
		s := newStage(t)
		record := filepath.Join(t.TempDir(), "record")
		task := s.task(fakeagent.Step{Do: "text", Text: "ok"}, fakeagent.Step{Do: "result"})
		task.Env[fakeagent.EnvRecord] = record
		task.Rules, task.RulesBy = text, by
		rep := s.do(task)
		got, err := fakeagent.Records(record)
		if err != nil || len(got) == 0 {
			t.Fatal(got, err)
		}
		r := got[len(got)-1]
		inArgv, inPrompt := strings.Contains(strings.Join(r.Argv, " "), "Canary-rule"), strings.Contains(string(r.Stdin), "Canary-rule")
		if inArgv == inPrompt || inPrompt != (by == agent.RulesByPrompt) {
			t.Errorf("%q: in argv %v, in the prompt %v", by, inArgv, inPrompt)
		}
		want := by
		if want == "" {
			want = agent.RulesBySystem
		}
		if !rep.OK || rep.Rules == nil || rep.Rules.By != want || rep.Rules.Bytes != len(text) || len(rep.Rules.SHA256) != 64 {
			t.Errorf("%q: ok %v, %+v", by, rep.OK, rep.Rules)
		}
	}
}

// fileTask is a task for the scripted codex with rules in AGENTS.md.
func (s *stage) fileTask(steps ...fakeagent.Step) rein.Task {
	task := s.scenario("codex", fakeagent.Scenario{Steps: steps})
	task.Rules, task.RulesBy = "Canary-rule: be brief.\n", agent.RulesByFile
	return task
}

func (s *stage) file(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// Rules in a file are there while the agent works, and are nobody's change
// afterwards: the project's file is as it was with what the agent wrote, git saw
// no new file, and the boundary is clean.
func TestRulesByFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, tracked, write, after string }{
		{"tracked", "# Project\n", "true", "# Project\n"},
		{"tracked, and the agent writes", "# Project\n", "echo mine >> AGENTS.md", "# Project\nmine\n"},
		{"none", "", "true", ""},
		{"none, and the agent writes", "", "echo mine >> AGENTS.md", "mine\n"},
	} {
		s := newStage(t)
		git(t, s.dir, "init", "-q")
		if c.tracked != "" {
			if err := os.WriteFile(filepath.Join(s.dir, "AGENTS.md"), []byte(c.tracked), 0o644); err != nil {
				t.Fatal(err)
			}
			git(t, s.dir, "add", "-A")
		}
		git(t, s.dir, "commit", "-q", "--allow-empty", "-m", "one")
		exclude := s.file(".git/info/exclude")
		seen := t.TempDir()
		rep := s.do(s.fileTask(
			fakeagent.Step{Do: "bash", Command: "cat AGENTS.md > " + seen + "/rules; git status --porcelain > " + seen + "/status; " + c.write},
			fakeagent.Step{Do: "text", Text: "ok"}, fakeagent.Step{Do: "result"},
		))
		b, _ := os.ReadFile(filepath.Join(seen, "rules"))
		status, _ := os.ReadFile(filepath.Join(seen, "status"))
		if !rep.OK || !rep.Boundary.Clean || rep.Rules == nil || rep.Rules.File != "AGENTS.md" {
			t.Errorf("%s: ok %v (%s), %+v, %+v", c.name, rep.OK, rep.Failure, rep.Boundary.Changes, rep.Rules)
		}
		if !strings.Contains(string(b), "\nCanary-rule: be brief.\n") || !strings.Contains(string(b), c.tracked) {
			t.Errorf("%s: the agent saw %q", c.name, b)
		}
		if c.tracked == "" && len(status) != 0 {
			t.Errorf("%s: git saw %q", c.name, status)
		}
		if c.after == "" {
			if _, err := os.Lstat(filepath.Join(s.dir, "AGENTS.md")); !os.IsNotExist(err) {
				t.Errorf("%s: it is still there: %v", c.name, err)
			}
		} else if got := s.file("AGENTS.md"); got != c.after {
			t.Errorf("%s: left %q, want %q", c.name, got, c.after)
		}
		if got := s.file(".git/info/exclude"); got != exclude {
			t.Errorf("%s: info/exclude is %q", c.name, got)
		}
	}
}

// A run whose supervisor is killed leaves its rules to the next one to look.
func TestRulesAreTakenAwayAfterACrash(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	git(t, s.dir, "init", "-q")
	git(t, s.dir, "commit", "-q", "--allow-empty", "-m", "one")
	exclude := s.file(".git/info/exclude")
	cmd, id := s.supervisor(fakeagent.Scenario{Steps: []fakeagent.Step{{Do: "text", Text: "working"}, {Do: "hang"}}}, func(o *order) {
		o.Agent, o.Rules, o.RulesBy = "codex", "Canary-rule", agent.RulesByFile
	})
	if !strings.Contains(s.file("AGENTS.md"), "Canary-rule") {
		t.Fatal("nothing was placed")
	}
	cmd.Process.Kill()
	cmd.Wait()
	done, err := rein.Reap(context.Background(), s.store, agent.Registry{})
	if err != nil || len(done) != 1 || done[0].ID != id || done[0].Report == nil {
		t.Fatalf("%+v %v", done, err)
	}
	rep := done[0].Report
	if _, err := os.Lstat(filepath.Join(s.dir, "AGENTS.md")); !os.IsNotExist(err) || s.file(".git/info/exclude") != exclude {
		t.Errorf("it is still there: %v, %q", err, s.file(".git/info/exclude"))
	}
	if !rep.Boundary.Clean || rep.Rules == nil || has(rep, rein.FoundRulesLeft) {
		t.Errorf("%+v, %+v: %s", rep.Boundary.Changes, rep.Rules, kinds(rep))
	}
}

// What the agent makes of the file that cannot be undone is said, and is not OK.
func TestRulesLeftAreFound(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rep := s.do(s.fileTask(
		fakeagent.Step{Do: "bash", Command: "rm AGENTS.md && ln -s /etc/hostname AGENTS.md"},
		fakeagent.Step{Do: "text", Text: "ok"}, fakeagent.Step{Do: "result"},
	))
	if rep.OK || !has(rep, rein.FoundRulesLeft) || !strings.Contains(rep.Failure, "AGENTS.md") {
		t.Errorf("ok %v, %q, %s", rep.OK, rep.Failure, kinds(rep))
	}
}

func TestRulesRefused(t *testing.T) {
	t.Parallel()
	plain := fakeagent.Step{Do: "result"}
	for _, c := range []struct {
		name string
		bad  func(*stage, *rein.Task)
		want error
		says string
	}{
		{"tracked, and it may commit", func(s *stage, t *rein.Task) {
			os.WriteFile(filepath.Join(s.dir, "AGENTS.md"), nil, 0o644)
			git(s.t, s.dir, "init", "-q")
			git(s.t, s.dir, "add", "-A")
			t.Guard = guard.Config{Commits: true}
		}, rules.ErrTracked, "--rules-by"},
		{"a link", func(s *stage, _ *rein.Task) {
			os.Symlink("CLAUDE.md", filepath.Join(s.dir, "AGENTS.md"))
		}, rules.ErrLink, "--rules-by"},
		{"not by a file", func(_ *stage, t *rein.Task) { t.Agent = "claude" }, agent.ErrUnsupported, "system-prompt"},
		{"not by a file, in a repository", func(s *stage, t *rein.Task) {
			git(s.t, s.dir, "init", "-q")
			t.Agent = "claude"
		}, agent.ErrUnsupported, "system-prompt"},
		{"too long", func(_ *stage, t *rein.Task) { t.Rules = strings.Repeat("r", rules.MaxFile) }, rules.ErrTooLarge, "--rules"},
		{"a NUL", func(_ *stage, t *rein.Task) { t.Rules = "a\x00b" }, agent.ErrPrompt, "NUL"},
		{"no model", func(_ *stage, t *rein.Task) { t.RequireModel = true }, rein.ErrTask, "--model"},
		{"an observer that may all", func(_ *stage, t *rein.Task) { t.Observer, t.Mode = true, agent.Autonomous }, rein.ErrTask, "--profile"},
		{"an observer that commits", func(_ *stage, t *rein.Task) { t.Observer, t.Guard.Commits = true, true }, rein.ErrTask, "--profile"},
		{"pi has no schema", func(_ *stage, t *rein.Task) { t.Agent, t.Schema = "pi", []byte("{}") }, agent.ErrUnsupported, "schema"},
		{"a schema that is none", func(_ *stage, t *rein.Task) { t.Schema = []byte("[]") }, agent.ErrArgument, "JSON object"},
	} {
		s := newStage(t)
		task := s.fileTask(plain)
		c.bad(s, &task)
		r, err := rein.Start(context.Background(), task, &s.opts)
		if err == nil {
			r.Kill(context.Background())
			t.Errorf("%s: it was started", c.name)
			continue
		}
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
		if runs, _ := os.ReadDir(s.store.Runs()); len(runs) != 0 {
			t.Errorf("%s: left behind %v", c.name, runs)
		}
	}
}

// Two that only read may share a directory, but not a file of rules in it. And a
// start that fails behind the placing takes them away again.
func TestRulesByFileAreAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	task := s.fileTask(fakeagent.Step{Do: "text", Text: "working"}, fakeagent.Step{Do: "hang"})
	task.Mode = agent.ReadOnly
	r := s.start(task)
	if _, err := rein.Start(context.Background(), task, &s.opts); err == nil {
		t.Error("a second one was started")
	} else if _, ok := errors.AsType[*store.LeaseError](err); !ok {
		t.Error(err)
	}
	r.Cancel("test")
	s.wait(r)
	opts := s.opts
	opts.Keeper = []string{"/nonexistent/keeper"}
	if r, err := rein.Start(context.Background(), task, &opts); err == nil {
		r.Kill(context.Background())
		t.Fatal("it was started")
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "AGENTS.md")); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
