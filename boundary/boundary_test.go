package boundary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rein-run/rein/internal/git"
)

// template holds the world that every test gets a copy of: making it takes ten
// times longer than copying it.
var template string

// TestMain keeps git away from the user's own configuration and from a
// repository that the temporary directory may be in.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "witness" { // the program that a hostile repository names
		if err := os.WriteFile(os.Args[2], nil, 0o600); err != nil {
			panic(err)
		}
		os.Exit(1)
	}
	os.Exit(func() int {
		base, err := os.MkdirTemp("", "boundary")
		if err == nil {
			base, err = filepath.EvalSymlinks(base)
		}
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(base)
		for k, v := range map[string]string{
			"HOME": base, "XDG_CONFIG_HOME": base, "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
			"GIT_CEILING_DIRECTORIES": os.TempDir(),
			"GIT_AUTHOR_NAME":         "A", "GIT_AUTHOR_EMAIL": "a@example.com",
			"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
		} {
			if err := os.Setenv(k, v); err != nil {
				panic(err)
			}
		}
		template = filepath.Join(base, "template")
		return m.Run()
	}())
}

// world is a directory with a repository "re'po" (two commits on main, a branch
// side, a tag v1) and a bare remote origin.
type world struct {
	*testing.T
	base, repo string
}

var makeTemplate = sync.OnceFunc(func() {
	run := func(dir string, args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("git %q: %v\n%s", args, err, out))
		}
	}
	repo := filepath.Join(template, "re'po")
	if err := os.MkdirAll(repo, 0o700); err != nil {
		panic(err)
	}
	run(repo, "init", "-q", "--template=", "-b", "main") // fewer files to copy
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(name+"\n"), 0o600); err != nil {
			panic(err)
		}
		run(repo, "add", name)
		run(repo, "commit", "-q", "-m", name)
	}
	run(repo, "branch", "side", "HEAD~1")
	run(repo, "tag", "v1", "side")
	run(template, "init", "-q", "--bare", "--template=", "-b", "main", "origin.git")
	run(repo, "remote", "add", "origin", "../origin.git")
	run(repo, "push", "-q", "origin", "main")
	run(repo, "remote", "set-head", "origin", "main")
})

func newWorld(t *testing.T) *world {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is needed: apt-get install git")
	}
	makeTemplate()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(base, os.DirFS(template)); err != nil {
		t.Fatal(err)
	}
	return &world{t, base, filepath.Join(base, "re'po")}
}

func (w *world) at(name string) string { return filepath.Join(w.base, name) }

func (w *world) in(dir string, args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) git(args ...string) string { w.Helper(); return w.in(w.repo, args...) }

func (w *world) write(name, data string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.repo, name), []byte(data), 0o600); err != nil {
		w.Fatal(err)
	}
}

func (w *world) commit(name string) {
	w.Helper()
	w.write(name, name+"\n")
	w.git("add", name)
	w.git("commit", "-q", "-m", name)
}

// notWritten: what stays in the process.
var notWritten = cmpopts.IgnoreUnexported(Snapshot{}, Remote{})

// quick are the options of a test that is not about remotes.
func quick() *Options { return &Options{Files: git.LocalFiles, Lstat: git.LocalLstat} }

// diffOf compares snapshots but for the reflog, which a restore adds to, and for
// files, which no restore touches.
func diffOf(a, b Snapshot) string {
	return cmp.Diff(a, b, notWritten, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Snapshot{}, "Reflog", "Main"))
}

func (w *world) take(dir string) Snapshot {
	w.Helper()
	s, err := Take(w.Context(), git.Local, dir, quick())
	if err != nil {
		w.Fatal(err)
	}
	// Through JSON, as when another process finishes the check.
	b, err := json.Marshal(s)
	if err != nil {
		w.Fatal(err)
	}
	var back Snapshot
	if err := json.Unmarshal(b, &back); err != nil {
		w.Fatal(err)
	}
	if diff := cmp.Diff(s, back, notWritten, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("a snapshot does not survive JSON: %s", diff)
	}
	return back
}

