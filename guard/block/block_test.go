package block_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/guard/block"
	"github.com/rein-run/rein/host/driver"
)

// world is a repository "re po" with two commits on main, a branch side, a tag,
// a bare remote, and another repository that has nothing to do with it.
type world struct {
	*testing.T
	base, repo, other string
	opts              block.Options
	env               []string
}

// template holds what every world is a copy of: copying is faster than making.
var (
	template string
	made     sync.Once
)

func TestMain(m *testing.M) {
	var err error
	if template, err = os.MkdirTemp("", "block"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(template)
	os.Exit(code)
}

func makeTemplate(w *world) {
	made.Do(func() {
		for _, dir := range []string{"re po", "other"} {
			w.must(template, `git init -q -b main "`+dir+`" && git init -q --bare "`+dir+`.git" && cd "`+dir+`" &&
				for f in one two; do echo $f > $f; git add $f; git commit -q -m $f; done
				git branch side HEAD~1; git branch third side; git tag v1 side`)
		}
	})
}

func newWorld(t *testing.T, change ...func(*block.Options)) *world {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is needed: apt-get install git")
	}
	if runtime.GOOS == "windows" {
		t.Skip("blocks are not placed on Windows")
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Fatal("a POSIX shell is needed: apt-get install dash")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, base: base, repo: filepath.Join(base, "re po"), other: filepath.Join(base, "other")}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GIT_") {
			w.env = append(w.env, kv)
		}
	}
	w.env = append(w.env,
		"HOME="+base, "XDG_CONFIG_HOME="+base, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(base),
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always")
	makeTemplate(w)
	if err := os.CopyFS(base, os.DirFS(template)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{w.repo, w.other} {
		w.must(dir, `git remote add origin "$PWD.git" && git push -q origin main`)
	}
	w.opts = block.Options{
		Dir:    filepath.Join(base, "block"),
		Repo:   &block.Repo{CommonDir: filepath.Join(w.repo, ".git"), Trees: []string{w.repo}, URLs: []string{w.repo + ".git"}},
		Denied: []string{"git push", "gh pr create", "gh pr merge"},
		Env:    driver.Env{"GIT_CONFIG_COUNT": "1", "PATH": os.Getenv("PATH")},
	}
	for _, f := range change {
		f(&w.opts)
	}
	return w
}

// block puts the set in place; what runs from now on is what an agent runs.
func (w *world) block() *world {
	w.Helper()
	set := block.Make(w.opts)
	for _, f := range set.Files {
		name := filepath.Join(w.opts.Dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			w.Fatal(err)
		}
		if f.Link != "" {
			if err := os.Symlink(filepath.Join(w.opts.Dir, f.Link), name); err != nil {
				w.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(name, f.Data, 0o700); err != nil {
			w.Fatal(err)
		}
	}
	for k, v := range set.Env {
		w.env = append(w.env, k+"="+v)
	}
	w.env = slices.DeleteFunc(w.env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(set.Unset, name)
	})
	return w
}

func (w *world) sh(dir, script string) (string, error) {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = dir, w.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) must(dir, script string) string {
	w.Helper()
	out, err := w.sh(dir, script)
	if err != nil {
		w.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(out)
}

// refs is every reference of the repository, of its remote and HEAD, as they
// stand in the files: cheaper than asking git for them.
func (w *world) refs() string {
	w.Helper()
	var all strings.Builder
	for _, dir := range []string{filepath.Join(w.repo, ".git"), w.repo + ".git", w.other + ".git"} {
		for _, name := range []string{"HEAD", "packed-refs", "refs"} {
			filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					b, err := os.ReadFile(path)
					if err != nil {
						w.Fatal(err)
					}
					if bytes.HasPrefix(b, []byte("# pack-refs")) { // an empty packed-refs comes and goes
						_, b, _ = bytes.Cut(b, []byte("\n"))
					}
					if len(b) > 0 {
						fmt.Fprintf(&all, "%s %s\n", path, b)
					}
				}
				return nil
			})
		}
	}
	return all.String()
}

// some is every third script in the fast loop, and all with the tag real.
func some(scripts []string) []string {
	if every {
		return scripts
	}
	var out []string
	for i := 0; i < len(scripts); i += 3 {
		out = append(out, scripts[i])
	}
	return out
}

func TestRefusedInTheRepositoryOfTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.repo, `git worktree add -q "../linked" side`)
	w.block()
	for _, script := range some([]string{
		"echo x > three && git add three && git commit -q -m three",
		"git commit -q --allow-empty --no-verify -m x",
		"git commit -q --amend -m x",
		"git update-ref refs/heads/main $(git commit-tree -p HEAD -m x HEAD^{tree})",
		"git update-ref refs/heads/new HEAD",
		"git branch new", "git branch -f third main", "git branch -D third", "git branch -m third new",
		"git tag v2", "git tag -f v1 main", "git tag -d v1", "git tag -a -m x v3",
		"git switch -q -c new", "git checkout -q -b new", "git checkout -q --detach HEAD~1",
		"git checkout -q --detach", "git switch -q --detach main",
		"git reset -q --hard HEAD~1",
		"git worktree add -q -b new ../wt",
		"git fetch -q . HEAD:refs/heads/new",
		"git cherry-pick --allow-empty --keep-redundant-commits side", "git revert --no-edit HEAD", "git notes add -m n", "git replace HEAD HEAD~1",
		"git push -q origin HEAD:refs/heads/new", "git push -q --no-verify origin HEAD:refs/heads/new",
		`git push -q --no-verify "$PWD.git" HEAD:refs/heads/new`, `git push -q "file://$PWD.git" HEAD:refs/heads/new`,
		"git push -q ../other.git HEAD:refs/heads/new",
		"git -c core.hooksPath=/dev/null push -q origin HEAD:refs/heads/new",
		"cd ../linked && git commit -q --allow-empty -m x",
		"cd ../linked && git push -q origin HEAD:refs/heads/new",
		"cd .git && git update-ref refs/heads/main HEAD~1",
		"mkdir -p sub && cd sub && git commit -q --allow-empty -m x",
		"GIT_DIR=$PWD/.git git update-ref refs/heads/main HEAD~1",
		`git clone -q "$PWD.git" ../clone && cd ../clone && git push -q origin HEAD:refs/heads/new`,
	}) {
		before := w.refs()
		out, err := w.sh(w.repo, script)
		if err == nil {
			t.Errorf("%s: went through", script)
		}
		if !strings.Contains(out, "rein") {
			t.Errorf("%s: does not say who refused:\n%s", script, out)
		}
		if after := w.refs(); after != before {
			t.Fatalf("%s: refs moved\n%s\n%s", script, before, after)
		}
		if strings.Contains(script, "add") || strings.Contains(script, "reset") || strings.Contains(script, "pick") || strings.Contains(script, "revert") || strings.Contains(script, "clone") {
			w.must(w.repo, "git reset -q --hard HEAD && git clean -qfd && rm -rf ../clone ../wt")
		}
	}
}

func TestInnocent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.repo, "git fetch -q origin")
	w.block()
	const all = "git symbolic-ref HEAD && git for-each-ref"
	names := w.must(w.repo, all)
	for _, script := range some([]string{
		"git status && git diff && git log --oneline && git blame one",
		"echo x >> one && git add one && git diff --cached --quiet || git reset -q && git checkout -q -- one",
		"echo x >> one && git stash -q && git stash pop -q && git checkout -q -- one",
		"git reset -q --hard HEAD", "git reset -q", "git restore --source HEAD~1 one && git restore one",
		"git rm -q --cached one && git reset -q && git ls-remote -q origin",
		"git fetch -q --no-tags origin", "git fetch -q origin",
		"git archive HEAD | cat >/dev/null", "git format-patch -1 --stdout",
		"git clone -q . ../clone && cd ../clone && git commit -q --allow-empty -m x && git tag v9 && git switch -q -c y && rm -rf ../clone",
		"git gc -q", "git -c gc.packRefs=true gc -q && git pack-refs --all", "git config core.bare", "git bisect start && git bisect reset",
		"git init -q ../fresh && cd ../fresh && git commit -q --allow-empty -m x && git branch y && rm -rf ../fresh",
	}) {
		if out, err := w.sh(w.repo, script); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
	if got := w.must(w.repo, all); got != names {
		t.Errorf("refs moved\n%s\n%s", names, got)
	}
	// Packing looks like the deletion of every reference; a deletion is refused
	// whether it is packed or not.
	w.must(w.repo, "git pack-refs --all")
	if loose, _ := filepath.Glob(filepath.Join(w.repo, ".git/refs/heads/*")); len(loose) > 0 || w.must(w.repo, all) != names {
		t.Errorf("packed: %v", loose)
	}
	for _, script := range []string{"git branch -D third", "git update-ref -d refs/tags/v1"} {
		if out, err := w.sh(w.repo, script); err == nil || w.must(w.repo, all) != names {
			t.Errorf("packed, %s: %v\n%s", script, err, out)
		}
	}
	// A project's own tests: commit, stash and push in repositories of their own.
	w.must(w.other, `echo x > x && git add x && git commit -q -m x && git push -q origin main && git tag t && git push -q --tags &&
		echo y > x && git stash -q && git stash pop -q && git switch -q -c z && git branch -D main && git worktree add -q ../ot side`)
}

