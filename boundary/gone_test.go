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

// The objects are destroyed and everything that names them stays.
func TestCommitsAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git("update-ref", "refs/tags/file", w.git("rev-parse", "HEAD:one")) // no commit at all
	object := func(rev string) string {
		oid := w.git("rev-parse", rev)
		return filepath.Join(w.repo, ".git", "objects", oid[:2], oid[2:])
	}
	remove := func(name string) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}

	// That was so before the run.
	w.git("checkout", "-q", "--orphan", "x")
	w.commit("x")
	w.git("checkout", "-q", "main")
	remove(object("x"))
	before := w.take(w.repo)
	w.git("tag", "blob", w.git("rev-parse", "HEAD:two"))
	if words, _ := w.check(before); !slices.Equal(words, []string{"tag created refs/tags/blob"}) {
		t.Errorf("nothing is gone: %q", words)
	}

	before = w.take(w.repo)
	w.git("commit-graph", "write", "--reachable")
	gone := w.git("rev-parse", "side")
	remove(object("side"))
	words, changes := w.check(before)
	if !slices.Equal(words, []string{"commit gone refs/heads/side"}) || changes[0].Before != gone {
		t.Errorf("%q %+v", words, changes)
	}

	before = w.take(w.repo)
	all, err := filepath.Glob(filepath.Join(w.repo, ".git", "objects", "??"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, dir := range all {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if words, _ := w.check(before); !slices.Equal(words, []string{"commit gone HEAD"}) {
		t.Errorf("all of them: %q", words)
	}
}

// A shallow clone that a fetch made deeper is as good as before; one whose
// history was cut off nearer hides something.
func TestShallow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in(w.base, "clone", "-q", "--depth=1", "file://"+w.at("origin.git"), "shallow")
	s := &world{t, w.base, w.at("shallow")}
	before := s.see(s.repo)
	s.git("fetch", "-q", "--unshallow")
	if words, not, _ := s.judge(before, nil); len(words) > 0 || !slices.Equal(not, []string{"shallow boundary removed /shallow/.git/shallow"}) {
		t.Errorf("made deeper: %q, not counted %q", words, not)
	}
	before = s.see(s.repo)
	s.git("fetch", "-q", "--depth=1")
	if words, _, _ := s.judge(before, nil); !slices.Equal(words, []string{"shallow boundary added /shallow/.git/shallow"}) {
		t.Errorf("cut off: %q", words)
	}
}
