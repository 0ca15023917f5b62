package boundary

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/internal/git"
)

// see takes a snapshot with everything, through JSON.
func (w *world) see(dir string) Snapshot {
	w.Helper()
	s, err := Take(w.Context(), git.Local, dir, Local())
	if err != nil {
		w.Fatal(err)
	}
	b, err := json.Marshal(s)
	if err == nil {
		s = Snapshot{}
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// judge gives the words of what counts and of what does not.
func (w *world) judge(before Snapshot, o *Options) (words, not []string, res *Result) {
	w.Helper()
	all := Local()
	if o != nil {
		all.ID, all.Grants, all.Peers = o.ID, o.Grants, o.Peers
	}
	res, err := Check(w.Context(), git.Local, before, all)
	if err != nil {
		w.Fatal(err)
	}
	tell := func(cs []Change) (out []string) {
		for _, c := range cs {
			out = append(out, c.What+" "+strings.ReplaceAll(c.Ref, w.base, ""))
		}
		return out
	}
	return tell(res.Changes), append(tell(res.Allowed), tell(res.Others)...), res
}

// clone makes a colleague's clone of origin.
func (w *world) clone() *world {
	w.Helper()
	w.in(w.base, "clone", "-q", "origin.git", "colleague")
	return &world{w.T, w.base, w.at("colleague")}
}

func (w *world) hook(name, body string) string {
	w.Helper()
	p := filepath.Join(w.repo, ".git", "hooks", name)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		w.Fatal(err)
	}
	w.script(p, body)
	return p
}

// What no reference tells has its word too, and its restore command works.
func TestOtherWordsAndTheirRestore(t *testing.T) {
	for _, x := range []struct {
		name    string
		prepare func(w *world)
		do      func(w *world)
		want    []string
		deep    bool // not in the fast loop
	}{
		{
			name: "one of each", prepare: func(w *world) { w.hook("pre-commit", "exit 0"); w.hook("pre-push", "exit 0"); w.commit("three") },
			do: func(w *world) {
				w.git("push", "-q", "origin", "main", "v1")
				w.git("config", "--unset", "remote.origin.fetch")
				w.hook("post-checkout", "exit 0")
				os.Chmod(w.hook("pre-commit", "exit 0"), 0o600)
				os.Remove(w.hook("pre-push", "exit 0"))
			},
			want: []string{
				"remote-tracking ref moved refs/remotes/origin/main", ConfigRemoved + " remote.origin.fetch",
				HookChanged + " /re'po/.git/hooks/pre-commit", HookRemoved + " /re'po/.git/hooks/pre-push", HookAdded + " /re'po/.git/hooks/post-checkout",
				"remote branch moved origin refs/heads/main", "remote tag created origin refs/tags/v1",
			},
		},
		{name: "nothing", deep: true, do: func(w *world) { w.git("status") }},
		{name: "config added", deep: true, do: func(w *world) { w.git("config", "branch.x y.remote", "a'b c\nd") }, want: []string{ConfigAdded + " branch.x y.remote"}},
		{
			name: "config changed", prepare: func(w *world) {
				w.git("config", "core.hooksPath", "a")
				w.git("config", "--add", "core.hooksPath", "'b")
			},
			do: func(w *world) { w.git("config", "--replace-all", "core.hooksPath", "c") }, want: []string{ConfigChanged + " core.hookspath"},
		},
		{name: "config removed", deep: true, do: func(w *world) { w.git("config", "--unset", "remote.origin.fetch") }, want: []string{ConfigRemoved + " remote.origin.fetch"}},
		{name: "config by include", do: func(w *world) {
			w.in(w.base, "config", "--file", w.at("inc"), "alias.x", "y")
			w.git("config", "include.path", w.at("inc"))
		}, want: []string{ConfigAdded + " alias.x in /inc", ConfigAdded + " include.path"}},
		{
			name: "config of the working tree", deep: true, prepare: func(w *world) { w.git("config", "extensions.worktreeConfig", "true") },
			do: func(w *world) { w.git("config", "--worktree", "core.editor", "x") }, want: []string{ConfigAdded + " core.editor"},
		},
		{name: "hook added", deep: true, do: func(w *world) { w.hook("post-checkout", "x") }, want: []string{HookAdded + " /re'po/.git/hooks/post-checkout"}},
		{
			name: "hook changed", deep: true, prepare: func(w *world) { w.hook("pre-commit", "exit 0") },
			do: func(w *world) { w.hook("pre-commit", "exit 1") }, want: []string{HookChanged + " /re'po/.git/hooks/pre-commit"},
		},
		{
			name: "hook switched off", deep: true, prepare: func(w *world) { w.hook("pre-commit", "exit 0") },
			do: func(w *world) { os.Chmod(w.hook("pre-commit", "exit 0"), 0o600) }, want: []string{HookChanged + " /re'po/.git/hooks/pre-commit"},
		},
		{
			name: "hook removed", deep: true, prepare: func(w *world) { w.hook("pre-commit", "exit 0") },
			do: func(w *world) { os.Remove(w.hook("pre-commit", "exit 0")) }, want: []string{HookRemoved + " /re'po/.git/hooks/pre-commit"},
		},
		{
			name: "hook replaced by a link", prepare: func(w *world) { w.hook("pre-commit", "exit 0") },
			do: func(w *world) {
				p := w.hook("pre-commit", "exit 0")
				os.Rename(p, w.at("elsewhere"))
				os.Symlink(w.at("elsewhere"), p)
			}, want: []string{HookChanged + " /re'po/.git/hooks/pre-commit"},
		},
		{
			name: "hook in core.hooksPath", deep: true, prepare: func(w *world) { w.git("config", "core.hooksPath", "own") },
			do: func(w *world) {
				os.Mkdir(filepath.Join(w.repo, "own"), 0o700)
				w.script(filepath.Join(w.repo, "own", "pre-commit"), "x")
			}, want: []string{HookAdded + " /re'po/own/pre-commit"},
		},
		{
			name: "where objects and parents come from", prepare: func(w *world) {
				os.Mkdir(filepath.Join(w.repo, ".git/info"), 0o700)
				w.write(".git/info/grafts", w.git("rev-parse", "HEAD")+"\n")
			},
			do: func(w *world) {
				w.write(".git/objects/info/alternates", w.at("origin.git")+"/objects\n")
				w.write(".git/info/grafts", w.git("rev-parse", "HEAD~0")+" "+w.git("rev-parse", "side")+"\n")
				w.write(".git/shallow", w.git("rev-parse", "HEAD")+"\n")
			},
			want: []string{"grafts changed /re'po/.git/info/grafts", "alternates added /re'po/.git/objects/info/alternates", "shallow boundary added /re'po/.git/shallow"},
		},
		{
			name: "alternates removed", deep: true, prepare: func(w *world) {
				w.write(".git/objects/info/alternates", w.at("origin.git")+"/objects\n")
			},
			do: func(w *world) { os.Remove(filepath.Join(w.repo, ".git/objects/info/alternates")) }, want: []string{"alternates removed /re'po/.git/objects/info/alternates"},
		},
		{name: "push", deep: true, prepare: func(w *world) { w.commit("three") }, do: func(w *world) { w.git("push", "-q", "origin", "main") }, want: []string{
			"remote-tracking ref moved refs/remotes/origin/main", "remote branch moved origin refs/heads/main",
		}},
		{name: "push of a new branch and tag", deep: true, do: func(w *world) { w.git("push", "-q", "origin", "side", "v1") }, want: []string{
			"remote-tracking ref created refs/remotes/origin/side",
			"remote branch created origin refs/heads/side", "remote tag created origin refs/tags/v1",
		}},
		{name: "deleted there", deep: true, prepare: func(w *world) { w.git("push", "-q", "origin", "side") }, do: func(w *world) { w.git("push", "-q", "origin", ":side") }, want: []string{
			"remote-tracking ref deleted refs/remotes/origin/side", "remote branch deleted origin refs/heads/side",
		}},
		{
			name: "forced there by path, without a trace here", do: func(w *world) {
				w.git("send-pack", "--force", w.at("origin.git"), "side:refs/heads/main", "main:refs/heads/n")
			},
			want: []string{"remote branch moved origin refs/heads/main", "remote branch created origin refs/heads/n"},
		},
		{
			name: "pushed to the URL for pushing", deep: true, prepare: func(w *world) {
				w.in(w.base, "init", "-q", "--bare", "push.git")
				w.git("config", "remote.origin.pushurl", w.at("push.git"))
			},
			do: func(w *world) { w.git("send-pack", w.at("push.git"), "side") }, want: []string{"remote branch created origin refs/heads/side"},
		},
		{
			name: "submodule", prepare: func(w *world) {
				w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "-b", "main", w.at("origin.git"), "sub")
				w.git("commit", "-q", "-m", "sub")
			},
			do: func(w *world) {
				sub := filepath.Join(w.repo, "sub")
				w.in(sub, "commit", "-q", "--allow-empty", "-m", "x")
				w.in(sub, "checkout", "-q", "--detach")
			},
			want: []string{"submodule branch switched sub HEAD", "submodule branch moved sub refs/heads/main"},
		},
		{
			name: "repository inside", deep: true, prepare: func(w *world) {
				w.git("init", "-q", "-b", "main", "lib/in")
				w.in(filepath.Join(w.repo, "lib", "in"), "commit", "-q", "--allow-empty", "-m", "x")
			},
			do:   func(w *world) { w.in(filepath.Join(w.repo, "lib", "in"), "tag", "t") },
			want: []string{"nested repository tag created lib/in refs/tags/t"},
		},
		{name: "a project's tests make repositories", deep: true, do: func(w *world) {
			w.git("init", "-q", "tmp")
			w.in(filepath.Join(w.repo, "tmp"), "commit", "-q", "--allow-empty", "-m", "x")
		}},
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
			before := w.see(w.repo)
			x.do(w)
			words, not, res := w.judge(before, nil)
			if diff := cmp.Diff(x.want, words); diff != "" || not != nil {
				t.Fatalf("changes (-want +got): %s, not counted %q", diff, not)
			}
			for _, c := range res.Changes {
				if c.Restore == "" && !strings.Contains(c.Ref, " in /") {
					t.Errorf("%s %s has no restore command", c.What, c.Ref)
				}
			}
			w.restore(slices.DeleteFunc(res.Changes, func(c Change) bool { return c.Restore == "" }))
			if diff := diffOf(before, w.see(w.repo)); diff != "" && x.want != nil {
				t.Errorf("restored (-before +now): %s", diff)
			}
		})
	}
}

func TestWhatWasUndoneIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.see(w.repo)
	w.git("checkout", "-q", "side") // a look elsewhere, and what stash does, are no commit
	w.git("checkout", "-q", "main")
	w.git("reset", "-q", "--hard")
	if words, _, _ := w.judge(before, nil); words != nil {
		t.Errorf("looked around: %q", words)
	}
	w.commit("three")
	secret := w.git("rev-parse", "HEAD")
	w.git("reset", "-q", "--hard", "HEAD~1")
	words, _, res := w.judge(before, nil)
	if !slices.Equal(words, []string{Undone + " HEAD"}) || res.Changes[0].After != secret {
		t.Errorf("%q %+v", words, res.Changes)
	}
	if words, not, _ := w.judge(before, &Options{Grants: Grants{Commits: true}}); words != nil || len(not) != 1 {
		t.Errorf("granted: %q, %q", words, not)
	}
	w.git("reflog", "expire", "--expire=now", "--all")
	if words, _, _ := w.judge(before, nil); !slices.Equal(words, []string{ReflogCut + " HEAD"}) {
		t.Errorf("%q", words)
	}
}

// What is damaged inside hides nothing of the rest, and is no way to hide.
func TestBrokenInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"ok", "broken"} {
		w.git("init", "-q", name)
	}
	head := func(name string) string { return filepath.Join(w.repo, name, ".git", "HEAD") }
	if err := os.WriteFile(head("broken"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := w.see(w.repo)
	if len(before.Subs) != 1 || !before.SubsCut {
		t.Fatalf("%+v", before.Subs)
	}
	if err := os.WriteFile(head("ok"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.git("tag", "x")
	words, _, res := w.judge(before, nil)
	if !slices.Equal(words, []string{"tag created refs/tags/x", "nested repository " + Blind + " ok"}) || len(res.Unseen) != 1 {
		t.Errorf("%q %q", words, res.Unseen)
	}
	if os.Getuid() == 0 {
		return // nothing is closed to root
	}
	hooks := filepath.Join(w.repo, ".git", "hooks")
	if os.Mkdir(hooks, 0o700) != nil || os.Chmod(hooks, 0) != nil {
		t.Fatal(hooks)
	}
	before = w.see(w.repo)
	w.git("tag", "-d", "x")
	if words, _, res := w.judge(before, nil); len(words) != 1 || len(res.Unseen) != 2 {
		t.Errorf("%q %q", words, res.Unseen)
	}
	if err := os.Chmod(hooks, 0o700); err != nil {
		t.Fatal(err)
	}
}

// An agent that was given an absolute path works in the user's own checkout.
func TestWroteIntoTheMainCheckout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wt := filepath.Join(w.repo, "wt")
	w.git("worktree", "add", "-q", "-b", "run", wt)
	w.write("one", "dirty before\n")
	w.write("untracked", "before\n")
	before := w.see(wt)
	if err := os.WriteFile(filepath.Join(wt, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.git("worktree", "add", "-q", "--detach", filepath.Join(w.repo, "wt2")) // is told, and is no file
	if words, _, _ := w.judge(before, nil); !slices.Equal(words, []string{"worktree added /re'po/wt2"}) {
		t.Errorf("work in the own working tree: %q", words)
	}
	w.git("worktree", "remove", "wt2")
	for _, do := range []func(){
		func() { w.write("new", "x") },
		func() { w.write("one", "dirty again, and longer\n") },
		func() { w.write("untracked", "after and longer\n") },
		func() { w.write("two", "x") },
		func() { w.git("checkout", "-q", "--", "one") },
	} {
		before := w.see(wt)
		do()
		words, _, res := w.judge(before, nil)
		if !slices.Equal(words, []string{Wrote + " /re'po"}) || res.Changes[0].After == "" {
			t.Errorf("%q %+v", words, res.Changes)
		}
		for _, o := range []*Options{{Grants: Grants{OthersWorkHere: true}}, {Peers: []Peer{{ID: "r2", Top: w.repo}}}} {
			if words, not, _ := w.judge(before, o); words != nil || len(not) != 1 {
				t.Errorf("%+v: %q", o, words)
			}
		}
	}
	if !deep {
		return
	}
	before = w.see(wt)
	for i := range 10_001 {
		f, err := os.Create(filepath.Join(w.repo, "many"+strings.Repeat("x", i%100)+string(rune('a'+i/100%26))+string(rune('a'+i/2600))))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if words, _, _ := w.judge(before, nil); !slices.Equal(words, []string{WroteUnseen + " /re'po"}) {
		t.Errorf("hidden among many: %q", words)
	}
}

// What may be secret is compared and never written down.
func TestSecretsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	const canary = "hunter2hunter2"
	w := newWorld(t)
	w.git("config", "http.extraHeader", "Authorization: "+canary)
	w.git("config", "credential.helper", "!echo "+canary)
	w.git("config", "remote.web.url", "https://user:"+canary+"@127.0.0.1:1/x.git")
	w.git("config", "remote.tok.url", "https://"+canary+"@127.0.0.1:1/x.git")
	w.git("config", "remote.tok.pushurl", "https://"+canary+"@127.0.0.1:1/y.git")
	var argv []string
	var mu sync.Mutex
	o := Local()
	o.Remote = func(ctx context.Context, dir string, args ...string) ([]byte, error) {
		mu.Lock()
		argv = append(argv, args...)
		mu.Unlock()
		return git.LocalRemote(ctx, dir, args...)
	}
	before, err := Take(t.Context(), git.Local, w.repo, o)
	if err != nil {
		t.Fatal(err)
	}
	w.git("config", "http.extraHeader", "Authorization: "+canary+"2")
	w.git("config", "remote.web.url", "https://user:"+canary+"2@127.0.0.1:1/x.git")
	res, err := Check(t.Context(), git.Local, before, o)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, c := range res.Changes {
		words = append(words, c.What+" "+c.Ref)
	}
	if want := []string{ConfigChanged + " http.extraheader", ConfigChanged + " remote.web.url"}; !slices.Equal(words, want) {
		t.Errorf("%q", words)
	}
	said, err := json.Marshal([]any{before, res, argv})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(said), canary) {
		t.Errorf("the secret is told: %s", said)
	}
	for _, r := range res.Remotes {
		if r.Checked != (r.Name == "origin") || !r.Checked && r.Why == "" {
			t.Errorf("%+v", r)
		}
	}
}

// Git refuses a repository whose format it does not know. The agent that wrote
// that is not clean, and the way back is said.
func TestAConfigurationThatGitRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.see(w.repo)
	w.git("config", "core.repositoryFormatVersion", "1")
	w.git("config", "extensions.nonsense", "x")
	res, err := Check(t.Context(), git.Local, before, Local())
	if !errors.Is(err, ErrBlind) || len(res.Changes) != 2 {
		t.Fatalf("%v %+v", err, res.Changes)
	}
	w.restore(res.Changes)
	if words, _, _ := w.judge(before, nil); words != nil {
		t.Errorf("restored: %q", words)
	}
}

// What a restore command needs outlives git gc, and a plain push leaves it here.
func TestKeptFromGC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git("checkout", "-q", "-b", "x")
	w.commit("x")
	w.git("tag", "-a", "-m", "t", "v2")
	w.git("checkout", "-q", "main")
	w.write("one", "stashed")
	w.git("stash", "-q")
	w.hook("pre-commit", "exit 0")
	before := w.see(w.repo)
	w.git("branch", "-q", "-D", "x")
	w.git("tag", "-d", "v2")
	w.git("stash", "drop", "-q")
	os.Remove(filepath.Join(w.repo, ".git", "hooks", "pre-commit"))
	words, _, res := w.judge(before, &Options{ID: "r1"})
	want := []string{"branch deleted refs/heads/x", "tag deleted refs/tags/v2", "stash changed refs/stash", HookRemoved + " /re'po/.git/hooks/pre-commit"}
	if !slices.Equal(words, want) {
		t.Fatalf("%q", words)
	}
	for _, c := range res.Changes {
		if !strings.HasPrefix(c.Kept, "refs/rein/r1/") {
			t.Errorf("%s: kept by %q", c.What, c.Kept)
		}
	}
	// The check of another run that overlaps sees a check of Rein's, not a crossing.
	if _, not, _ := w.judge(before, &Options{Peers: []Peer{{ID: "r1"}}}); slices.ContainsFunc(not, func(s string) bool { return strings.Contains(s, "refs/rein") }) {
		t.Errorf("%q", not)
	}
	w.git("reflog", "expire", "--expire=now", "--all")
	w.git("gc", "-q", "--prune=now")
	w.git("push", "-q", "--all", "origin")
	w.git("push", "-q", "--tags", "origin")
	if refs := w.in(w.at("origin.git"), "for-each-ref", "refs/rein"); refs != "" {
		t.Errorf("pushed: %s", refs)
	}
	w.restore(res.Changes)
	after := w.see(w.repo)
	if after.oid("refs/heads/x") != before.oid("refs/heads/x") || !slices.Equal(after.Stash, before.Stash) || !slices.Equal(after.Hooks, before.Hooks) {
		t.Errorf("%+v", after)
	}
	// Somebody else's cannot be hidden there.
	before = w.see(w.repo)
	w.git("update-ref", "refs/rein/evil/0", "HEAD")
	w.git("update-ref", "-d", "refs/rein/r1/0")
	if words, _, _ := w.judge(before, &Options{ID: "r3"}); !slices.Equal(words, []string{"ref created refs/rein/evil/0", "ref deleted refs/rein/r1/0"}) {
		t.Errorf("%q", words)
	}
}
