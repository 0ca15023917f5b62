package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// TestMain lets the test binary be the program that a hostile repository names:
// it leaves a file, and copies its input as a filter does.
func TestMain(m *testing.M) {
	if f := os.Getenv("REIN_TEST_WITNESS"); f != "" && len(os.Args) > 1 && os.Args[1] == "witness" {
		_ = os.WriteFile(f, nil, 0o600)
		_, _ = os.Stdout.ReadFrom(os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// alone keeps git away from the user's own configuration and from a repository
// that the test's directory may be in.
func alone(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is needed: apt-get install git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CEILING_DIRECTORIES", dir)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "A")
		t.Setenv("GIT_"+who+"_EMAIL", "a@example.com")
	}
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// repository has one commit with the file "f" on main.
func repository(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(alone(t), "re po")
	git(t, filepath.Dir(dir), "init", "-q", "-b", "main", dir)
	write(t, filepath.Join(dir, "f"), "one\n")
	git(t, dir, "add", "f")
	git(t, dir, "commit", "-q", "-m", "one")
	return dir
}

func TestFind(t *testing.T) {
	ctx := t.Context()
	dir := repository(t)
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	wt := filepath.Join(filepath.Dir(dir), "wt")
	git(t, dir, "worktree", "add", "-q", wt)
	bare := filepath.Join(filepath.Dir(dir), "b.git")
	git(t, dir, "clone", "-q", "--bare", dir, bare)

	dotgit := filepath.Join(dir, ".git")
	for name, x := range map[string]struct {
		at     string
		want   Repo
		linked bool
	}{
		"top":          {dir, Repo{dotgit, dotgit, dir, false}, false},
		"subdirectory": {sub, Repo{dotgit, dotgit, dir, false}, false},
		"linked":       {wt, Repo{dotgit, filepath.Join(dotgit, "worktrees", "wt"), wt, false}, true},
		"bare":         {bare, Repo{bare, bare, "", true}, false},
		"inside .git":  {dotgit, Repo{dotgit, dotgit, "", false}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Find(ctx, Local, x.at)
			if err != nil {
				t.Fatal(err)
			}
			if *got != x.want || got.Linked() != x.linked {
				t.Errorf("got %+v linked %v, want %+v", *got, got.Linked(), x.want)
			}
		})
	}
	if got, err := CommonDir(ctx, Local, wt); err != nil || got != dotgit {
		t.Errorf("common directory %q, %v", got, err)
	}
}

// rev-parse and an old worktree list write paths as they are, between newlines.
func TestNewlinesInPaths(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names cannot have a newline")
	}
	ctx := t.Context()
	base := filepath.Dir(repository(t))
	dir := filepath.Join(base, "a\n\nHEADING b\n", "top\n")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
	wt := filepath.Join(base, "wt\n\nx\n")
	git(t, dir, "worktree", "add", "-q", "-b", "x", wt)
	bare := filepath.Join(base, "bare\n")
	git(t, dir, "clone", "-q", "--bare", dir, bare)

	dotgit := filepath.Join(dir, ".git")
	for at, want := range map[string]Repo{
		dir:  {dotgit, dotgit, dir, false},
		bare: {bare, bare, "", true},
	} {
		if got, err := Find(ctx, Local, at); err != nil || *got != want {
			t.Errorf("%q: got %+v, %v", at, got, err)
		}
	}
	if got, err := Find(ctx, Local, wt); err != nil || got.CommonDir != dotgit || got.Top != wt || !got.Linked() {
		t.Errorf("linked: got %+v, %v", got, err)
	}
	oid := git(t, dir, "rev-parse", "HEAD")
	want := []Worktree{{Path: dir, Head: Head{"refs/heads/main", oid}}, {Path: wt, Head: Head{"refs/heads/x", oid}}}
	for name, run := range map[string]Runner{"new": Local, "before 2.36": beforeZ} {
		if got, err := Worktrees(ctx, run, dir); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %#v, %v\nwant %#v", name, got, err, want)
		}
	}
	var seen string
	write(t, filepath.Join(dir, "new\n"), "")
	if _, err := Fingerprint(ctx, Local, dir, func(_ context.Context, top string, names []string) []string {
		seen = top + "/" + strings.Join(names, "/")
		return nil
	}); err != nil || seen != dir+"/new\n" {
		t.Errorf("fingerprint looked at %q, %v", seen, err)
	}
}

