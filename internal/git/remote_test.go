package git

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLsRemote(t *testing.T) {
	dir := repository(t)
	base := filepath.Dir(dir)
	git(t, dir, "tag", "-a", "-m", "x", "v1")
	oid, tag := git(t, dir, "rev-parse", "main"), git(t, dir, "rev-parse", "v1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	refs, err := LsRemote(ctx, LocalRemote, dir, nil)
	if err != nil || len(refs) != 2 || refs[0] != (Ref{Name: "refs/heads/main", OID: oid}) || refs[1].OID != tag {
		t.Errorf("%v %v", refs, err)
	}
	// By name, with the repository's own configuration and without.
	git(t, dir, "config", "remote.o.url", dir)
	if refs, err := LsRemote(ctx, LocalRemote, "o", &LsRemoteOptions{GitDir: filepath.Join(dir, ".git")}); err != nil || len(refs) != 2 {
		t.Errorf("%v %v", refs, err)
	}
	t.Chdir(dir)
	if _, err := LsRemote(ctx, LocalRemote, "o", nil); err == nil {
		t.Error("the repository around was used")
	}
	for _, url := range []string{base, filepath.Join(base, "none"), "-x", "https://user:hunter2@127.0.0.1:1/x", "nonsense::x"} {
		refs, err := LsRemote(ctx, LocalRemote, url, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v %v", url, refs, err)
		}
	}
}

// Neither the user's configuration nor an URL makes a program of the URL's choice
// run or somebody be asked.
func TestLsRemoteAsksNobody(t *testing.T) {
	dir := repository(t)
	base := filepath.Dir(dir)
	witness, prog := filepath.Join(base, "witness"), filepath.Join(base, "prog")
	if err := os.WriteFile(prog, []byte("#!/bin/sh\necho x > '"+witness+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	global := filepath.Join(base, "global")
	git(t, dir, "config", "--file", global, "protocol.ext.allow", "always")
	git(t, dir, "config", "--file", global, "core.askPass", prog)
	t.Setenv("GIT_CONFIG_GLOBAL", global)
	t.Setenv("SSH_ASKPASS", prog)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer web.Close()
	for _, url := range []string{"ext::" + prog, web.URL + "/x.git"} {
		bare := func(ctx context.Context, dir string, args ...string) ([]byte, error) {
			env := RemoteEnv()
			delete(env, "GIT_ASKPASS")
			env["GIT_ALLOW_PROTOCOL"] = "ext:http"
			return local(ctx, env, dir, args)
		}
		if _, err := LsRemote(t.Context(), bare, url, nil); err == nil {
			t.Error(url, "answered")
		}
		if os.Remove(witness) != nil {
			t.Errorf("%s: without the environment nothing ran either: this test proves nothing", url)
		}
		if _, err := LsRemote(t.Context(), LocalRemote, url, nil); err == nil {
			t.Error(url, "answered")
		}
		if os.Remove(witness) == nil {
			t.Errorf("%s: a program ran", url)
		}
	}
}

func TestQuietSSH(t *testing.T) {
	const opts = " -oBatchMode=yes -oConnectTimeout=8"
	for ssh, want := range map[string]string{
		"": "ssh" + opts, "ssh": "ssh" + opts, "/usr/bin/ssh -i k": "/usr/bin/ssh -i k" + opts,
		"sshpass -p x ssh": "", "plink": "", "./ssh.sh": "",
	} {
		if got, ok := quiet(ssh); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %v", ssh, got, ok)
		}
	}
}

func TestReflogOfHostileBytes(t *testing.T) {
	zero, one := strings.Repeat("0", 40), strings.Repeat("1", 40)
	log := "in the middle of a line\n" +
		zero + " " + one + " A <a@b> 1700000000 +0100\tcommit (initial): x\ty\n" +
		"\x00\xff\n" + zero + " " + one + " 1 2\n" + one + " " + zero + " x\tno time\n" +
		one + " " + zero + " A B C <> 1700000001 -0000\treset: moving to HEAD~1"
	got := Reflog([]byte(log))
	want := []Move{{zero, one, 1700000000, "commit (initial): x\ty"}, {zero, one, 1, ""}, {one, zero, 1700000001, "reset: moving to HEAD~1"}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}
