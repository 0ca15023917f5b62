package boundary

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/internal/git"
)

// A run that removes the directory it was started in is still checked, from the
// repository that the directory was in.
func TestItsDirectoryIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git("worktree", "add", "-q", "-b", "run", w.at("wt"))
	sub := func(top string) Snapshot {
		dir := filepath.Join(top, "d")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return w.take(dir)
	}
	gone := func(dir string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}

	before := sub(w.repo)
	gone(before.Dir)
	if words, _ := w.check(before); len(words) != 0 {
		t.Errorf("nothing but its directory went: %q", words)
	}
	w.git("branch", "x")
	words, changes := w.check(before)
	if !slices.Equal(words, []string{"branch created refs/heads/x"}) {
		t.Fatal(words)
	}
	w.restore(changes)
	if words, _ := w.check(before); len(words) != 0 {
		t.Errorf("after the restore: %q", words)
	}

	before = sub(w.at("wt"))
	gone(before.Dir)
	if words, _ := w.check(before); len(words) != 0 {
		t.Errorf("in a linked working tree: %q", words)
	}
	gone(before.Top) // the repository is where it was
	words, _ = w.check(before)
	if diff := cmp.Diff([]string{"worktree removed /wt"}, words); diff != "" {
		t.Error(diff)
	}

	gone(w.repo) // and now it is not
	if _, err := Check(t.Context(), git.Local, before, quick()); err == nil {
		t.Error("the repository is gone too, and nothing is said")
	}
}