// check gives what changed since before, as "what ref".
func (w *world) check(before Snapshot) ([]string, []Change) {
	w.Helper()
	res, err := Check(w.Context(), git.Local, before, quick())
	if err != nil {
		w.Fatal(err)
	}
	changes := res.Changes
	var words []string
	for _, c := range changes {
		words = append(words, c.What+" "+strings.ReplaceAll(c.Ref, w.base, ""))
	}
	return words, changes
}

// restore runs the restore commands through a shell, as a person pastes them.
func (w *world) restore(changes []Change) {
	w.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		w.Skip("no POSIX shell to paste into")
	}
	for _, c := range changes {
		cmd := exec.Command(sh, "-c", c.Restore)
		cmd.Dir = w.base
		if out, err := cmd.CombinedOutput(); err != nil {
			w.Errorf("%s %s: restore %q: %v\n%s", c.What, c.Ref, c.Restore, err, out)
		}
	}
}

// Every change has its word, and its restore command brings the snapshot back.
func TestChangesAndTheirRestore(t *testing.T) {
	const evil = "refs/heads/a$(touch${IFS}pwned)`touch${IFS}pwned`;'\"&|"
	for _, x := range []struct {
		name    string
		prepare func(w *world)
		do      func(w *world)
		want    []string
		deep    bool // not in the fast loop
	}{
		{name: "nothing", deep: true, do: func(w *world) { w.write("f", "dirty") }},
		{name: "commit", do: func(w *world) { w.commit("three") }, want: []string{"committed refs/heads/main"}},
		{name: "amend", do: func(w *world) { w.git("commit", "-q", "--amend", "-m", "x") }, want: []string{"rewritten refs/heads/main"}},
		{name: "reset", do: func(w *world) { w.git("reset", "-q", "--hard", "HEAD~1") }, want: []string{"reset refs/heads/main"}},
		{name: "commit without the porcelain", deep: true, do: func(w *world) {
			oid := w.git("commit-tree", "-p", "HEAD", "-m", "x", "HEAD^{tree}")
			w.git("update-ref", "refs/heads/main", oid)
		}, want: []string{"committed refs/heads/main"}},
		{name: "switch", do: func(w *world) { w.git("checkout", "-q", "side") }, want: []string{"branch switched HEAD"}},
		{
			name: "switch to a new one", deep: true, do: func(w *world) { w.git("checkout", "-q", "-b", "x") },
			want: []string{"branch switched HEAD", "branch created refs/heads/x"},
		},
		{name: "detach", deep: true, do: func(w *world) { w.git("checkout", "-q", "--detach") }, want: []string{"branch switched HEAD"}},
		{
			name: "attach", deep: true, prepare: func(w *world) { w.git("checkout", "-q", "--detach", "side") },
			do: func(w *world) { w.git("checkout", "-q", "main") }, want: []string{"branch switched HEAD"},
		},
		{
			name: "detached commit", prepare: func(w *world) { w.git("checkout", "-q", "--detach") },
			do: func(w *world) { w.commit("three") }, want: []string{"HEAD moved HEAD"},
		},
		{name: "orphan", deep: true, do: func(w *world) { w.git("checkout", "-q", "--orphan", "x") }, want: []string{"branch switched HEAD"}},
		{name: "create", deep: true, do: func(w *world) { w.git("branch", "x") }, want: []string{"branch created refs/heads/x"}},
		{name: "create with a hostile name", do: func(w *world) { w.git("update-ref", evil, "HEAD") }, want: []string{"branch created " + evil}},
		{name: "delete", do: func(w *world) { w.git("branch", "-q", "-D", "side") }, want: []string{"branch deleted refs/heads/side"}},
		{
			name: "delete a packed one", deep: true, prepare: func(w *world) { w.git("pack-refs", "--all") },
			do: func(w *world) { w.git("branch", "-q", "-D", "side") }, want: []string{"branch deleted refs/heads/side"},
		},
		{name: "pack", deep: true, do: func(w *world) { w.git("pack-refs", "--all") }},
		{name: "move", deep: true, do: func(w *world) { w.git("branch", "-q", "-f", "side", "main") }, want: []string{"committed refs/heads/side"}},
		{
			name: "rename", do: func(w *world) { w.git("branch", "-m", "main", "x") },
			want: []string{"branch switched HEAD", "branch deleted refs/heads/main", "branch created refs/heads/x"},
		},
		{name: "tag", deep: true, do: func(w *world) { w.git("tag", "-a", "-m", "x", "v2") }, want: []string{"tag created refs/tags/v2"}},
		{name: "tag moved", deep: true, do: func(w *world) { w.git("tag", "-f", "v1", "main") }, want: []string{"tag moved refs/tags/v1"}},
		{name: "tag deleted", do: func(w *world) { w.git("tag", "-d", "v1") }, want: []string{"tag deleted refs/tags/v1"}},
		{
			name: "push", deep: true, prepare: func(w *world) { w.commit("three") },
			do: func(w *world) { w.git("push", "-q", "origin", "main") }, want: []string{"remote-tracking ref moved refs/remotes/origin/main"},
		},
		{
			name: "push of a new branch", deep: true, do: func(w *world) { w.git("push", "-q", "origin", "side") },
			want: []string{"remote-tracking ref created refs/remotes/origin/side"},
		},
		{
			name: "remote head", prepare: func(w *world) { w.git("push", "-q", "origin", "side") },
			do:   func(w *world) { w.git("remote", "set-head", "origin", "side") },
			want: []string{"remote-tracking ref moved refs/remotes/origin/HEAD"},
		},
		{
			name: "remote head deleted", deep: true, do: func(w *world) { w.git("remote", "set-head", "origin", "-d") },
			want: []string{"remote-tracking ref deleted refs/remotes/origin/HEAD"},
		},
		{name: "notes", deep: true, do: func(w *world) { w.git("notes", "add", "-m", "n") }, want: []string{"notes created refs/notes/commits"}},
		{name: "any other", do: func(w *world) { w.git("update-ref", "refs/x/y", "HEAD") }, want: []string{"ref created refs/x/y"}},
		{name: "stash", do: func(w *world) { w.write("one", "x"); w.git("stash", "-q") }, want: []string{"stash changed refs/stash"}},
		{
			name: "stash dropped", deep: true, prepare: func(w *world) { w.write("one", "x"); w.git("stash", "-q") },
			do: func(w *world) { w.git("stash", "drop", "-q") }, want: []string{"stash changed refs/stash"},
		},
		{name: "first commit", prepare: func(w *world) {
			w.repo = w.at("empty")
			w.in(w.base, "init", "-q", "-b", "main", w.repo)
		}, do: func(w *world) { w.commit("one") }, want: []string{"committed refs/heads/main"}},
		{name: "worktree added", deep: true, do: func(w *world) { w.git("worktree", "add", "-q", "--detach", w.at("wt")) }, want: []string{"worktree added /wt"}},
		{
			name: "worktree removed", prepare: func(w *world) { w.git("worktree", "add", "-q", w.at("wt"), "side") },
			do: func(w *world) { w.git("worktree", "remove", w.at("wt")) }, want: []string{"worktree removed /wt"},
		},
	} {
		if x.deep && !deep {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if x.prepare != nil {
				x.prepare(w)
			}
			before := w.take(w.repo)
			x.do(w)
			words, changes := w.check(before)
			if diff := cmp.Diff(x.want, words); diff != "" {
				t.Fatalf("changes (-want +got): %s", diff)
			}
			w.restore(changes)
			if diff := diffOf(before, w.take(w.repo)); diff != "" {
				t.Errorf("restored (-before +now): %s", diff)
			}
			if _, err := os.Stat(w.at("pwned")); err == nil {
				t.Error("the name of a branch was run by the shell")
			}
		})
	}
}

