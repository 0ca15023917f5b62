package boundary

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/internal/git"
)

// Who moved what. want counts against the run, not does not.
func TestWhoMovedIt(t *testing.T) {
	wt := func(w *world) string { return w.at("wt") }
	inTree := func(w *world, args ...string) string { return w.in(wt(w), args...) }
	commit := func(w *world) { inTree(w, "commit", "-q", "--allow-empty", "-m", "x") }
	push := func(w *world) { // a colleague's
		c := w.clone()
		c.commit("theirs")
		c.git("push", "-q", "origin", "HEAD:main", "HEAD:refs/heads/theirs")
	}
	commits := &Options{Grants: Grants{Commits: true}}
	others := &Options{Grants: Grants{OthersWorkHere: true}}
	peer := func(w *world) *Options {
		return &Options{Peers: []Peer{{ID: "r2", Top: w.at("wt2"), Branch: "refs/heads/two"}}}
	}
	for _, x := range []struct {
		name      string
		prepare   func(w *world)
		do        func(w *world)
		o         *Options
		peer      bool
		want, not []string
		deep      bool // not in the fast loop
	}{
		{name: "a granted commit", deep: true, do: commit, o: commits, not: []string{"committed refs/heads/run"}},
		{name: "an amended one", deep: true, do: func(w *world) { inTree(w, "commit", "-q", "--amend", "-m", "x") }, o: commits, want: []string{"rewritten refs/heads/run"}},
		{name: "a reset", deep: true, do: func(w *world) { inTree(w, "reset", "-q", "--hard", "HEAD~1") }, o: commits, want: []string{"reset refs/heads/run"}},
		{
			name: "a commit on another branch", deep: true, do: func(w *world) { inTree(w, "checkout", "-q", "side"); commit(w) }, o: commits,
			want: []string{"branch switched HEAD", "committed refs/heads/side"},
		},
		{
			name: "a granted commit that is pushed", do: func(w *world) { commit(w); inTree(w, "push", "-q", "origin", "run") }, o: commits,
			want: []string{"remote-tracking ref created refs/remotes/origin/run", "remote branch created origin refs/heads/run"},
			not:  []string{"committed refs/heads/run"},
		},

		{name: "a colleague pushes", deep: true, do: push, not: []string{"remote branch moved origin refs/heads/main", "remote branch created origin refs/heads/theirs"}},
		{
			name: "a colleague pushes and somebody fetches", deep: true, do: func(w *world) { push(w); w.git("fetch", "-q") },
			not: []string{
				"remote-tracking ref moved refs/remotes/origin/main", "remote-tracking ref created refs/remotes/origin/theirs",
				"remote branch moved origin refs/heads/main", "remote branch created origin refs/heads/theirs",
			},
		},
		{
			name: "a colleague had pushed and somebody fetches", deep: true, prepare: push, do: func(w *world) { w.git("fetch", "-q") },
			not: []string{"remote-tracking ref moved refs/remotes/origin/main", "remote-tracking ref created refs/remotes/origin/theirs"},
		},
		{
			name: "a branch that is known is pushed by a colleague, and somebody fetches with prune", deep: true, prepare: func(w *world) {
				w.git("push", "-q", "origin", "side")
				w.in(w.at("origin.git"), "branch", "-D", "side")
			}, do: func(w *world) { w.git("fetch", "-q", "--prune") },
			not: []string{"remote-tracking ref deleted refs/remotes/origin/side"},
		},
		{
			name: "a colleague's tag is fetched", do: func(w *world) {
				c := w.clone()
				c.commit("theirs")
				c.git("tag", "-a", "-m", "x", "v9")
				c.git("push", "-q", "origin", "HEAD:main", "v9")
				w.git("fetch", "-q")
			},
			not: []string{
				"remote-tracking ref moved refs/remotes/origin/main", "tag created refs/tags/v9",
				"remote branch moved origin refs/heads/main", "remote tag created origin refs/tags/v9",
			},
		},
		{
			name: "others pull", deep: true, do: func(w *world) { push(w); w.git("pull", "-q", "--ff-only", "origin", "main") }, o: others,
			not: []string{
				"committed refs/heads/main", "remote-tracking ref moved refs/remotes/origin/main",
				"remote branch moved origin refs/heads/main", "remote branch created origin refs/heads/theirs",
			},
		},

		{
			name: "pushed from a detached HEAD that went away", do: func(w *world) {
				inTree(w, "checkout", "-q", "--detach")
				commit(w)
				inTree(w, "push", "-q", "origin", "HEAD:refs/heads/evil")
				inTree(w, "checkout", "-q", "run")
			},
			want: []string{"remote-tracking ref created refs/remotes/origin/evil", Undone + " HEAD", "remote branch created origin refs/heads/evil"},
		},
		{
			name: "sent without a trace, and fetched", deep: true, do: func(w *world) {
				inTree(w, "checkout", "-q", "--detach")
				commit(w)
				inTree(w, "send-pack", w.at("origin.git"), "HEAD:refs/heads/evil")
				inTree(w, "checkout", "-q", "run")
				inTree(w, "fetch", "-q")
			},
			want: []string{"remote-tracking ref created refs/remotes/origin/evil", Undone + " HEAD", "remote branch created origin refs/heads/evil"},
		},
		{
			name: "pushed by plumbing, without a reflog", deep: true, do: func(w *world) {
				id := inTree(w, "commit-tree", "-m", "x", "HEAD^{tree}")
				inTree(w, "push", "-q", "origin", id+":refs/heads/evil")
			},
			want: []string{"remote-tracking ref created refs/remotes/origin/evil", "remote branch created origin refs/heads/evil"},
		},
		{
			name: "sent without a trace", do: func(w *world) {
				id := inTree(w, "commit-tree", "-m", "x", "HEAD^{tree}")
				inTree(w, "send-pack", w.at("origin.git"), id+":refs/heads/evil")
			},
			want: []string{"remote branch created origin refs/heads/evil"},
		},
		{
			name: "the remote was pointed elsewhere, and pushed to before", deep: true, do: func(w *world) {
				inTree(w, "push", "-q", "origin", "side:refs/heads/evil")
				w.git("update-ref", "-d", "refs/remotes/origin/evil")
				w.in(w.base, "clone", "-q", "--bare", "re'po", "decoy.git")
				w.git("config", "remote.origin.url", w.at("decoy.git"))
			},
			want: []string{"config key changed remote.origin.url", "remote branch created origin refs/heads/evil"},
		},
		{
			name: "deleted there", deep: true, prepare: func(w *world) { w.in(w.at("origin.git"), "config", "receive.denyDeleteCurrent", "ignore") }, do: func(w *world) { inTree(w, "push", "-q", "origin", ":main") },
			want: []string{"remote-tracking ref deleted refs/remotes/origin/HEAD", "remote-tracking ref deleted refs/remotes/origin/main", "remote branch deleted origin refs/heads/main"},
		},

		{
			name: "another run commits and switches", peer: true, do: func(w *world) {
				w.in(w.at("wt2"), "commit", "-q", "--allow-empty", "-m", "x")
				w.in(w.at("wt2"), "checkout", "-q", "-b", "three")
			},
			not: []string{"branch created refs/heads/three", "committed refs/heads/two", "branch switched HEAD of /wt2"},
		},
		{
			name: "this run commits on another run's branch beside", deep: true, do: func(w *world) {
				w.in(w.at("wt2"), "commit", "-q", "--allow-empty", "-m", "x")
			},
			want: []string{"committed refs/heads/two"},
		},
		{
			name: "another run's working tree comes", deep: true, peer: true, prepare: func(w *world) {
				w.git("worktree", "remove", w.at("wt2"))
				w.git("branch", "-D", "two")
			}, do: func(w *world) { w.git("worktree", "add", "-q", "-b", "two", w.at("wt2")) },
			not: []string{"branch created refs/heads/two", "worktree added /wt2"},
		},
		{
			name: "what another run cannot be told from counts", deep: true, peer: true, do: func(w *world) { w.git("tag", "x"); commit(w) },
			want: []string{"committed refs/heads/run", "tag created refs/tags/x"},
		},

		{name: "others work in the main checkout", do: func(w *world) {
			w.write("one", "theirs")
			w.git("stash", "-q")
			w.commit("theirs")
			w.git("checkout", "-q", "-b", "topic")
			w.write("two", "theirs")
		}, o: others, not: []string{
			"committed refs/heads/main", "branch created refs/heads/topic", "stash changed refs/stash",
			"branch switched HEAD of /re'po", "wrote into the main checkout /re'po",
		}},
		{name: "the same, and nobody said so", deep: true, do: func(w *world) {
			w.commit("theirs")
			w.write("two", "theirs")
		}, want: []string{"committed refs/heads/main", "wrote into the main checkout /re'po"}},
		{
			name: "others work, and this run commits, pushes and sets a hook", do: func(w *world) {
				commit(w)
				inTree(w, "push", "-q", "origin", "run")
				w.hook("pre-commit", "x")
			}, o: others,
			want: []string{
				"committed refs/heads/run", "remote-tracking ref created refs/remotes/origin/run",
				"hook added /re'po/.git/hooks/pre-commit", "remote branch created origin refs/heads/run",
			},
		},
		{
			name: "others work, and this run pushes a branch of its own making", deep: true, do: func(w *world) {
				inTree(w, "branch", "evil", "side")
				inTree(w, "push", "-q", "origin", "evil")
			}, o: others,
			want: []string{"remote-tracking ref created refs/remotes/origin/evil", "remote branch created origin refs/heads/evil"},
			not:  []string{"branch created refs/heads/evil"},
		},
		{
			name: "a build makes its submodules", deep: true, do: func(w *world) { inTree(w, "config", "submodule.x.url", "../x") },
			not: []string{"config key added submodule.x.url"},
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
			if x.prepare != nil {
				x.prepare(w)
			}
			before := w.see(w.at("wt"))
			x.do(w)
			o := x.o
			if x.peer {
				o = peer(w)
			}
			words, not, res := w.judge(before, o)
			if diff := cmp.Diff([][]string{x.want, x.not}, [][]string{words, not}); diff != "" {
				t.Errorf("(-want +got): %s", diff)
			}
			for _, c := range res.Others {
				if c.By == "" {
					t.Errorf("whose is %q?", c.What)
				}
			}
		})
	}
}