// git turns away by the beginning of a URL: what only begins like the repository
// or one of its remotes goes through.
func TestInnocentPushes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *block.Options) {
		o.Repo.URLs = []string{"../re po.git", strings.TrimSuffix(o.Repo.URLs[0], ".git")}
	})
	w.must(w.repo, `git init -q --bare ../"re poother.git" && git init -q --bare inner.git && mkdir -p ../a/b && cp -R "../re po.git" ../a`)
	w.block()
	for _, script := range []string{
		`git push -q "$HOME/re poother.git" HEAD:refs/heads/new`,
		`git push -q "file://$HOME/re po/inner.git" HEAD:refs/heads/new`,
		`git push -q "$HOME/re po/inner.git" HEAD:refs/heads/new2`,
		`git init -q ../a/b && cd ../a/b && git commit -q --allow-empty -m x && git push -q "../re po.git" HEAD:refs/heads/new`,
	} {
		if out, err := w.sh(w.other, script); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
	// The hook refuses a push to the relative remote from the repository.
	if out, err := w.sh(w.repo, `git push -q "../re po.git" HEAD:refs/heads/new`); err == nil || !strings.Contains(out, "rein: refused") {
		t.Errorf("a push to the relative remote: %v\n%s", err, out)
	}
}

func TestTurnedAway(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"https://example.com/o/r": true, "https://example.com/o/r.git": true, "ssh://git@example.com/r": true, "git@example.com:o/r.git": true, "host:r": true,
		"/srv/r.git": true, "file:///srv/r.git": true,
		"../r.git": false, "r.git": false, "./a:b.git": false, "/srv/r": false, "file:///srv/r": false, "": false,
	} {
		set := block.Make(block.Options{Dir: "/b", Repo: &block.Repo{CommonDir: "/w/.git", Trees: []string{"/w"}, URLs: []string{url}}})
		got := false
		for name, value := range set.Env {
			if strings.HasPrefix(name, "GIT_CONFIG_KEY_") && strings.HasSuffix(value, ".pushInsteadOf") {
				got = true
				if to := set.Env[strings.Replace(name, "KEY", "VALUE", 1)]; to != url {
					t.Errorf("%q turns %q away", url, to)
				}
			}
		}
		if got != want {
			t.Errorf("%q: turned away: %v", url, got)
		}
	}
}

func TestCommitsOnTheOwnBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *block.Options) { o.Branch = "refs/heads/main" }).block()
	w.must(w.repo, "git commit -q --allow-empty -m x && git commit -q --amend --allow-empty -m y")
	for _, script := range []string{
		"git switch -q -c new", "git branch -f side main", "git push -q origin main", "git branch -D side",
		"git update-ref -d refs/heads/main", "git checkout -q --detach HEAD~1",
	} {
		before := w.refs()
		if out, err := w.sh(w.repo, script); err == nil {
			t.Errorf("%s: went through\n%s", script, out)
		}
		if after := w.refs(); after != before {
			t.Fatalf("%s: refs moved\n%s\n%s", script, before, after)
		}
	}
}

