package rein_test

import (
	"path/filepath"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/internal/fakeagent"
)

// What happens in the working tree of a run that is over counts against the one
// that still works: it cannot hide behind the other's name.
func TestARunThatIsOverHidesNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	git(t, s.dir, "init", "-q", "-b", "main")
	git(t, s.dir, "commit", "-q", "--allow-empty", "-m", "one")
	at := func(name string) string {
		dir := filepath.Join(t.TempDir(), name)
		git(t, s.dir, "worktree", "add", "-q", "-b", name, dir)
		return dir
	}
	one, two, three := at("one"), at("two"), at("three")
	task := s.task(fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "hang"})
	task.Dir = one
	r := s.start(task)

	work := []fakeagent.Step{{Do: "commit", Path: "work.txt", Sly: true}, {Do: "result"}}
	var over []string
	for _, dir := range []string{two, three} {
		task = s.task(work...)
		task.Dir = dir
		over = append(over, s.do(task).ID)
	}
	git(t, two, "commit", "-q", "--allow-empty", "-m", "after the end")
	r.Cancel(rein.CancelContext)
	rep := s.wait(r)
	if c := rep.Boundary.Changes; rep.Boundary.Clean || len(c) != 1 || c[0].Ref != "refs/heads/two" {
		t.Errorf("changes %+v", c)
	}
	if c := rep.Boundary.Others; len(c) != 1 || c[0].Ref != "refs/heads/three" || c[0].By != "run "+over[1] {
		t.Errorf("others %+v, the runs %q", c, over)
	}
}
