//go:build real && linux

package sandbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rein-run/rein/guard/sandbox"
	"github.com/rein-run/rein/guard/sandbox/inside"
	"github.com/rein-run/rein/guard/sandbox/proxy"
)

// TestMain is also the program inside of the sandbox.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == inside.Verb {
		os.Exit(inside.Run(os.Args[2:], os.Stderr))
	}
	os.Exit(m.Run())
}

// world is a repository, a linked worktree of it and a bare remote, in a
// directory that is not below /tmp, which a sandbox hides.
type world struct {
	*testing.T
	base, repo, linked string
	opts               sandbox.Options
	cred               *syscall.Credential
}

func newWorld(t *testing.T, uid int) *world {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Fatal("bubblewrap is needed: apt-get install bubblewrap")
	}
	outside := "/var/lib" // of the temporary directories
	if os.Geteuid() != 0 {
		outside = os.Getenv("HOME")
	}
	base, err := os.MkdirTemp(outside, "sandbox")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	w := &world{T: t, base: base, repo: filepath.Join(base, "repo"), linked: filepath.Join(base, "linked")}
	if uid != os.Geteuid() {
		w.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
		if err := os.Chown(base, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	w.must(base, `mkdir blank state && touch blank/file && git init -q -b main repo && git init -q --bare origin.git && cd repo &&
		for f in one two; do echo $f > $f; git add $f; git commit -q -m $f; done
		git branch side HEAD~1; git remote add origin "$PWD/../origin.git"; git push -q origin main; git worktree add -q ../linked side
		rm -rf .git/hooks`)
	w.opts = sandbox.Options{
		Dir: w.repo, UID: uid, Write: []string{filepath.Join(base, "state"), filepath.Join(base, "missing")},
		Git:    &sandbox.Git{CommonDir: filepath.Join(w.repo, ".git"), GitDir: filepath.Join(w.repo, ".git"), Top: w.repo},
		Blank:  filepath.Join(base, "blank"),
		Exists: func(p string) bool { _, err := os.Lstat(p); return err == nil },
	}
	stub, ok := sandbox.CommonStub(w.opts)
	if !ok {
		t.Fatal("no need of a stub")
	}
	if err := stub.Place(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) linkedGit() *sandbox.Git {
	return &sandbox.Git{CommonDir: filepath.Join(w.repo, ".git"), GitDir: filepath.Join(w.repo, ".git/worktrees/linked"), Top: w.linked}
}

func (w *world) run(dir string, argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.base, "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.cred}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) must(dir, script string) string {
	w.Helper()
	out, err := w.run(dir, "sh", "-c", script)
	if err != nil {
		w.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// in runs a script in the sandbox.
func (w *world) in(script string) (string, error) {
	w.Helper()
	argv, err := sandbox.Wrap(w.opts, []string{"sh", "-c", script})
	if err != nil {
		w.Fatal(err)
	}
	return w.run(w.opts.Dir, argv...)
}

// each runs every line of scripts by itself, all in one sandbox, and returns
// those that failed (unless is "||") or went through ("&&"), with what they wrote.
func (w *world) each(scripts, unless string) []string {
	w.Helper()
	lines := strings.Split(strings.TrimSpace(scripts), "\n")
	argv, err := sandbox.Wrap(w.opts, append([]string{
		"sh", "-c",
		`for s; do rm -rf /tmp/c; (eval "$s") >/tmp/out 2>&1 ` + unless + ` { printf '\0%s\n' "$s"; cat /tmp/out; }; done; true`, "sh",
	}, lines...))
	if err != nil {
		w.Fatal(err)
	}
	out, err := w.run(w.opts.Dir, argv...)
	if err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return strings.Split(out, "\x00")[1:]
}

func (w *world) refs() string {
	w.Helper()
	return w.must(w.repo, `cat .git/HEAD .git/config; git rev-parse HEAD; git for-each-ref; git --git-dir=../origin.git for-each-ref; git worktree list; ls -A .git/hooks 2>/dev/null; true`)
}

func each(t *testing.T, f func(t *testing.T, w *world)) {
	users := map[string]int{"root": 0, "nobody": 65534}
	if me := os.Geteuid(); me != 0 { // who can be nobody else
		users = map[string]int{"me": me}
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) { f(t, newWorld(t, uid)) })
	}
}

const refused = `
git commit -q --allow-empty -m x
env -i PATH="$PATH" git -c user.name=a -c user.email=a@b -c core.hooksPath=/dev/null commit -q --allow-empty --no-verify -m x
git branch new
git branch -D third
git tag v2
echo x >> one && git stash -q
git checkout -q --detach HEAD
git symbolic-ref HEAD refs/heads/new
git update-ref refs/heads/new HEAD
git worktree add -q --detach ../wt
git push -q origin HEAD:refs/heads/new
git --git-dir=../origin.git update-ref refs/heads/new HEAD
git clone -q . /tmp/c && cd /tmp/c && git commit -q --allow-empty -m x && git push -q origin HEAD:refs/heads/new
git config user.name x
git config --global user.name x
d=$(git rev-parse --git-common-dir); echo x > $d/refs/heads/new
d=$(git rev-parse --git-common-dir); echo "ref: refs/heads/new" > $d/HEAD
d=$(git rev-parse --git-common-dir); mkdir -p $d/hooks && echo x > $d/hooks/post-checkout
d=$(git rev-parse --git-common-dir); echo "$(git rev-parse HEAD) refs/heads/new" > $d/packed-refs
d=$(git rev-parse --git-common-dir); mv $d $d.2 && cp -r $d.2 $d && git -C . branch new
d=$(git rev-parse --git-common-dir); echo /elsewhere > $d/commondir
d=$(git rev-parse --git-common-dir); rm -f $d/commondir
d=$(git rev-parse --git-common-dir); rm -rf $d/refs
d=$(git rev-parse --git-common-dir); umount $d/refs && git branch new
d=$(git rev-parse --git-common-dir); mount -o remount,bind,rw $d/refs && git branch new
mount -o remount,bind,rw / && echo x > /var/lib/sandbox-escaped
unshare -rm sh -c "mount -o remount,bind,rw / && echo x > /var/lib/sandbox-escaped"
unshare -Urm true
echo x > /etc/sandbox-escaped
echo x > ../escaped
echo x > $HOME/escaped
nsenter -t 1 -m true
mknod /tmp/d b 8 0
echo 1 > /proc/sys/vm/drop_caches
cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern
mkdir $(find /sys/fs/cgroup -maxdepth 1 -type d | tail -1)/escaped
echo 1 > /sys/kernel/mm/ksm/run
getent hosts example.com || bash -c "exec 3<>/dev/tcp/192.0.2.1/80"
`

const innocent = `
git status && git diff && git log --oneline
echo x >> one && git add one && git diff --cached && git checkout -q HEAD -- one
echo x >> one && git checkout -q -- one && git ls-files && git add -A
git clone -q . /tmp/c && cd /tmp/c && git commit -q --allow-empty -m x && git branch y && git stash list
echo x > "$TMPDIR/x" && mkdir -p "$XDG_CACHE_HOME" && echo x > $HOME/state/x && echo x > new && rm new
test "$(ps -e 2>/dev/null | wc -l)" -lt 20
cat /etc/hostname >/dev/null && ls / >/dev/null
`

func TestRepositoryAndFileSystem(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.must(w.repo, "git branch third")
		linked := w.opts
		linked.Dir, linked.Git = w.linked, w.linkedGit()
		for name, o := range map[string]sandbox.Options{"main": w.opts, "linked": linked} {
			w.opts = o
			before := w.refs()
			for _, out := range w.each(refused, "&&") {
				t.Errorf("%s: went through: %s", name, out)
			}
			w.must(o.Dir, "git checkout -q -- one")
			if after := w.refs(); after != before {
				t.Fatalf("%s: the repository changed\n%s\n%s", name, before, after)
			}
			for _, p := range []string{"/var/lib/sandbox-escaped", "/etc/sandbox-escaped", filepath.Join(w.base, "escaped")} {
				if _, err := os.Lstat(p); err == nil {
					os.Remove(p)
					t.Errorf("%s: %s was written", name, p)
				}
			}
			for _, out := range w.each(innocent, "||") {
				t.Errorf("%s: %s", name, out)
			}
			if after := w.refs(); after != before {
				t.Errorf("%s: innocent work changed the repository\n%s\n%s", name, before, after)
			}
			w.must(w.repo, "git fsck")
		}
	})
}