// What was dropped from below the top of the stash moves no reference.
func TestStashBelowTheTop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []string{"a", "b", "c"} {
		w.write("one", s)
		w.git("stash", "-q")
	}
	before := w.take(w.repo)
	w.git("stash", "drop", "-q", "stash@{1}")
	w.write("one", "d")
	w.git("stash", "-q")
	words, changes := w.check(before)
	if !slices.Equal(words, []string{"stash changed refs/stash"}) {
		t.Fatal(words)
	}
	w.restore(changes)
	after := w.take(w.repo)
	slices.Sort(before.Stash)
	slices.Sort(after.Stash) // the order is git's to choose
	if !slices.Equal(before.Stash, after.Stash) {
		t.Errorf("restored %v, had %v", after.Stash, before.Stash)
	}
}

// An agent in a linked worktree that touches the user's own checkout.
func TestFromALinkedWorktree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wt := w.at("wt")
	w.git("worktree", "add", "-q", "-b", "run", wt)
	before := w.take(wt)
	if before.Head.Ref != "refs/heads/run" || before.Top != wt {
		t.Fatalf("%+v", before)
	}
	w.git("checkout", "-q", "side") // in the main checkout
	w.commit("three")
	words, changes := w.check(before)
	want := []string{"committed refs/heads/side", "branch switched HEAD of " + strings.TrimPrefix(w.repo, w.base)}
	if !slices.Equal(words, want) {
		t.Fatalf("got %q, want %q", words, want)
	}
	w.restore(changes)
	if diff := diffOf(before, w.take(wt)); diff != "" {
		t.Error(diff)
	}
}

