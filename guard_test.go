package rein_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/internal/fakeagent"
)

// repository makes s.dir a repository with one commit and a bare remote beside it.
func (s *stage) repository() (head string) {
	s.t.Helper()
	remote := filepath.Join(s.t.TempDir(), "remote.git")
	git(s.t, s.dir, "init", "-q", "-b", "main")
	git(s.t, s.dir, "commit", "-q", "--allow-empty", "-m", "one")
	git(s.t, s.dir, "init", "-q", "--bare", remote)
	git(s.t, s.dir, "remote", "add", "origin", remote)
	git(s.t, s.dir, "push", "-q", "origin", "main")
	return git(s.t, s.dir, "rev-parse", "HEAD")
}

// evasions are ways to push or to commit that no flag of a CLI sees.
var evasions = []string{
	"git -C . push origin HEAD:refs/heads/two",
	`sh -c "git push origin HEAD:refs/heads/two"`,
	"cd / && cd - >/dev/null && git push origin HEAD:refs/heads/two",
	`X=push; git $X origin HEAD:refs/heads/two`,
	"env -i PATH=\"$PATH\" git commit --allow-empty -m x",
	"git update-ref refs/heads/two HEAD",
	"git -c alias.x=push x origin HEAD:refs/heads/two",
}

// With a gate, what is withheld never runs, and the agent goes on.
func TestGuardRefusesBeforeItRuns(t *testing.T) {
	for _, name := range []string{"claude", "codex", "pi", "grok", "copilot"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.repository()
			var steps []fakeagent.Step
			for _, e := range evasions {
				steps = append(steps, fakeagent.Step{Do: "bash", Command: e})
			}
			steps = append(steps, innocent, fakeagent.Step{Do: "text", Text: "done"}, fakeagent.Step{Do: "result"})
			rep := s.do(s.scenario(name, fakeagent.Scenario{Steps: steps}))
			if !rep.OK || rep.Answer != "done" || !rep.Boundary.Clean || rep.Gate.Refused != len(evasions) || !has(rep, rein.FoundRefused) {
				t.Errorf("ok %v, gate %+v, boundary %+v, %s: %s", rep.OK, rep.Gate, rep.Boundary, kinds(rep), rep.Failure)
			}
			if !exists(s.dir, "ran") {
				t.Error("the innocent command did not run")
			}
			if !slices.Contains(rep.Guard.Denied, "git push") || !rep.Guard.Blocked {
				t.Errorf("guard %+v", rep.Guard)
			}
		})
	}
}

// Without a gate the call is under way when it is seen: the run is halted.
func TestGuardHaltsWithoutAGate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.repository()
	s.opts.Keeper = nil
	rep := s.do(s.task(innocent, fakeagent.Step{Do: "bash", Command: "git -C . push origin main"}, fakeagent.Step{Do: "hang"}))
	if rep.End != (rein.End{Kind: rein.Halted, Detail: "git-push"}) || rep.ExitCode() != rein.ExitHalted || !has(rep, rein.FoundForbidden) {
		t.Errorf("end %+v, exit %d, %s: %s", rep.End, rep.ExitCode(), kinds(rep), rep.Failure)
	}
	if rep.Gate.Armed || rep.Gate.Why == "" {
		t.Errorf("gate %+v", rep.Gate)
	}
	if !strings.Contains(rep.Failure, "git -C . push origin main") {
		t.Errorf("failure %q", rep.Failure)
	}
}

// A rule of level halt ends the run, gate or not.
func TestGuardHalts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.repository()
	task := s.task(fakeagent.Step{Do: "bash", Command: "git push --force origin main"}, fakeagent.Step{Do: "hang"})
	rep := s.do(task)
	if rep.End != (rein.End{Kind: rein.Halted, Detail: "git-push-force"}) || !rep.Boundary.Clean {
		t.Errorf("end %+v, boundary %+v: %s", rep.End, rep.Boundary, rep.Failure)
	}
}

// What the gate does not see meets git's own hooks, and what drops those is
// found afterwards. A script that stands on disk is both.
func TestBlockedAndFound(t *testing.T) {
	hidden := func(command string) fakeagent.Step {
		return fakeagent.Step{Do: "bash", Argv: []string{"sh", "-c", command}, Input: map[string]string{"command": "make"}}
	}
	for _, c := range []struct {
		name, command string
		what          string // of the change, "" when it did not happen
	}{
		{"commit in a script", "git commit -q --allow-empty -m x", ""},
		{"push in a script", "git push -q --no-verify origin HEAD:refs/heads/two", ""},
		{"commit past the hooks", "git -c core.hooksPath=/dev/null -c user.name=a -c user.email=a@b commit -q --allow-empty -m x", "committed"},
		{"push past the environment", "env -u GIT_CONFIG_COUNT git push -q origin HEAD:refs/heads/two", "remote"},
		{"send-pack", "git send-pack -q \"$(git config remote.origin.url)\" HEAD:refs/heads/two 2>/dev/null || git send-pack \"$(git config remote.origin.url)\" HEAD:refs/heads/two", "remote"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.repository()
			rep := s.do(s.task(hidden(c.command), fakeagent.Step{Do: "text", Text: "done"}, fakeagent.Step{Do: "result"}))
			if c.what == "" {
				if !rep.OK || !rep.Boundary.Clean {
					t.Errorf("exit %d, boundary %+v, %s", rep.ExitCode(), rep.Boundary, kinds(rep))
				}
				return
			}
			if rep.ExitCode() != rein.ExitBoundary || !slices.ContainsFunc(rep.Boundary.Changes, func(ch rein.Change) bool { return strings.Contains(ch.What, c.what) }) {
				t.Errorf("exit %d, boundary %+v, %s", rep.ExitCode(), rep.Boundary, kinds(rep))
			}
		})
	}
}

