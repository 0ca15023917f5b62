package rein_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/internal/fakeagent"
)

// judge refuses what holds a word, and remembers what it was asked.
type judge struct {
	refuse string
	mu     sync.Mutex
	asked  []agent.Tool
	dirs   []string
}

func (j *judge) decide(t agent.Tool, dir string) (bool, string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked, j.dirs = append(j.asked, t), append(j.dirs, dir)
	if j.refuse != "" && strings.Contains(t.Command, j.refuse) {
		return false, "nothing leaves this machine: leave the push to the user"
	}
	return true, ""
}

var (
	forbidden = fakeagent.Step{Do: "bash", Command: "echo forbidden > pushed"}
	innocent  = fakeagent.Step{Do: "bash", Command: "echo fine > ran"}
)

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// Every agent asks before it runs a tool, on this machine and on another one;
// what is refused does not run, the rest does.
func TestGateRefuses(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"local", "far"} {
		for i, name := range []string{"claude", "codex", "pi", "grok", "copilot"} {
			if !everyWay && where == "far" && i > 0 {
				continue // the way there is the same for all
			}
			t.Run(where+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				j := &judge{refuse: "forbidden"}
				s.opts.Judge = j.decide
				task := s.scenario(name, fakeagent.Scenario{Steps: []fakeagent.Step{
					{Do: "text", Text: "working"},
					forbidden, innocent,
					{Do: "write", Path: "file.txt", Text: "x"},
					{Do: "bash", Command: "exit 3"},
					innocent,
					{Do: "text", Text: "done"},
					{Do: "result"},
				}})
				here := s.dir
				if where == "far" {
					f := far.New(t, &far.Options{Programs: map[string]string{name: self(t)}, Tools: []string{"git", "sh"}})
					s.opts.Host, s.opts.Keeper = host.New(f, nil), nil
					task.Dir, here = f.Home(), f.Here("/home/far")
					task.Env = driver.Env{fakeagent.EnvScenario: task.Env[fakeagent.EnvScenario]}
				}
				rep := s.do(task)
				if !rep.OK || rep.Answer != "done" {
					t.Errorf("ok %v, answer %q, %s: %s", rep.OK, rep.Answer, kinds(rep), rep.Failure)
				}
				if exists(here, "pushed") || !exists(here, "ran") || !exists(here, "file.txt") {
					t.Error("what was refused ran, or what was allowed did not")
				}
				if rep.Gate != (rein.Gate{Armed: true, Asked: 5, Refused: 1}) {
					t.Errorf("gate %+v", rep.Gate)
				}
				if got := kinds(rep); got != rein.FoundRefused {
					t.Errorf("findings %s", got)
				}
				if !strings.Contains(rep.Findings[0].Evidence, "echo forbidden > pushed") || !strings.Contains(rep.Findings[0].Evidence, "nothing leaves") {
					t.Errorf("evidence %q", rep.Findings[0].Evidence)
				}
				for i, dir := range j.dirs {
					if real, err := filepath.EvalSymlinks(task.Dir); dir != task.Dir && (err != nil || dir != real) {
						t.Errorf("question %d is about %s, not %s", i, dir, task.Dir)
					}
				}
				if w := j.asked[2]; len(w.Files) != 1 || !w.Writes || filepath.Base(w.Files[0]) != "file.txt" {
					t.Errorf("the question about a file: %+v", w)
				}
			})
		}
	}
}

// What a sub-agent does is asked about too.
func TestGateSubAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	j := &judge{refuse: "forbidden"}
	s.opts.Judge = j.decide
	rep := s.do(s.task(fakeagent.Step{Do: "subagent", Text: "help", Steps: []fakeagent.Step{forbidden, innocent}}, fakeagent.Step{Do: "result"}))
	if !rep.OK || rep.Gate.Asked != 3 || rep.Gate.Refused != 1 || exists(s.dir, "pushed") || !exists(s.dir, "ran") {
		t.Errorf("%+v, findings %s: %s", rep.Gate, kinds(rep), rep.Failure)
	}
}

