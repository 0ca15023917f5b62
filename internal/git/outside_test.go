package git

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestOutside(t *testing.T) {
	dir := repository(t)
	base := filepath.Dir(dir)
	if !Outside(base) {
		t.Fatal("the temporary directory is in a repository, set TMPDIR to one that is not: ", base)
	}
	at := func(n string) string { return filepath.Join(base, n) }
	mkdir := func(name string) string {
		t.Helper()
		if err := os.MkdirAll(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	check := func(name, dir string, want bool) {
		t.Helper()
		if got := Outside(dir); got != want {
			t.Errorf("%s: outside %v, want %v", name, got, want)
		}
	}
	t.Setenv("GIT_DIR", filepath.Join(dir, ".git")) // no git of ours sees it
	check("plain", mkdir("plain/sub"), true)
	t.Chdir(at("plain"))
	check("relative", "sub", true)
	os.Unsetenv("GIT_DIR")

	check("top", dir, false)
	check("far below", mkdir("re po/a/b/c"), false)
	check("inside .git", filepath.Join(dir, ".git", "refs"), false)
	git(t, dir, "worktree", "add", "-q", at("wt"))
	check("linked", at("wt"), false)
	git(t, dir, "clone", "-q", "--bare", dir, at("b.git"))
	check("bare", at("b.git"), false)
	check("inside bare", filepath.Join(at("b.git"), "objects"), false)
	check("missing", at("missing"), false)
	check("a file", filepath.Join(dir, "f"), false)

	write(t, filepath.Join(mkdir("damaged/sub"), "..", ".git"), "nonsense")
	check("a .git that is broken", at("damaged/sub"), false)
	// What git accepts as a repository too: HEAD, with the rest elsewhere.
	write(t, filepath.Join(mkdir("admin"), "HEAD"), "ref: refs/heads/main\n")
	check("HEAD alone", at("admin"), true)
	write(t, filepath.Join(at("admin"), "commondir"), filepath.Join(dir, ".git")+"\n")
	check("HEAD and commondir", at("admin"), false)

	if err := os.Symlink(filepath.Join(dir, "a"), at("link")); err == nil {
		check("behind a symlink", filepath.Join(at("link"), "b"), false)
		if err := os.Symlink(at("nowhere"), filepath.Join(mkdir("dangling"), ".git")); err != nil {
			t.Fatal(err)
		}
		check("a .git that is a dangling symlink", at("dangling"), false)
	}
	if runtime.GOOS != "windows" && os.Getuid() != 0 {
		closed := mkdir("closed/sub")
		if err := os.Chmod(at("closed"), 0); err != nil {
			t.Fatal(err)
		}
		check("cannot be read", closed, false)
		if err := os.Chmod(at("closed"), 0o700); err != nil { // for the cleanup
			t.Fatal(err)
		}
	}
}