// A remote that cannot be reached, and one that never answers, hold nothing up
// and fail nothing.
func TestUnreachableRemotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() }) // and never a word
		}
	}()
	w.git("config", "remote.dumb.url", "git://"+l.Addr().String()+"/x")
	w.git("config", "remote.gone.url", w.at("nowhere.git"))
	w.git("config", "remote.odd.url", "-u=touch x")
	o := Local()
	o.RemoteTime = 2 * time.Second
	begin := time.Now()
	before, err := Take(t.Context(), git.Local, w.repo, o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Check(t.Context(), git.Local, before, o)
	if err != nil || res.Changes != nil {
		t.Errorf("%v %+v", err, res.Changes)
	}
	if took := time.Since(begin); took > 60*time.Second {
		t.Errorf("took %v", took)
	}
	for _, r := range res.Remotes {
		if r.Checked || !strings.HasPrefix(r.Why, "before the run: ") || r.Name == "dumb" && !strings.Contains(r.Why, "no answer in time") {
			if r.Name != "origin" {
				t.Errorf("%+v", r)
			}
		}
	}
	if len(res.Remotes) != 4 {
		t.Errorf("%+v", res.Remotes)
	}

	// It was there before and is not now: said, and no failure.
	w.git("config", "--remove-section", "remote.dumb")
	before = w.see(w.repo)
	if err := os.Rename(w.at("origin.git"), w.at("moved.git")); err != nil {
		t.Fatal(err)
	}
	words, _, res := w.judge(before, nil)
	i := slices.IndexFunc(res.Remotes, func(r RemoteState) bool { return r.Name == "origin" })
	if words != nil || i < 0 || res.Remotes[i].Checked || !strings.HasPrefix(res.Remotes[i].Why, "after the run: ") {
		t.Errorf("%q %+v", words, res.Remotes)
	}
}