// The hooks of a repository still run, wherever they are configured, and keep
// their arguments, their stdin and their veto.
func TestOwnHooks(t *testing.T) {
	t.Parallel()
	const log = `printf '#!/bin/sh\necho "$0 $*" >> "` + "$PWD" + `/../log"\ncat >> "` + "$PWD" + `/../log"\n' `
	w := newWorld(t, func(o *block.Options) { o.Branch = "refs/heads/main" })
	w.must(w.repo, `mkdir -p mine ../user .git/hooks`)
	w.must(w.repo, log+`> .git/hooks/commit-msg; chmod +x .git/hooks/commit-msg; cp .git/hooks/commit-msg .git/hooks/reference-transaction`)
	w.must(w.repo, `cp .git/hooks/commit-msg mine/commit-msg; cp .git/hooks/commit-msg ../user/commit-msg`)
	commit := func(dir string) string {
		t.Helper()
		w.must(w.base, "rm -f log")
		return w.must(dir, `git commit -q --allow-empty -m x </dev/null && cat "$HOME/log"`)
	}
	w.block()
	got := commit(w.repo)
	for _, want := range []string{"hooks/commit-msg .git/COMMIT_EDITMSG", "reference-transaction prepared", "reference-transaction committed", " refs/heads/main\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the repository's own hooks: no %q in\n%s", want, got)
		}
	}
	w.must(w.repo, "git config core.hooksPath mine")
	if got := commit(w.repo); !strings.HasPrefix(got, "mine/commit-msg ") {
		t.Errorf("core.hooksPath of the repository: %q", got)
	}
	w.must(w.repo, "git config --unset core.hooksPath && printf '#!/bin/sh\\nexit 3\\n' > .git/hooks/commit-msg")
	if out, err := w.sh(w.repo, "git commit -q --allow-empty -m x"); err == nil {
		t.Errorf("the veto of the repository's own hook is lost: %s", out)
	}

	// Of the user: named when the run begins.
	u := newWorld(t, func(o *block.Options) {
		o.Branch = "refs/heads/main"
		o.Repo.HooksPath = filepath.Join(filepath.Dir(o.Dir), "user")
	})
	u.must(u.repo, `mkdir ../user; `+log+`> ../user/commit-msg; chmod +x ../user/commit-msg`)
	w = u.block()
	if got := commit(u.repo); !strings.Contains(got, "user/commit-msg .git") {
		t.Errorf("hooks of the user: %q", got)
	}
}

func TestSubmodules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.repo, `git submodule -q add "`+w.other+`" sub && git commit -q -m sub && git clone -q --no-local . ../fresh`)
	w.opts.Repo.CommonDir, w.opts.Repo.Trees = filepath.Join(w.base, "fresh", ".git"), []string{filepath.Join(w.base, "fresh")}
	w.repo = filepath.Join(w.base, "fresh")
	w.block()
	w.must(w.repo, `git submodule update -q --init && cd sub && git status && git fetch -q`)
	for _, script := range []string{
		"cd sub && git push -q origin HEAD:refs/heads/new",
		"cd sub && git branch -f main HEAD~1",
	} {
		if out, err := w.sh(w.repo, script); err == nil {
			t.Errorf("%s: went through\n%s", script, out)
		}
	}
	if out := w.must(w.other, "git for-each-ref"); strings.Contains(out, "refs/heads/new") {
		t.Error(out)
	}
}

