package rein_test

import (
	"context"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/store"
)

// The test binary is the agent, the keeper and the supervisor that is killed.
func TestMain(m *testing.M) {
	fakeagent.Reexec()
	far.Main()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "keeper":
			os.Exit(keeper.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case "supervise":
			os.Exit(supervise(os.Args[2]))
		}
	}
	// Most of these tests wait for another process, or for a bound that is real
	// time. As many at a time as there are processors would stand in line for
	// nothing. -parallel beats it: flags are parsed in Run.
	flag.Set("test.parallel", "4")
	os.Exit(m.Run())
}

// stage is a private place with scripted agents, a store and a directory to
// work in.
type stage struct {
	t     *testing.T
	store *store.Store
	dir   string
	vars  driver.Env
	pids  string
	opts  rein.Options
}

// means are the ways in which a tree is held that the tests run under.
var means = []struct {
	name   string
	keeper bool
	by     driver.Containment
}{
	{"cgroup", true, driver.ByCgroup},
	{"keeper", true, driver.ByKeeper},
	{"in-process", false, driver.ByMarker},
}

func newStage(t *testing.T) *stage {
	t.Helper()
	home, bin := t.TempDir(), t.TempDir()
	if err := fakeagent.Install(bin, "claude", "codex", "pi", "gemini", "qwen", "grok", "copilot"); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(filepath.Join(home, "state"))
	if err != nil {
		t.Fatal(err)
	}
	pids := filepath.Join(home, "pids")
	return &stage{
		t: t, store: s, dir: t.TempDir(), pids: pids,
		vars: driver.Env{
			"HOME": home, "PATH": bin + string(os.PathListSeparator) + os.Getenv("PATH"),
			fakeagent.EnvPids: pids, "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		},
		opts: rein.Options{Store: s, Keeper: []string{self(t), "keeper"}},
	}
}

func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// task is a task for the scripted claude.
func (s *stage) task(steps ...fakeagent.Step) rein.Task {
	return s.scenario("claude", fakeagent.Scenario{Steps: steps})
}

func (s *stage) scenario(agent string, sc fakeagent.Scenario) rein.Task {
	env := maps.Clone(s.vars)
	env[fakeagent.EnvScenario] = sc.JSON()
	return rein.Task{Prompt: "do it", Agent: agent, Dir: s.dir, Env: env}
}

// patience bounds what a test waits for on a loaded machine.
const patience = 60 * time.Second

func (s *stage) do(task rein.Task) *rein.Report {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	rep, err := rein.Do(ctx, task, &s.opts)
	if err != nil {
		s.t.Fatalf("rein.Do: %v", err)
	}
	s.proof(rep)
	return rep
}

func (s *stage) start(task rein.Task) *rein.Run {
	s.t.Helper()
	r, err := rein.Start(context.Background(), task, &s.opts)
	if err != nil {
		s.t.Fatalf("rein.Start: %v", err)
	}
	s.t.Cleanup(func() { r.Kill(context.Background()) })
	return r
}

func (s *stage) wait(r *rein.Run) *rein.Report {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rep, err := r.Wait(ctx)
	if err != nil {
		s.t.Fatalf("Wait: %v", err)
	}
	s.proof(rep)
	return rep
}

// proof checks what every report promises: the bytes are there and hash to
// what is said, what is on disk is what was returned, and nobody is left.
func (s *stage) proof(rep *rein.Report) {
	s.t.Helper()
	run, err := s.store.Get(rep.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	var disk rein.Report
	if _, err := run.ReadState(&disk); err != nil {
		s.t.Fatal(err)
	}
	if disk.Schema != rein.ReportSchema || disk.End != rep.End || disk.OK != rep.OK {
		s.t.Errorf("on disk: %s %+v ok %v; returned: %+v ok %v", disk.Schema, disk.End, disk.OK, rep.End, rep.OK)
	}
	n, sum := hashFile(s.t, rep.Transcript.Path)
	if n != rep.Transcript.Bytes || sum != rep.Transcript.SHA256 {
		s.t.Errorf("transcript has %d bytes, sha %s; the report says %d, %s", n, sum, rep.Transcript.Bytes, rep.Transcript.SHA256)
	}
	for _, p := range s.alive() {
		s.t.Errorf("left running: pid %d (%s)", p.PID, p.Name)
	}
}

// alive are the processes of the scripted agents that are neither dead nor
// zombies. The agents write down every process they start.
func (s *stage) alive() []proctree.Proc {
	s.t.Helper()
	procs, err := fakeagent.Procs(s.pids)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	var out []proctree.Proc
	for _, one := range procs {
		if p, err := proctree.Read(one.PID); err == nil && !p.Dead() {
			out = append(out, p)
		}
	}
	return out
}

// has says whether the report has a finding of the kind.
func has(rep *rein.Report, kind string) bool {
	for _, f := range rep.Findings {
		if f.Kind == kind {
			return true
		}
	}
	return false
}

func kinds(rep *rein.Report) string {
	var k []string
	for _, f := range rep.Findings {
		k = append(k, f.Kind)
	}
	return strings.Join(k, " ")
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
