package rein_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/fakeagent"
)

// inner is a step in which the agent starts a run by itself.
func (s *stage) inner(steps ...fakeagent.Step) fakeagent.Step {
	s.t.Helper()
	return s.innerIn(order{Dir: s.t.TempDir()}, steps...)
}

func (s *stage) innerIn(o order, steps ...fakeagent.Step) fakeagent.Step {
	s.t.Helper()
	env := map[string]string{}
	for k, v := range s.vars {
		env[k] = v
	}
	env[fakeagent.EnvScenario] = fakeagent.Scenario{Steps: steps}.JSON()
	o.Store, o.Keeper, o.Env = s.store.Dir, s.opts.Keeper, env
	b, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "order.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return fakeagent.Step{Do: "bash", Command: "'" + self(s.t) + "' supervise '" + file + "'"}
}

// What a run inside another one uses is in the report of the outer one and
// counts for its budget.
func TestNestedSpendCountsOutside(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	own := fakeagent.Step{Do: "text", Text: "x", Usage: &fakeagent.Usage{In: 100, Out: 10}}
	within := []fakeagent.Step{{Do: "text", Text: "y", Usage: &fakeagent.Usage{In: 1000, Out: 50}}, {Do: "result"}}
	rep := s.do(s.task(own, s.inner(within...), fakeagent.Step{Do: "result"}))
	if !rep.OK || len(rep.Nested) != 1 || rep.Nested[0].Usage.Counted() < 1050 || rep.Usage.Counted() >= 1000 || rep.Spent().Counted() != rep.Usage.Counted()+rep.Nested[0].Usage.Counted() {
		t.Errorf("ok %v, nested %+v, own %+v: %s", rep.OK, rep.Nested, rep.Usage, rep.Failure)
	}

	// The inner one ends it, although it alone is far below.
	task := s.task(own, s.inner(within[0], fakeagent.Step{Do: "hang"}), fakeagent.Step{Do: "hang"})
	task.Limits.Tokens = 1100
	if rep = s.do(task); rep.End != (rein.End{Kind: rein.OverBudget, Detail: "tokens"}) || len(rep.Nested) != 1 {
		t.Errorf("end %+v, nested %+v: %s", rep.End, rep.Nested, rep.Failure)
	}
}

// A run inside another one may not do more than that, whatever it was granted.
func TestNestedOnlyTightens(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.repository()
	sub := filepath.Join(s.dir, "sub") // a directory with a lease of its own
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	commit := fakeagent.Step{Do: "bash", Command: "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x 2>said || touch refused"}
	rep := s.do(s.task(s.innerIn(order{Dir: sub, Commits: true}, commit, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"}), fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"}))
	if said, _ := os.ReadFile(filepath.Join(sub, "said")); !rep.OK || !exists(sub, "refused") || !strings.Contains(string(said), "rein: refused") {
		t.Errorf("ok %v, boundary %+v, git said %s: %s", rep.OK, rep.Boundary, said, rep.Failure)
	}
}

// A run whose supervisor is killed keeps its books: what the gate was asked, and
// what was spent inside. Whoever takes the snapshot from before away has not made
// it clean.
func TestReapedBooks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.repository()
	s.opts.Keeper = []string{self(t), "keeper"}
	ready := filepath.Join(t.TempDir(), "ready")
	cmd, id := s.supervisor(fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "bash", Command: "git push origin main"},
		innocent,
		s.inner(fakeagent.Step{Do: "text", Text: "y", Usage: &fakeagent.Usage{In: 1000, Out: 50}}, fakeagent.Step{Do: "result"}),
		{Do: "bash", Command: "touch '" + ready + "'"},
		{Do: "hang"},
	}})
	for end := time.Now().Add(patience); !exists(filepath.Dir(ready), "ready"); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the agent did not come to its last step")
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	dir := s.store.RunDir(id)
	if err := os.Remove(filepath.Join(dir, "before.json")); err != nil {
		t.Fatal(err)
	}
	done, err := rein.Reap(t.Context(), s.store, agent.Registry{})
	if err != nil || len(done) != 1 || done[0].Report == nil {
		t.Fatalf("%+v, %v", done, err)
	}
	rep := done[0].Report
	if rep.Gate.Asked != 4 || rep.Gate.Refused != 1 || rep.Gate.Unknown || !has(rep, rein.FoundRefused) {
		t.Errorf("gate %+v, %s", rep.Gate, kinds(rep))
	}
	if len(rep.Nested) != 1 || rep.Nested[0].Usage.Counted() < 1050 {
		t.Errorf("nested %+v", rep.Nested)
	}
	if rep.Boundary.Checked || rep.Boundary.Clean || !has(rep, rein.FoundBoundary) || rep.ExitCode() != rein.ExitBoundary {
		t.Errorf("exit %d, boundary %+v, %s", rep.ExitCode(), rep.Boundary, kinds(rep))
	}
}
