//go:build real

package rein_test

import (
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/internal/fakeagent"
)

// What is withheld does not run on another machine either, and what gets past is
// found there.
func TestFoundOnTheFarHost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	f := far.New(t, &far.Options{Programs: map[string]string{"claude": self(t)}, Tools: []string{"git", "sh"}})
	s.opts.Host, s.opts.Keeper = host.New(f, nil), nil
	task := rein.Task{Prompt: "do it", Agent: "claude", Dir: f.Home(), Env: driver.Env{}}
	task.Env[fakeagent.EnvScenario] = fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "bash", Sly: true, Command: "git init -q -b main && git -c user.name=f -c user.email=f@example.invalid commit -q --allow-empty -m one && git init -q --bare o.git && git remote add origin \"$PWD/o.git\" && git push -q origin main"},
		{Do: "result"},
	}}.JSON()
	s.do(task)

	var steps []fakeagent.Step
	for _, e := range evasions {
		steps = append(steps, fakeagent.Step{Do: "bash", Command: e})
	}
	task.Env[fakeagent.EnvScenario] = fakeagent.Scenario{Steps: append(steps, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"})}.JSON()
	if rep := s.do(task); !rep.OK || !rep.Boundary.Clean || rep.Gate.Refused != len(evasions) || rep.Guard.Blocked {
		t.Errorf("ok %v, gate %+v, boundary %+v, guard %+v: %s", rep.OK, rep.Gate, rep.Boundary, rep.Guard, rep.Failure)
	}
	task.Env[fakeagent.EnvScenario] = fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "bash", Sly: true, Command: "git push -q origin HEAD:refs/heads/two && git update-ref -d refs/remotes/origin/two"}, {Do: "text", Text: "x"}, {Do: "result"},
	}}.JSON()
	if rep := s.do(task); rep.ExitCode() != rein.ExitBoundary {
		t.Errorf("exit %d, boundary %+v: %s", rep.ExitCode(), rep.Boundary, rep.Failure)
	}
}