func TestShims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.base, `mkdir bin && printf '#!/bin/sh\necho "real $*"\n' > bin/gh && chmod +x bin/gh`)
	w.must(w.base, "for p in npm yarn glab hub tea; do cp bin/gh bin/$p; done")
	w.opts.Env["PATH"] = filepath.Join(w.base, "bin") + ":" + w.opts.Env["PATH"]
	p, err := guard.New(guard.Config{Packs: []string{"publish"}, Allow: []string{"gh label create"}})
	if err != nil {
		t.Fatal(err)
	}
	w.opts.Denied = append(p.Shims(), "npm run --danger")
	w.block()
	for _, script := range some([]string{
		"gh pr create", "gh pr create -f", "gh -R o/r pr merge 7", "gh --repo=o/r pr create", `env gh pr "create"`, "sh -c 'gh pr create'",
		"gh pr --repo o/r merge 1", "gh pr --repo=o/r merge 1", "gh pr -R o/r --web create", "gh repo delete o/r --yes", "gh release upload v1 x", "gh issue create -t x",
		"gh pr new", "gh workflow run x.yml", "gh secret set X", "gh api -X PUT repos/o/r", "gh api -XDELETE repos/o/r", "gh api --method=PATCH repos/o/r", "gh api repos/o/r/issues -f title=x",
		"gh api repos/o/r/issues -Ftitle=x", "gh api repos/o/r --input body.json", "gh api graphql -f 'query=mutation { x }'", "gh --hostname h api repos/o/r -X POST",
		"glab mr create", "glab -R o/r mr accept 7", "glab merge-request note 1 -m x", "glab release create v1", "glab ci trigger x", "glab pipeline create", "glab mr approve 7", "glab api -X PUT projects/1", "glab snippet create x", "glab variable set X",
		"tea pulls create", "tea pr m 7", "tea comment 1 x", "tea releases c v1", "tea r c --tag v1", "tea i c -t x", "tea repos delete o/r",
		"hub pull-request -m x", "hub pull-request -h feature", "hub merge https://x/pull/1", "hub release create v1", "hub api repos/o/r -f title=x", "hub --noop fork",
		"npm publish", "npm --tag x publish", "yarn npm publish", "npm run x --danger=1",
	}) {
		if out, err := w.sh(w.repo, script); err == nil || !strings.Contains(out, "rein: refused") || strings.Contains(out, "real") {
			t.Errorf("%s: %v %s", script, err, out)
		}
	}
	for script, want := range map[string]string{
		"gh pr view 7": "real pr view 7", "gh pr list --search 'pr create'": "real pr list --search pr create", "gh": "real", "gh pr": "real pr",
		"gh pr merge --help": "real pr merge --help", "gh pr merge -h": "real pr merge -h", "gh label create x": "real label create x", "gh issue list -R create": "real issue list -R create",
		"gh api repos/o/r/pulls": "real api repos/o/r/pulls", "gh api -X GET search/issues -f q=x": "real api -X GET search/issues -f q=x",
		"gh api graphql -f 'query={ viewer { login } }'": "real api graphql -f query={ viewer { login } }", "gh api repos/o/r -H 'X: y' --jq .x": "real api repos/o/r -H X: y --jq .x",
		"glab mr list": "real mr list", "glab mr create --help": "real mr create --help", "glab mr create -h": "real mr create -h", "glab label create x": "real label create x", "glab api projects/1": "real api projects/1",
		"tea pulls": "real pulls", "tea issues list": "real issues list", "hub browse": "real browse", "hub release show v1": "real release show v1", "hub issue": "real issue",
		"npm test": "real test", "npm run publish": "real run publish", "npm publish --dry-run": "real publish --dry-run", "npm run x": "real run x",
		"gh pr list '*' ''": "real pr list *",
	} {
		if out, err := w.sh(w.repo, script); err != nil || strings.TrimSpace(out) != want {
			t.Errorf("%s: %v %q", script, err, out)
		}
	}
	w.must(w.base, "rm bin/gh")
	if out, err := w.sh(w.repo, "gh pr view"); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("without the real one: %v %s", err, out)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	set := block.Make(block.Options{Dir: "/b", Keep: []string{"NPM_TOKEN"}})
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "GIT_ASKPASS"} {
		if !slices.Contains(set.Unset, name) {
			t.Errorf("%s stays", name)
		}
	}
	if slices.Contains(set.Unset, "NPM_TOKEN") {
		t.Error("what was given by name is taken away")
	}
	if set.Env["GH_CONFIG_DIR"] == "" || set.Env["GIT_CONFIG_KEY_0"] != "credential.helper" || len(set.Files) != 0 {
		t.Errorf("%v %v", set.Env.Names(), set.Files)
	}
	set = block.Make(block.Options{Dir: "/b", Forge: true})
	if slices.Contains(set.Unset, "GH_TOKEN") || !slices.Contains(set.Unset, "AWS_SECRET_ACCESS_KEY") || set.Env["GH_CONFIG_DIR"] != "" {
		t.Errorf("granted: %v %v", set.Unset, set.Env.Names())
	}

	// A helper of the user's, or of the repository's, is not asked.
	w := newWorld(t)
	w.must(w.repo, `git config credential.helper '!touch "$HOME/asked"; true'`)
	ask := `printf 'protocol=https\nhost=example.com\n\n' | git credential fill; test -e "$HOME/asked"`
	w.must(w.repo, ask)
	w.must(w.repo, `rm "$HOME/asked"`)
	w.block()
	if _, err := w.sh(w.repo, ask); err == nil {
		t.Error("the credential helper was asked")
	}
}

// What was in the environment before is still in force.
func TestConfigurationOfTheEnvironmentStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t).block()
	if got := w.must(w.repo, "git config protocol.file.allow"); got != "always" {
		t.Errorf("%q", got)
	}
	for _, count := range []string{"", "x", "-1", "2"} {
		set := block.Make(block.Options{Dir: "/b", Env: driver.Env{"GIT_CONFIG_COUNT": count}})
		want := "2"
		if count == "2" {
			want = "4"
		}
		if got := set.Env["GIT_CONFIG_COUNT"]; got != want {
			t.Errorf("count %q: %q", count, got)
		}
	}
}