// The shell of git tells the same as the files themselves.
func TestFilesThroughTheShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hook("pre-commit", "exit 0")
	os.Chmod(w.hook("notes $x", "x"), 0o600)
	dir := filepath.Join(w.repo, ".git", "hooks")
	for name, to := range map[string]string{"link": "pre-commit", "dangling": "nowhere", "away": w.base} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			if runtime.GOOS == "windows" {
				t.Skip("links need a privilege on Windows: ", err)
			}
			t.Fatal(err)
		}
	}
	tails := []string{filepath.Join(w.repo, ".git", "logs", "HEAD"), filepath.Join(dir, "link"), w.at("nowhere"), w.base}
	here, ends, err := git.LocalFiles(t.Context(), []string{dir, w.at("none"), filepath.Join(dir, "pre-commit")}, tails)
	if err != nil || len(here) == 0 {
		t.Fatal(here, err)
	}
	for i := range here {
		here[i].Size = 0 // the shell does not tell
		if here[i].Link && !here[i].Regular {
			here[i].Exec = false // a folder may be entered: it is no hook
		}
	}
	there, ends2, err := git.ShellFiles(git.Local, w.repo)(t.Context(), []string{dir, w.at("none"), filepath.Join(dir, "pre-commit")}, tails)
	for i := range there {
		if there[i].Link && !there[i].Regular {
			there[i].Exec = false
		}
	}
	if diff := cmp.Diff(here, there); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if len(ends[0]) == 0 || ends[1] != nil || ends[2] != nil || ends[3] != nil {
		t.Errorf("%q", ends)
	}
	for i := range ends {
		if string(ends[i]) != string(ends2[i]) {
			t.Errorf("%s: %q and %q", tails[i], ends[i], ends2[i])
		}
	}

	before, err := Take(t.Context(), git.Local, w.repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.hook("pre-commit", "exit 0 # changed")
	w.commit("three")
	w.git("reset", "-q", "--hard", "HEAD~1")
	res, err := Check(t.Context(), git.Local, before, nil)
	var words []string
	for _, c := range res.Changes {
		words = append(words, c.What)
	}
	if err != nil || !slices.Equal(words, []string{HookChanged, HookChanged, Undone}) { // the link names it too
		t.Errorf("%v %q", err, words)
	}
}