func TestBare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bare := w.at("origin.git")
	before := w.take(bare)
	if !before.Checked || len(before.Refs) != 1 {
		t.Fatalf("%+v", before)
	}
	w.git("push", "-q", "origin", "side")
	words, changes := w.check(before)
	if !slices.Equal(words, []string{"branch created refs/heads/side"}) {
		t.Fatal(words)
	}
	w.restore(changes)
	if diff := diffOf(before, w.take(bare)); diff != "" {
		t.Error(diff)
	}
}

func TestWholeRepositories(t *testing.T) {
	w := newWorld(t)
	plain := w.at("plain")
	if err := os.Mkdir(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	none := w.take(plain)
	if none.Checked || none.Why != NoRepo {
		t.Fatalf("%+v", none)
	}
	if words, _ := w.check(none); words != nil {
		t.Errorf("nothing before, nothing after: %v", words)
	}
	w.in(plain, "init", "-q")
	if words, _ := w.check(none); !slices.Equal(words, []string{"repository created /plain/.git"}) {
		t.Errorf("created: %v", words)
	}

	before := w.take(w.repo)
	if err := os.RemoveAll(filepath.Join(w.repo, ".git")); err != nil {
		t.Fatal(err)
	}
	if words, _ := w.check(before); !slices.Equal(words, []string{"repository deleted /re'po/.git"}) {
		t.Errorf("deleted: %v", words)
	}
	w.git("init", "-q", "-b", "main")
	w.commit("another")
	if words, _ := w.check(before); !slices.Equal(words, []string{"repository replaced /re'po/.git"}) {
		t.Errorf("replaced: %v", words)
	}
	if err := os.RemoveAll(filepath.Join(w.repo, ".git")); err != nil {
		t.Fatal(err)
	}
	w.in(w.base, "init", "-q")
	if words, _ := w.check(before); !slices.Equal(words, []string{"repository replaced /re'po/.git"}) {
		t.Errorf("a repository further up: %v", words)
	}

	t.Setenv("PATH", plain)
	if s := w.take(w.repo); s.Checked || s.Why != NoGit {
		t.Errorf("no git: %+v", s)
	}
	if res, err := Check(t.Context(), git.Local, before, quick()); !errors.Is(err, ErrBlind) || res.Changes != nil {
		t.Errorf("git went away, and the check says %v, %v", res.Changes, err)
	}
	if c := Compare(before, Snapshot{Why: NoGit}); c != nil {
		t.Errorf("git that went away says nothing about the repository: %v", c)
	}
}

func TestFailureIsNoCleanSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.take(w.repo)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Take(ctx, git.Local, w.repo, nil); err == nil || s.Checked {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Check(ctx, git.Local, before, nil); err == nil {
		t.Error("a check that could not look found nothing wrong")
	}
	for _, n := range []string{"rev-parse", "for-each-ref", "worktree", "config"} { // whichever of the commands fails
		run := git.Runner(func(ctx context.Context, dir string, args ...string) ([]byte, error) {
			if slices.Contains(args, n) {
				return nil, &git.ExitError{Code: 128, Stderr: "fatal: broken"}
			}
			return git.Local(ctx, dir, args...)
		})
		if s, err := Take(t.Context(), run, w.repo, quick()); err == nil || s.Checked || s.Refs != nil {
			t.Errorf("%s failed: %+v, %v", n, s, err)
		}
	}
}