// beforeZ is a git that has no worktree list -z.
func beforeZ(ctx context.Context, dir string, args ...string) ([]byte, error) {
	if slices.Contains(args, "-z") && slices.Contains(args, "worktree") {
		return nil, &ExitError{Code: 129, Stderr: "error: unknown switch `z'"}
	}
	return Local(ctx, dir, args...)
}

// The end of every run waits for these processes.
func TestFindStartsOneProcess(t *testing.T) {
	dir, n := repository(t), 0
	run := Runner(func(ctx context.Context, dir string, args ...string) ([]byte, error) {
		n++
		return Local(ctx, dir, args...)
	})
	if _, err := Find(t.Context(), run, dir); err != nil || n != 1 {
		t.Errorf("%d processes, %v", n, err)
	}
}

func TestAbsenceIsToldFromFailure(t *testing.T) {
	ctx := t.Context()
	dir := repository(t)
	plain := filepath.Join(filepath.Dir(dir), "plain")
	damaged := filepath.Join(filepath.Dir(dir), "damaged")
	for _, d := range []string{plain, damaged} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(damaged, ".git"), "gitdir: "+filepath.Join(dir, "nowhere")+"\n")

	if _, err := Find(ctx, Local, plain); !errors.Is(err, ErrNoRepo) {
		t.Errorf("plain directory: %v", err)
	}
	if _, err := Find(ctx, Local, damaged); err == nil || errors.Is(err, ErrNoRepo) {
		t.Errorf("a .git that points nowhere is damage, not absence: %v", err)
	}
	if _, err := Find(ctx, Local, filepath.Join(plain, "gone")); !errors.Is(err, driver.ErrNoDir) {
		t.Errorf("missing directory: %v", err)
	}
	var exit *ExitError
	if _, err := Ancestor(ctx, Local, dir, "main", "nothing"); !errors.As(err, &exit) || exit.Code != 128 {
		t.Errorf("unknown commit: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Find(ended, Local, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	foreign := Runner(func(context.Context, string, ...string) ([]byte, error) {
		return nil, &ExitError{Code: 128, Stderr: "fatal: detected dubious ownership in repository at '/x'\n"}
	})
	if _, err := Find(ctx, foreign, dir); !errors.Is(err, ErrUntrusted) {
		t.Errorf("another user's repository: %v", err)
	}
	t.Setenv("PATH", plain)
	if _, err := Find(ctx, Local, dir); !errors.Is(err, ErrNoGit) {
		t.Errorf("no git: %v", err)
	}
}

