package boundary

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rein-run/rein/internal/git"
)

// What an agent writes into a repository names programs in many places. Each
// trick is first shown to work on a git that is not ours, and then not to work on
// the check, on this machine and through git's shell alone.
func TestTheCheckRunsNothingOfTheRepository(t *testing.T) {
	type trick struct {
		name string
		// before the run; linked runs it in a linked working tree
		prepare func(w *world)
		linked  bool
		// set is the configuration that the agent writes; @ is the program.
		set map[string]string
		do  func(w *world, prog string)
		// control is what a user types: it runs the program.
		control []string
		deep    bool   // not in the fast loop
		why     string // the remote was not asked
	}
	away := func(url string) func(w *world, _ string) {
		return func(w *world, _ string) { w.git("config", "remote.origin.url", url) }
	}
	hook := func(name string) func(w *world, prog string) {
		return func(w *world, prog string) {
			if err := os.MkdirAll(w.at("h"), 0o700); err != nil {
				w.Fatal(err)
			}
			w.script(filepath.Join(w.at("h"), name), prog)
			w.git("config", "core.hooksPath", w.at("h"))
		}
	}
	var closed atomic.Bool
	var oid atomic.Pointer[string]
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case closed.Load():
			rw.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			rw.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/info/refs"):
			fmt.Fprintf(rw, "%s\trefs/heads/main\n", *oid.Load())
		case strings.HasSuffix(r.URL.Path, "/HEAD"):
			fmt.Fprint(rw, "ref: refs/heads/main\n")
		default:
			rw.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(web.Close)
	served := func(w *world) {
		id := w.git("rev-parse", "main")
		oid.Store(&id)
		closed.Store(false)
		w.git("config", "remote.origin.url", web.URL+"/r.git")
	}
	closing := func(*world, string) { closed.Store(true) }

	for _, x := range []trick{
		{name: "fsmonitor", linked: true, set: map[string]string{"core.fsmonitor": "@"}, control: []string{"status"}},
		{name: "fsmonitor by include", deep: true, linked: true, do: func(w *world, prog string) {
			w.in(w.base, "config", "--file", w.at("inc"), "core.fsmonitor", prog)
			w.git("config", "include.path", w.at("inc"))
		}, control: []string{"status"}},
		{name: "clean filter", linked: true, set: map[string]string{"filter.x.clean": "@"}, do: func(w *world, _ string) {
			w.write(".gitattributes", "* filter=x\n")
			w.write("one", "ONE\n")
		}, control: []string{"status"}},
		{name: "filter process", deep: true, linked: true, set: map[string]string{"filter.x.process": "@", "filter.x.required": "true"}, do: func(w *world, _ string) {
			w.write(".gitattributes", "* filter=x\n")
			w.write("one", "ONE\n")
		}, control: []string{"status"}},
		{name: "reference hook", do: hook("reference-transaction"), control: []string{"update-ref", "refs/x", "HEAD"}},
		{name: "index hook", deep: true, linked: true, do: func(w *world, prog string) {
			hook("post-index-change")(w, prog)
			w.write("one", "one\n")
		}, control: []string{"update-index", "--really-refresh"}},
		{name: "alias", deep: true, set: map[string]string{"alias.rein-look": "!@", "alias.config": "!@", "alias.for-each-ref": "!@"}, control: []string{"rein-look"}},
		{name: "signature", deep: true, set: map[string]string{"log.showSignature": "true", "gpg.program": "@"}, do: func(w *world, _ string) {
			raw := w.git("cat-file", "commit", "main")
			header, body, _ := strings.Cut(raw, "\n\n")
			w.write("c", header+"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n"+body+"\n")
			w.git("update-ref", "-m", "x", "refs/remotes/origin/main", w.git("hash-object", "-w", "-t", "commit", "c"))
			os.Remove(filepath.Join(w.repo, "c"))
		}, control: []string{"log", "-1", "--show-signature", "origin/main"}},
		{name: "ssh command", deep: true, set: map[string]string{"core.sshCommand": "@"}, do: away("ssh://evil.invalid/x"), control: []string{"ls-remote", "origin"}},
		{name: "ext URL", deep: true, set: map[string]string{"protocol.ext.allow": "always"}, do: func(w *world, prog string) {
			w.git("config", "remote.origin.url", "ext::"+prog)
		}, control: []string{"ls-remote", "origin"}},
		{name: "ext by insteadOf", set: map[string]string{"protocol.ext.allow": "always"}, do: func(w *world, prog string) {
			w.git("config", "url.ext::"+prog+" .insteadOf", w.at("origin.git"))
			w.git("config", "remote.origin.url", w.at("origin.git"))
		}, control: []string{"ls-remote", "origin"}},
		{name: "uploadpack", deep: true, set: map[string]string{"remote.origin.uploadpack": "@"}, control: []string{"ls-remote", "origin"}},
		{name: "uploadpack of a remote named as the URL", deep: true, prepare: func(w *world) {
			w.git("config", "remote.origin.url", "file://"+w.at("origin.git"))
		}, do: func(w *world, prog string) {
			w.git("config", "remote.file://"+w.at("origin.git")+".url", w.at("origin.git"))
			w.git("config", "remote.file://"+w.at("origin.git")+".uploadpack", prog)
		}, control: []string{"ls-remote", "file://@origin"}},
		{name: "credential helper", prepare: served, do: closing, set: map[string]string{"credential.helper": "!@"}, control: []string{"ls-remote", "origin"}},
		{name: "askpass", deep: true, prepare: served, do: closing, set: map[string]string{"core.askPass": "@"}, control: []string{"ls-remote", "origin"}},
		{name: "a remote that answers only with the repository's settings", prepare: func(w *world) {
			w.git("config", "url."+w.base+"/.insteadOf", "my://")
			w.git("config", "remote.origin.url", "my://origin.git")
		}, set: map[string]string{"remote.origin.uploadpack": "@"}, control: []string{"ls-remote", "origin"}, why: "which was changed"},
	} {
		if x.deep && !deep {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			if x.prepare == nil {
				t.Parallel()
			}
			w := newWorld(t)
			witness := w.at("witness")
			prog := w.at("prog")
			w.script(prog, fmt.Sprintf("'%s' witness '%s'", w.self(), witness))
			dir := w.repo
			if x.linked {
				dir = w.at("wt")
				w.git("worktree", "add", "-q", "-b", "run", dir)
			}
			if x.prepare != nil {
				x.prepare(w)
			}
			o := Local()
			o.ID = "r1"
			before, err := Take(t.Context(), git.Local, dir, o)
			if err != nil || len(before.Remotes) != 1 || !before.Remotes[0].Checked {
				t.Fatalf("%+v %v", before.Remotes, err)
			}
			w.git("tag", "-d", "v1") // something that the check keeps by a reference
			if x.do != nil {
				x.do(w, prog)
			}
			for k, v := range x.set {
				w.git("config", k, strings.ReplaceAll(v, "@", prog))
			}

			for i, a := range x.control { // a path has to be known first
				x.control[i] = strings.Replace(a, "@origin", w.at("origin.git"), 1)
			}
			cmd := exec.Command("git", x.control...)
			cmd.Dir, cmd.Env = w.repo, append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
			out, _ := cmd.CombinedOutput()
			if os.Remove(witness) != nil {
				t.Fatalf("git %q did not run the program: this test proves nothing\n%s", x.control, out)
			}

			for name, o := range map[string]*Options{"here": o, "elsewhere": {ID: "r2", Remote: git.LocalRemote}} {
				res, err := Check(t.Context(), git.Local, before, o)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if _, err := os.Stat(witness); err == nil {
					t.Errorf("%s: the check ran the agent's program", name)
					os.Remove(witness)
				}
				if len(res.Changes) < 2 || !slices.ContainsFunc(res.Changes, func(c Change) bool { return c.Kept != "" }) {
					t.Errorf("%s: %+v", name, res.Changes)
				}
				if x.why != "" && !strings.Contains(res.Remotes[0].Why, x.why) {
					t.Errorf("%s: %+v", name, res.Remotes)
				}
				if len(res.Remotes) != 1 || !res.Remotes[0].Checked && x.prepare == nil {
					t.Errorf("%s: the remote was not asked where it was before: %+v", name, res.Remotes)
				}
			}
		})
	}
}

// self is the test binary, for a shell.
func (w *world) self() string {
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	return filepath.ToSlash(self)
}

// script makes a program of a shell command.
func (w *world) script(name, line string) {
	w.Helper()
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+line+"\n"), 0o700); err != nil {
		w.Fatal(err)
	}
}
