package rein_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/internal/fakeagent"
)

// A whole run on a host that shares nothing with this process but the kernel:
// another user, root, HOME and PATH (law 9). The transcript and the report are
// here, everything else is there.
func TestFarHost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	f := far.New(t, &far.Options{Programs: map[string]string{"claude": self(t)}, Tools: []string{"git", "sh"}})
	s.opts.Host = host.New(f, nil)
	s.opts.Keeper = nil

	task := rein.Task{Prompt: "do it", Agent: "claude", Dir: f.Home(), Env: driver.Env{}}
	run := func(steps ...fakeagent.Step) *rein.Report {
		t.Helper()
		task.Env[fakeagent.EnvScenario] = fakeagent.Scenario{Steps: steps}.JSON()
		return s.do(task)
	}

	rep := run(
		fakeagent.Step{Do: "bash", Sly: true, Command: "git init -q && git -c user.name=f -c user.email=f@example.invalid commit -q --allow-empty -m one"},
		fakeagent.Step{Do: "text", Text: "made a repository"},
		fakeagent.Step{Do: "result"},
	)
	if !rep.OK || rep.Host != "far:" || rep.Answer != "made a repository" || rep.Containment == driver.ByMarker {
		t.Fatalf("host %s, containment %s, ok %v: %s", rep.Host, rep.Containment, rep.OK, rep.Failure)
	}

	// The boundary is looked at where the run ran.
	rep = run(
		fakeagent.Step{Do: "bash", Sly: true, Command: "git -c core.hooksPath=/dev/null -c user.name=f -c user.email=f@example.invalid commit -q --allow-empty -m x"},
		fakeagent.Step{Do: "bash", Sly: true, Command: "git init -q own && echo x > own/pre-push && git config core.hooksPath own"},
		fakeagent.Step{Do: "spawn", How: "env_i", Ignore: true},
		fakeagent.Step{Do: "flood", Bytes: 16 << 20},
		fakeagent.Step{Do: "result"},
	)
	if rep.ExitCode() != rein.ExitBoundary || !rep.Boundary.Checked {
		t.Errorf("exit %d, boundary %+v: %s", rep.ExitCode(), rep.Boundary, rep.Failure)
	}
	var words []string
	for _, c := range rep.Boundary.Changes {
		words = append(words, c.What)
	}
	if !slices.Equal(words, []string{"committed", "config key added", "hook added"}) {
		t.Errorf("changes %q", words)
	}
	if len(rep.Leftovers) == 0 || rep.Transcript.Bytes < 16<<20 {
		t.Errorf("leftovers %v, %d bytes", rep.Leftovers, rep.Transcript.Bytes)
	}

	task.Clocks.Idle = time.Second
	rep = run(fakeagent.Step{Do: "on_term", Text: "{\"tail\":1}\n"}, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "hang"})
	if rep.End != (rein.End{Kind: rein.TimedOut, Detail: "idle"}) {
		t.Errorf("end %+v: %s", rep.End, rep.Failure)
	}

	// A directory of this machine means nothing there.
	task.Dir = filepath.Join(s.dir)
	if _, err := rein.Start(context.Background(), task, &s.opts); f.Walled() && (err == nil || !strings.Contains(err.Error(), "directory")) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