func TestHead(t *testing.T) {
	ctx := t.Context()
	dir := repository(t)
	oid := git(t, dir, "rev-parse", "HEAD")
	check := func(want Head) {
		t.Helper()
		if got, err := ReadHead(ctx, Local, dir); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	check(Head{"refs/heads/main", oid})
	git(t, dir, "checkout", "-q", "--detach")
	check(Head{"", oid})
	git(t, dir, "checkout", "-q", "--orphan", "new")
	check(Head{"refs/heads/new", ""})
	if h := (Head{Ref: "refs/heads/x"}); !h.Unborn() || h.Detached() {
		t.Error("unborn")
	}
}

func TestRefsAndStash(t *testing.T) {
	ctx := t.Context()
	dir := repository(t)
	oid := git(t, dir, "rev-parse", "HEAD")
	git(t, dir, "tag", "-a", "-m", "x", "v1")
	tag := git(t, dir, "rev-parse", "v1")
	git(t, dir, "update-ref", "refs/remotes/origin/main", oid)
	git(t, dir, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	git(t, dir, "notes", "add", "-m", "n")
	git(t, dir, "branch", "a$(x)`;'\"")
	for _, s := range []string{"two\n", "three\n"} {
		write(t, filepath.Join(dir, "f"), s)
		git(t, dir, "stash", "-q")
	}
	got, err := Refs(ctx, Local, dir)
	if err != nil {
		t.Fatal(err)
	}
	stash := git(t, dir, "rev-parse", "refs/stash")
	want := []Ref{
		{"refs/heads/a$(x)`;'\"", oid, ""},
		{"refs/heads/main", oid, ""},
		{"refs/notes/commits", git(t, dir, "rev-parse", "refs/notes/commits"), ""},
		{"refs/remotes/origin/HEAD", oid, "refs/remotes/origin/main"},
		{"refs/remotes/origin/main", oid, ""},
		{"refs/stash", stash, ""},
		{"refs/tags/v1", tag, ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got, err := Stash(ctx, Local, dir); err != nil || len(got) != 2 || got[0] != stash {
		t.Errorf("stash %v, %v; the newest is %s", got, err, stash)
	}
}

func TestWorktrees(t *testing.T) {
	ctx := t.Context()
	dir := repository(t)
	oid := git(t, dir, "rev-parse", "HEAD")
	at := func(n string) string { return filepath.Join(filepath.Dir(dir), n) }
	git(t, dir, "worktree", "add", "-q", "-b", "x", at("a b"))
	git(t, dir, "worktree", "add", "-q", "--detach", at("d"))
	git(t, dir, "worktree", "add", "-q", at("gone"))
	if err := os.RemoveAll(at("gone")); err != nil {
		t.Fatal(err)
	}
	want := []Worktree{
		{Path: dir, Head: Head{"refs/heads/main", oid}},
		{Path: at("a b"), Head: Head{"refs/heads/x", oid}},
		{Path: at("d"), Head: Head{"", oid}},
		{Path: at("gone"), Head: Head{"refs/heads/gone", oid}, Gone: true},
	}
	for name, run := range map[string]Runner{"new": Local, "before 2.36": beforeZ} {
		got, err := Worktrees(ctx, run, dir)
		slices.SortFunc(got[min(1, len(got)):], func(a, b Worktree) int { return strings.Compare(a.Path, b.Path) })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, got, err, want)
		}
	}
}

func TestFingerprintSeesEveryChange(t *testing.T) {
	ctx := t.Context()
	dir := repository(t)
	write(t, filepath.Join(dir, ".gitignore"), "*.log\n")
	look := func() string {
		t.Helper()
		s, err := Fingerprint(ctx, Local, dir, LocalLstat)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	f, u := filepath.Join(dir, "f"), filepath.Join(dir, "new", "u")
	last := look()
	for _, x := range []struct {
		name string
		do   func()
		same bool
	}{
		{"nothing", func() {}, true},
		{"edit", func() { write(t, f, "two\n") }, false},
		{"another edit of a dirty file", func() { write(t, f, "three\n") }, false},
		{"an edit of the same size", func() {
			write(t, f, "thre2\n")
			// what a later edit does; the clock of the file system may be coarse
			if err := os.Chtimes(f, time.Time{}, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"untracked in a new directory", func() {
			if err := os.Mkdir(filepath.Dir(u), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, u, "1")
		}, false},
		{"edit of an untracked file", func() { write(t, u, "12") }, false},
		{"ignored", func() { write(t, filepath.Join(dir, "x.log"), "1") }, true},
		{"add", func() { git(t, dir, "add", "f") }, false},
		{"commit", func() { git(t, dir, "commit", "-q", "-m", "two") }, false},
		{"remove", func() { os.Remove(f) }, false},
		{"nothing again", func() {}, true},
	} {
		x.do()
		now := look()
		if same := now == last; same != x.same {
			t.Errorf("%s: same fingerprint %v, want %v", x.name, same, x.same)
		}
		last = now
	}
}

// Two directory links that point at each other are an endless tree for whoever
// follows them.
func TestFingerprintFollowsNoSymlink(t *testing.T) {
	ctx := t.Context()
	dir := repository(t)
	out := filepath.Join(filepath.Dir(dir), "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"a": ".", "b": ".", "out": out} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip("symlinks cannot be made here: ", err)
		}
	}
	one, err := Fingerprint(ctx, Local, dir, LocalLstat)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(out, "x"), "x")
	if two, err := Fingerprint(ctx, Local, dir, LocalLstat); err != nil || one != two {
		t.Errorf("a file behind a link counts: %v", err)
	}
	write(t, filepath.Join(out, "secret"), "s")
	got := LocalLstat(ctx, dir, []string{"out/secret", "../out/secret", "f"})
	if got[0] != "" || got[1] != "" || got[2] == "" {
		t.Errorf("led out of the tree: %q", got)
	}
}

// A repository's configuration names programs in many places. Nothing that this
// package does may run one.
func TestHostileConfigurationRunsNothing(t *testing.T) {
	ctx := t.Context()
	dir := repository(t)
	witness := filepath.Join(filepath.Dir(dir), "witness")
	t.Setenv("REIN_TEST_WITNESS", witness)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	evil := fmt.Sprintf("'%s' witness", filepath.ToSlash(self))
	// Witness that the program works, so that the silence below means something.
	write(t, filepath.Join(dir, ".gitattributes"), "f filter=a.b diff=evil\ng filter=proc\n")
	write(t, filepath.Join(dir, "g"), "g\n")
	git(t, dir, "add", "g")
	write(t, filepath.Join(dir, "f"), "won\n") // same size: only its content tells
	for key, value := range map[string]string{
		"filter.a.b.clean": evil, "filter.a.b.smudge": evil, "filter.a.b.required": "true",
		"filter.proc.process": evil, "filter.proc.required": "true",
		"diff.evil.textconv": evil, "diff.external": evil,
		"core.fsmonitor": evil, "core.hooksPath": filepath.Join(dir, "hooks"),
		"core.sshCommand": evil, "core.pager": evil, "pager.status": evil, "gpg.program": evil,
		"log.showSignature": "true", "alias.status": "!" + evil, "status.submoduleSummary": "true",
		"credential.helper":       "!" + evil,
		"extensions.partialClone": "o", "remote.o.promisor": "true",
		"remote.o.url": "ext::" + evil, "remote.o.uploadpack": evil, "protocol.allow": "always",
	} {
		git(t, dir, "config", key, value)
	}
	git(t, dir, "config", "core.repositoryFormatVersion", "1")
	hooks := filepath.Join(dir, "hooks")
	if err := os.Mkdir(hooks, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"post-index-change", "reference-transaction", "fsmonitor-watchman", "post-checkout"} {
		if err := os.WriteFile(filepath.Join(hooks, h), []byte("#!/bin/sh\n"+evil+" </dev/null\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("git", "status", "--porcelain")
	cmd.Dir = dir
	_ = cmd.Run()
	if _, err := os.Stat(witness); err != nil {
		t.Fatal("a plain git status did not run the program: this test proves nothing")
	}
	if err := os.Remove(witness); err != nil {
		t.Fatal(err)
	}

	for name, do := range map[string]func() error{
		"find":        func() error { _, err := Find(ctx, Local, dir); return err },
		"head":        func() error { _, err := ReadHead(ctx, Local, dir); return err },
		"refs":        func() error { _, err := Refs(ctx, Local, dir); return err },
		"worktrees":   func() error { _, err := Worktrees(ctx, Local, dir); return err },
		"fingerprint": func() error { _, err := Fingerprint(ctx, Local, dir, LocalLstat); return err },
		"missing":     func() error { _, err := Has(ctx, Local, dir, strings.Repeat("1", 40)); return err },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(witness); err == nil {
			t.Errorf("%s ran a program that the repository names", name)
			os.Remove(witness)
		}
	}

	git(t, dir, "config", "filter.x=y.clean", evil)
	if _, err := Fingerprint(ctx, Local, dir, nil); err == nil {
		t.Error("a filter that cannot be overridden: status was run all the same")
	}
}

func TestEnvironment(t *testing.T) {
	dir := repository(t)
	other := filepath.Join(filepath.Dir(dir), "other")
	git(t, filepath.Dir(dir), "init", "-q", other)
	t.Setenv("GIT_DIR", filepath.Join(other, ".git")) // as in a git hook
	t.Setenv("GIT_OPTIONAL_LOCKS", "1")
	r, err := Find(t.Context(), Local, dir)
	if err != nil || r.Top != dir {
		t.Errorf("asked another repository: %+v, %v", r, err)
	}
	env := environ([]string{"A=1", "GIT_DIR=x", "GIT_OPTIONAL_LOCKS=1", "LC_ALL=de"}, Env())
	want := []string{"A=1", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
	if !slices.Equal(env, want) {
		t.Errorf("environment %q", env)
	}
}

func TestOutputIsBounded(t *testing.T) {
	full := false
	l := &limited{max: 4, full: func() { full = true }}
	for _, s := range []string{"ab", "cdef", "gh"} {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if l.String() != "abcd" || !l.over || !full {
		t.Errorf("%q %v %v", l.String(), l.over, full)
	}
}