// A tool that ran without a question halts the run at once, whatever had been
// asked before.
func TestGateSilent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "pi", "grok", "copilot"} {
		for _, first := range []bool{true, false} {
			if !everyWay && !first && name != "claude" {
				continue
			}
			t.Run(fmt.Sprintf("%s first %v", name, first), func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.opts.Judge = (&judge{}).decide
				var steps []fakeagent.Step
				asked := 0
				if !first {
					steps, asked = append(steps, innocent, innocent), 2
				}
				off := fakeagent.Step{Do: "bash", Command: "echo off; exit 1", Ungated: true}
				rep := s.do(s.scenario(name, fakeagent.Scenario{Steps: append(steps, off, fakeagent.Step{Do: "hang"})}))
				if rep.End != (rein.End{Kind: rein.Halted, Detail: rein.HaltedByGate}) || rep.ExitCode() != rein.ExitHalted {
					t.Fatalf("end %+v: %s", rep.End, rep.Failure)
				}
				if !has(rep, rein.FoundGateSilent) || !strings.Contains(rep.Failure, "echo off") || rep.Gate.Asked != asked {
					t.Errorf("findings %s, gate %+v: %s", kinds(rep), rep.Gate, rep.Failure)
				}
			})
		}
	}
}

// The repository's own settings, there before the start or written by the
// agent, do not switch the gate off.
func TestGatePinned(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.opts.Judge = (&judge{refuse: "forbidden"}).decide
	rep := s.do(s.task(
		fakeagent.Step{Do: "write", Path: ".claude/settings.json", Text: `{"disableAllHooks":true}`},
		forbidden, fakeagent.Step{Do: "result"},
	))
	if !rep.OK || rep.Gate.Refused != 1 || exists(s.dir, "pushed") {
		t.Errorf("%+v: %s", rep.Gate, rep.Failure)
	}
}

// A judge that panics has refused; one that hangs holds the tool, not the run.
func TestGateJudgeFails(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.opts.Judge = func(agent.Tool, string) (bool, string) { panic("a bug") }
	rep := s.do(s.task(innocent, fakeagent.Step{Do: "result"}))
	if !rep.OK || rep.Gate.Refused != 1 || exists(s.dir, "ran") {
		t.Errorf("panic: %+v: %s", rep.Gate, rep.Failure)
	}

	asked, never := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(never) })
	s.opts.Judge = func(agent.Tool, string) (bool, string) {
		close(asked)
		<-never
		return true, ""
	}
	r := s.start(s.task(innocent, fakeagent.Step{Do: "result"}))
	<-asked
	r.Cancel(rein.CancelInterrupt)
	if rep = s.wait(r); rep.End.Kind != rein.Cancelled || exists(s.dir, "ran") {
		t.Errorf("hangs: end %+v", rep.End)
	}
}

// Where there is no way to ask, the report says so, and nothing is claimed.
func TestGateNotArmed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	steps := []fakeagent.Step{innocent, {Do: "result"}}
	check := func(task rein.Task, why string) {
		t.Helper()
		rep := s.do(task)
		if g := rep.Gate; !rep.OK || g.Armed || g.Asked != 0 || !strings.Contains(g.Why, why) {
			t.Errorf("%+v, want %q: %s", g, why, rep.Failure)
		}
	}
	check(s.scenario("codex", fakeagent.Scenario{Version: "0.150.0", Steps: steps}), "codex 0.150.0 cannot be made to ask")
	s.opts.Keeper = nil
	check(s.task(steps...), "no keeper")
}

// A program that was taken away between the start and the first tool: the tool
// does not run, and the run goes on to its honest end.
func TestGateProgramGone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "pi", "grok", "copilot"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.opts.Judge = (&judge{}).decide
			program := filepath.Join(t.TempDir(), "keeper")
			if err := os.Link(self(t), program); err != nil { // another file system
				b, err := os.ReadFile(self(t))
				if err == nil {
					err = os.WriteFile(program, b, 0o700)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			s.opts.Keeper = []string{program, "keeper"}
			task := s.scenario(name, fakeagent.Scenario{Steps: []fakeagent.Step{{Do: "wait_file", Path: filepath.Join(s.dir, "go")}, innocent, {Do: "result"}}})
			r := s.start(task)
			if err := os.Remove(program); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			rep := s.wait(r)
			if !rep.OK || exists(s.dir, "ran") || rep.Gate.Asked != 0 {
				t.Errorf("%+v, findings %s: %s", rep.Gate, kinds(rep), rep.Failure)
			}
		})
	}
}
