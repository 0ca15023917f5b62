package rein_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/watch"
)

// Bad input is a typed error on one line that says what to do, and nothing is
// spawned: no run directory is left, and the agent was never asked.
func TestRefused(t *testing.T) {
	long := strings.Repeat("x", 131_072)
	for _, c := range []struct {
		name string
		bad  func(*rein.Task, *rein.Options)
		want error
		says string
	}{
		{"unknown agent", func(t *rein.Task, _ *rein.Options) { t.Agent = "cloude" }, agent.ErrUnknown, "claude"},
		{"missing CLI", func(t *rein.Task, _ *rein.Options) { t.Env["PATH"] = "/nonexistent" }, driver.ErrNotFound, "npm install"},
		{"missing directory", func(t *rein.Task, _ *rein.Options) { t.Dir += "/missing" }, driver.ErrNoDir, "missing"},
		{"directory is a file", func(t *rein.Task, _ *rein.Options) { t.Dir = os.Args[0] }, rein.ErrTask, "file"},
		{"model of another family", func(t *rein.Task, _ *rein.Options) { t.Model = "gpt-5-codex" }, agent.ErrModel, "gpt-5-codex"},
		{"empty prompt", func(t *rein.Task, _ *rein.Options) { t.Prompt = " \n" }, rein.ErrTask, "empty"},
		{"NUL in the prompt", func(t *rein.Task, _ *rein.Options) { t.Prompt = "a\x00b" }, rein.ErrTask, "NUL"},
		{"argument of 128 KiB", func(t *rein.Task, _ *rein.Options) { t.Args = []string{"--settings", long} }, agent.ErrArgument, "131"},
		{"variable of 128 KiB", func(t *rein.Task, _ *rein.Options) { t.Env["BIG"] = long }, agent.ErrArgument, "BIG"},
		{"unsupported mode", func(t *rein.Task, _ *rein.Options) { t.Mode = "yolo" }, agent.ErrMode, "autonomous"},
		{"unsupported session", func(t *rein.Task, _ *rein.Options) { t.Session.Resume = "--evil" }, agent.ErrSession, ""},
		{"negative clock", func(t *rein.Task, _ *rein.Options) { t.Clocks.Idle = -5 * time.Second }, watch.ErrClock, "idle"},
		{"contradictory clocks", func(t *rein.Task, _ *rein.Options) {
			t.Clocks.Idle, t.Clocks.Total = time.Hour, time.Minute
		}, watch.ErrClock, "idle"},
		{"negative limit", func(t *rein.Task, _ *rein.Options) { t.Limits.Procs = -1 }, rein.ErrTask, ""},
		{"bad id", func(t *rein.Task, _ *rein.Options) { t.ID = "../x" }, rein.ErrTask, "--id"},
		{"bad label", func(t *rein.Task, _ *rein.Options) { t.Labels = map[string]string{"": "x"} }, rein.ErrTask, "--label"},
		{"bad variable", func(t *rein.Task, _ *rein.Options) { t.Env["A=B"] = "x" }, rein.ErrTask, "--env"},
		{"containment that cannot be had", func(_ *rein.Task, o *rein.Options) {
			o.Keeper, o.Containment, o.RequireContainment = nil, driver.ByMarker, true
		}, rein.ErrContainment, "keeper"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			record := filepath.Join(t.TempDir(), "record")
			task := s.task()
			task.Env[fakeagent.EnvRecord] = record
			opts := s.opts
			c.bad(&task, &opts)
			r, err := rein.Start(context.Background(), task, &opts)
			if err == nil {
				r.Kill(context.Background())
				t.Fatal("it was started")
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v is not %v", err, c.want)
			}
			if msg := err.Error(); !strings.Contains(msg, c.says) || strings.Contains(msg, "\n") || len(msg) > 1000 {
				t.Errorf("message %q", msg)
			}
			runs, err := os.ReadDir(s.store.Runs())
			if err != nil || len(runs) != 0 {
				t.Errorf("left behind: %v %v", runs, err)
			}
			if got, _ := fakeagent.Records(record); len(got) != 0 && c.want != rein.ErrContainment {
				t.Errorf("the agent was started: %+v", got)
			}
		})
	}
}

// Without a name the installed agent is taken, and none at all is said once.
func TestPickAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	bin := t.TempDir()
	if err := fakeagent.Install(bin, "pi"); err != nil {
		t.Fatal(err)
	}
	task := s.task()
	task.Agent = ""
	task.Env["PATH"] = bin
	if rep := s.do(task); rep.Agent != "pi" || !rep.OK {
		t.Errorf("picked %s: %s", rep.Agent, rep.Failure)
	}
	task.Env["PATH"] = t.TempDir()
	_, err := rein.Start(context.Background(), task, &s.opts)
	if !errors.Is(err, rein.ErrNoAgent) || !strings.Contains(err.Error(), "claude-code") {
		t.Errorf("no agent: %v", err)
	}
}

// A dry run shows everything but the values of variables, and runs nothing.
func TestDescribe(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	record := filepath.Join(t.TempDir(), "record")
	task := s.task()
	task.Env[fakeagent.EnvRecord] = record
	task.Env["MY_SECRET_TOKEN"] = "value-never-shown"
	plan, err := rein.Describe(context.Background(), task, &s.opts)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Agent != "claude" || plan.Version == "" || len(plan.Argv) < 2 || plan.Prompt != task.Prompt || plan.By != agent.ByStdin {
		t.Errorf("plan %+v", plan)
	}
	if got, _ := fakeagent.Records(record); len(got) != 0 {
		t.Errorf("the agent was started: %+v", got)
	}
	if runs, _ := os.ReadDir(s.store.Runs()); len(runs) != 0 {
		t.Errorf("a run directory was made: %v", runs)
	}
}
