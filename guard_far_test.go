//go:build real

package rein_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/internal/fakeagent"
)

// farStage is a stage whose runs happen on the far host, in a repository there.
func farStage(t *testing.T) (*stage, *far.Host, func(steps ...fakeagent.Step) *rein.Report) {
	t.Helper()
	s := newStage(t)
	f := far.New(t, &far.Options{Programs: map[string]string{"claude": self(t)}, Tools: []string{"git", "sh", "env"}})
	s.opts.Host, s.opts.Keeper = host.New(f, nil), nil
	task := rein.Task{Prompt: "do it", Agent: "claude", Dir: f.Home(), Env: driver.Env{}}
	run := func(steps ...fakeagent.Step) *rein.Report {
		t.Helper()
		steps = append(steps, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"})
		task.Env[fakeagent.EnvScenario] = fakeagent.Scenario{Steps: steps}.JSON()
		return s.do(task)
	}
	run(fakeagent.Step{Do: "bash", Sly: true, Command: "git init -q -b main && git -c user.name=f -c user.email=f@example.invalid commit -q --allow-empty -m one && git init -q --bare o.git && git remote add origin \"$PWD/o.git\" && git push -q origin main"})
	return s, f, run
}

// What is withheld does not run on another machine either, and what gets past is
// found there.
func TestFoundOnTheFarHost(t *testing.T) {
	t.Parallel()
	_, _, run := farStage(t)
	var steps []fakeagent.Step
	for _, e := range evasions {
		steps = append(steps, fakeagent.Step{Do: "bash", Command: e})
	}
	if rep := run(steps...); !rep.OK || !rep.Boundary.Clean || rep.Gate.Refused != len(evasions) || !rep.Guard.Blocked {
		t.Errorf("ok %v, gate %+v, boundary %+v, guard %+v: %s", rep.OK, rep.Gate, rep.Boundary, rep.Guard, rep.Failure)
	}
	rep := run(fakeagent.Step{Do: "bash", Sly: true, Command: "env -u GIT_CONFIG_COUNT git push -q origin HEAD:refs/heads/two && git update-ref -d refs/remotes/origin/two"})
	if rep.ExitCode() != rein.ExitBoundary {
		t.Errorf("exit %d, boundary %+v: %s", rep.ExitCode(), rep.Boundary, rep.Failure)
	}
}

// What the gate does not see meets git's hooks there, the shims and an
// environment without credentials; none of it is left behind.
func TestBlockedOnTheFarHost(t *testing.T) {
	t.Parallel()
	_, f, run := farStage(t)
	hidden := func(command string) fakeagent.Step {
		return fakeagent.Step{Do: "bash", Argv: []string{"sh", "-c", command}, Input: map[string]string{"command": "make"}}
	}
	var steps []fakeagent.Step
	for _, c := range []string{
		"git -c user.name=f -c user.email=f@example.invalid commit -q --allow-empty -m x",
		"git push -q --no-verify origin HEAD:refs/heads/two",
		"git update-ref refs/heads/two HEAD",
		"git checkout -q --detach",
		"gh pr create",
	} {
		steps = append(steps, hidden(c+" >>said 2>&1 && echo went through: '"+c+"' >>said"))
	}
	steps = append(steps, hidden("env >said.env; git init -q other && cd other && git -c user.name=f -c user.email=f@example.invalid commit -q --allow-empty -m x && echo innocent >>../said"))
	if rep := run(steps...); !rep.OK || !rep.Boundary.Clean || !rep.Guard.Blocked {
		t.Errorf("ok %v, boundary %+v, guard %+v: %s", rep.OK, rep.Boundary, rep.Guard, rep.Failure)
	}
	home := f.Here("/home/far")
	said, err := os.ReadFile(filepath.Join(home, "said"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(said); strings.Contains(text, "went through") || !strings.Contains(text, "rein: refused: this run may not use \"gh pr create\"") || !strings.Contains(text, "innocent") {
		t.Errorf("git and the shell there:\n%s", text)
	}
	env, _ := os.ReadFile(filepath.Join(home, "said.env"))
	if !strings.Contains(string(env), "\nGH_CONFIG_DIR=") && !strings.HasPrefix(string(env), "GH_CONFIG_DIR=") {
		t.Errorf("a login of gh can be found:\n%s", env)
	}
	if left, _ := filepath.Glob(filepath.Join(home, ".rein", "*", "block")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
