package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A run that is over answers for how it left its branch and its working tree,
// and for nothing that comes after.
func TestARunThatIsOverAnswersForWhatItLeft(t *testing.T) {
	work := func(w *world) { // of the other run
		w.in(w.at("wt2"), "commit", "-q", "--allow-empty", "-m", "its")
		w.in(w.at("wt2"), "config", "branch.two.description", "its")
		w.in(w.at("wt2"), "checkout", "-q", "-b", "three")
	}
	its := []string{"branch created refs/heads/three", "committed refs/heads/two", "branch switched HEAD of /wt2", "config key added branch.two.description"}
	for _, x := range []struct {
		name      string
		after     func(w *world) // the other run is over
		want, not []string
		deep      bool // not in the fast loop
	}{
		{"nothing", func(w *world) {}, nil, its, false},
		{
			"a commit", func(w *world) { w.in(w.at("wt2"), "commit", "-q", "--allow-empty", "-m", "x") },
			[]string{"branch created refs/heads/three"},
			its[1:], false,
		},
		{
			"a commit on the branch that it began on", func(w *world) { w.git("update-ref", "refs/heads/two", "side") },
			[]string{"reset refs/heads/two"},
			[]string{its[0], its[2], its[3]},
			true,
		},
		{
			"a setting", func(w *world) { w.git("config", "branch.two.description", "x") },
			[]string{"config key added branch.two.description"},
			its[:3], false,
		},
		{
			"a switch", func(w *world) { w.in(w.at("wt2"), "checkout", "-q", "--detach") },
			[]string{"branch switched HEAD of /wt2"},
			[]string{its[0], its[1], its[3]},
			true,
		},
		{
			"a new branch", func(w *world) { w.in(w.at("wt2"), "checkout", "-q", "-b", "four") },
			[]string{"branch created refs/heads/four", "branch switched HEAD of /wt2"},
			[]string{its[0], its[1], its[3]},
			true,
		},
		{
			"the working tree goes", func(w *world) { w.git("worktree", "remove", w.at("wt2")) },
			[]string{"worktree removed /wt2"},
			[]string{its[0], its[1], its[3]},
			false,
		},
	} {
		if x.deep && !deep {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.git("worktree", "add", "-q", "-b", "run", w.at("wt"))
			w.git("worktree", "add", "-q", "-b", "two", w.at("wt2"))
			before := w.see(w.at("wt"))
			work(w)
			over := w.see(w.at("wt2"))
			x.after(w)
			words, not, _ := w.judge(before, &Options{Peers: []Peer{{
				ID: "r2", Top: w.at("wt2"), Branch: "refs/heads/two", Left: over.Left("refs/heads/two"),
			}}})
			if diff := cmp.Diff([][]string{x.want, x.not}, [][]string{words, not}); diff != "" {
				t.Errorf("(-want +got): %s", diff)
			}
		})
	}
	if (&Snapshot{Why: NoRepo}).Left("refs/heads/x") != nil {
		t.Error("what was not read was left so")
	}
}
