package boundary

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommitInADirectoryWithNewlines(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names cannot have a newline")
	}
	t.Parallel()
	w := newWorld(t)
	to := w.at("a\n\nb\n")
	if err := os.Rename(w.repo, to); err != nil {
		t.Fatal(err)
	}
	w.repo = to
	before := w.take(w.repo)
	w.commit("three")
	words, changes := w.check(before)
	if !slices.Equal(words, []string{"committed refs/heads/main"}) {
		t.Fatalf("%q", words)
	}
	w.restore(changes)
	if diff := diffOf(before, w.take(w.repo)); diff != "" {
		t.Error(diff)
	}
}

// Without its .git file a linked working tree is outside of its repository, or
// seems to be a directory of another one. The repository itself is intact.
func TestGitFileRemoved(t *testing.T) {
	const own = "worktree's .git file removed "
	for name, x := range map[string]struct {
		wt    string
		outer bool // a foreign repository is further up
		do    func(w *world, wt string)
		want  []string
	}{
		"beside":         {wt: "wt", want: []string{own + "/wt"}},
		"nested":         {wt: "re'po/wt", want: []string{own + "/re'po/wt"}},
		"inside another": {wt: "wt", outer: true, want: []string{own + "/wt"}},
		"after work": {wt: "re'po/wt", do: func(w *world, wt string) {
			w.in(wt, "checkout", "-q", "-b", "x")
			w.in(wt, "commit", "-q", "--allow-empty", "-m", "x")
			w.git("tag", "-d", "v1")
		}, want: []string{"branch switched HEAD", "branch created refs/heads/x", "tag deleted refs/tags/v1", own + "/re'po/wt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if x.outer {
				w.in(w.base, "init", "-q")
			}
			wt := w.at(x.wt)
			w.git("worktree", "add", "-q", "-b", "run", wt)
			before, user := w.take(wt), w.git("symbolic-ref", "HEAD")
			if x.do != nil {
				x.do(w, wt)
			}
			if err := os.Remove(filepath.Join(wt, ".git")); err != nil {
				t.Fatal(err)
			}
			words, changes := w.check(before)
			if diff := cmp.Diff(x.want, words); diff != "" {
				t.Fatalf("(-want +got): %s", diff)
			}
			w.restore(changes)
			if diff := diffOf(before, w.take(wt)); diff != "" {
				t.Errorf("restored (-before +now): %s", diff)
			}
			if now := w.git("symbolic-ref", "HEAD"); now != user {
				t.Errorf("the user's own checkout is on %s now, was on %s", now, user)
			}
		})
	}
}

func TestGitFileRemovedElsewhereAndForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wt := w.at("wt")
	w.git("worktree", "add", "-q", wt, "side")
	user, own := w.take(w.repo), w.take(wt)
	if err := os.Remove(filepath.Join(wt, ".git")); err != nil {
		t.Fatal(err)
	}
	words, changes := w.check(user)
	if !slices.Equal(words, []string{GitFileRemoved + " /wt"}) || changes[0].Restore == "" {
		t.Errorf("another working tree: %q %+v", words, changes)
	}
	w.git("worktree", "prune")
	for name, before := range map[string]Snapshot{"another": user, "own": own} {
		words, changes := w.check(before)
		if !slices.Equal(words, []string{GitFileRemoved + " /wt"}) || changes[0].Restore != "" {
			t.Errorf("%s, pruned: nothing brings it back: %q %+v", name, words, changes)
		}
	}
	if err := os.RemoveAll(filepath.Join(w.repo, ".git")); err != nil {
		t.Fatal(err)
	}
	if words, _ := w.check(own); !slices.Equal(words, []string{"repository deleted /re'po/.git"}) {
		t.Errorf("the repository is gone too: %q", words)
	}
}

// A restore command whose object was pruned would only fail.
func TestWhatWasPrunedHasNoRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git("checkout", "-q", "-b", "x", "side")
	w.commit("lost")
	w.write("one", "x")
	w.git("stash", "-q")
	w.git("tag", "x2")
	before := w.take(w.repo)
	w.git("checkout", "-q", "main")
	w.git("stash", "drop", "-q")
	w.git("branch", "-q", "-f", "x", "main")
	w.git("tag", "-d", "x2")
	w.git("branch", "-q", "-D", "side") // its commit is an ancestor of main
	w.git("reflog", "expire", "--expire=now", "--all")
	w.git("gc", "-q", "--prune=now")
	words, changes := w.check(before)
	want := []string{
		"branch switched HEAD",
		"branch deleted refs/heads/side",
		"branch moved" + Lost + " refs/heads/x",
		"tag deleted" + Lost + " refs/tags/x2",
		"stash changed" + Lost + " refs/stash",
		ReflogCut + " HEAD",
	}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Fatalf("(-want +got): %s", diff)
	}
	for _, c := range changes {
		if lost := strings.HasSuffix(c.What, Lost) || c.What == ReflogCut; lost != (c.Restore == "") {
			t.Errorf("%s: restore %q", c.What, c.Restore)
		}
	}
	w.restore(slices.DeleteFunc(changes, func(c Change) bool { return c.Restore == "" })) // none fails
	w.git("checkout", "-q", "main")
	w.git("branch", "-q", "-D", "x")
	if words, changes := w.check(before); words[0] != "branch switched"+Lost+" HEAD" || changes[0].Restore != "" {
		t.Errorf("the branch that HEAD was on cannot come back: %q", words)
	}
}