func TestCommits(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.opts.Branch = "refs/heads/main"
		if out, err := w.in("git commit -q --allow-empty -m x"); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		for _, script := range []string{"git tag x", "git checkout -q -b x", "git config a.b c", "git push -q origin main"} {
			if out, err := w.in(script); err == nil {
				t.Errorf("%s: went through\n%s", script, out)
			}
		}
		w.opts.Dir, w.opts.Branch, w.opts.Git = w.linked, "refs/heads/side", w.linkedGit()
		if out, err := w.in("git commit -q --allow-empty -m x && git log -1 --format=%s"); err != nil || out != "x\n" {
			t.Errorf("linked: %v %s", err, out)
		}
	})
}

func TestCheck(t *testing.T) {
	uid := 65534
	if me := os.Geteuid(); me != 0 {
		uid = me
	}
	w := newWorld(t, uid)
	run := func(_ context.Context, argv ...string) ([]byte, error) {
		out, err := w.run("/", argv...)
		return []byte(out), err
	}
	if err := sandbox.Check(t.Context(), run, w.opts); err != nil {
		t.Error(err)
	}
	// A machine that allows no user namespace.
	refuses := func(context.Context, ...string) ([]byte, error) {
		return nil, errors.New("setting up uid map: Permission denied")
	}
	if err := sandbox.Check(t.Context(), refuses, w.opts); !errors.Is(err, sandbox.ErrKernel) {
		t.Error(err)
	}
}