// What was granted is done, allowed in the report, and told to the agent.
func TestCommitsGranted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	head := s.repository()
	task := s.task(fakeagent.Step{Do: "commit", Path: "work.txt"}, fakeagent.Step{Do: "bash", Command: "git tag x"}, fakeagent.Step{Do: "text", Text: "done"}, fakeagent.Step{Do: "result"})
	task.Guard.Commits = true
	rep := s.do(task)
	if !rep.OK || !rep.Boundary.Clean || len(rep.Boundary.Allowed) == 0 || rep.Gate.Refused != 1 {
		t.Errorf("ok %v, boundary %+v, gate %+v: %s", rep.OK, rep.Boundary, rep.Gate, rep.Failure)
	}
	if git(t, s.dir, "rev-parse", "HEAD") == head {
		t.Error("nothing was committed")
	}
}

// One value: what the agent is told, what its CLI is asked to withhold and what
// the report says are the same, and none of it starts when it is misspelt.
func TestOneValue(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.repository()
	task := s.task(fakeagent.Step{Do: "result"})
	task.Guard = guard.Config{Allow: []string{"gh pr review"}, Network: true, Rules: []guard.Rule{{Command: "npm publish"}}}
	plan, err := rein.Describe(t.Context(), task, &s.opts)
	if err != nil {
		t.Fatal(err)
	}
	argv := strings.Join(plan.Argv, "\n")
	for _, c := range plan.Guard.Denied {
		if !strings.Contains(plan.Told, "`"+c+"`") || !strings.Contains(argv, "Bash("+c+":*)") {
			t.Errorf("%s is denied, and the agent or its CLI is not told", c)
		}
	}
	if !slices.Contains(plan.Guard.Denied, "npm publish") || slices.Contains(plan.Guard.Denied, "gh pr review") || strings.Contains(argv, "WebFetch") {
		t.Errorf("%v", plan.Guard)
	}
	if !strings.Contains(argv, plan.Told) || !strings.Contains(plan.Told, "Granted, use it where the task needs it: `gh pr review`, the web tools") {
		t.Errorf("told: %s", plan.Told)
	}
	for _, bad := range []guard.Config{{Allow: []string{"git push"}}, {Allow: []string{"gh pr"}}, {Packs: []string{"elixr"}}, {Levels: map[string]guard.Level{"git-push": guard.Allow}}} {
		task.Guard = bad
		if _, err := rein.Start(t.Context(), task, &s.opts); err == nil {
			t.Errorf("%+v was started", bad)
		}
	}
}

// The environment of the agent's shells has no way out in it, but for what was
// given to the run by name.
func TestNoCredentials(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "gh-inherited")
	t.Setenv("SSH_AUTH_SOCK", "/nowhere")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "aws-inherited")
	s := newStage(t)
	s.repository()
	task := s.task(fakeagent.Step{Do: "bash", Command: "env > env.txt"}, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"})
	task.Env["NPM_TOKEN"] = "given"
	if rep := s.do(task); !rep.OK {
		t.Fatal(rep.Failure)
	}
	b, err := os.ReadFile(filepath.Join(s.dir, "env.txt"))
	if err != nil {
		t.Fatal(err)
	}
	env := string(b)
	for _, name := range []string{"GITHUB_TOKEN=", "SSH_AUTH_SOCK=", "AWS_SECRET_ACCESS_KEY="} {
		if strings.Contains(env, "\n"+name) {
			t.Errorf("%s is there", name)
		}
	}
	if !strings.Contains(env, "\nNPM_TOKEN=given\n") || !strings.Contains(env, "\nGH_CONFIG_DIR=") {
		t.Error("what was given by name is not there, or a login of gh can be found")
	}
}

// The caller's own judge is asked about what the policy lets pass.
func TestOwnJudge(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	j := &judge{refuse: "forbidden"}
	s.opts.Judge = j.decide
	rep := s.do(s.task(forbidden, fakeagent.Step{Do: "bash", Command: "git push"}, innocent, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"}))
	if !rep.OK || rep.Gate.Refused != 2 || len(j.asked) != 2 {
		t.Errorf("gate %+v, asked %d: %s", rep.Gate, len(j.asked), rep.Failure)
	}
}