// Without a network the agent reaches the model, and nothing else.
func TestNetwork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is needed: apt-get install curl")
	}
	each(t, func(t *testing.T, w *world) {
		model := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, "the model") }))
		defer model.Close()
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
		defer other.Close()
		address, err := proxy.Address(model.URL)
		if err != nil {
			t.Fatal(err)
		}
		mirrored, err := proxy.Address(model.URL)
		if err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(w.base, "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(socket, 0o666); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := &proxy.Proxy{Allow: []string{address}}
		go p.Serve(ctx, l)

		self := filepath.Join(w.base, "self") // where another user can run it
		w.copy(os.Args[0], self)
		in := func(script string) (string, error) {
			c := inside.Config{Dir: w.base, Name: "s", Mirror: []string{mirrored}}
			argv, err := sandbox.Wrap(w.opts, append([]string{self, inside.Verb}, c.Args([]string{"sh", "-c", script})...))
			if err != nil {
				t.Fatal(err)
			}
			return w.run(w.repo, argv...)
		}
		if out, err := in("curl -sS " + model.URL); err != nil || out != "the model" {
			t.Errorf("%v %q", err, out)
		}
		if out, err := in(`curl -sS --noproxy "" -p -x "$HTTPS_PROXY" ` + model.URL); err != nil || out != "the model" {
			t.Errorf("by the proxy: %v %q", err, out)
		}
		if out, err := in(`curl -sS --noproxy "" ` + other.URL); err != nil || !strings.Contains(out, "rein: refused") {
			t.Errorf("%v %q", err, out)
		}
		if out, err := in("curl -sS --max-time 10 " + other.URL); err == nil {
			t.Errorf("past the proxy: %q", out)
		}
		// Pid, exit code and signals are the agent's own.
		if out, err := in("trap 'echo term; exit 7' TERM; kill $$; wait"); err == nil || err.(*exec.ExitError).ExitCode() != 7 || out != "term\n" {
			t.Errorf("%v %q", err, out)
		}
	})
}

func (w *world) copy(from, to string) {
	w.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		w.Fatal(err)
	}
}
