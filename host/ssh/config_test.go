package ssh

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func resolve(t *testing.T, url, config string) (*settings, string, error) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("SSH_AUTH_SOCK", "/agent")
	name := filepath.Join(home, "config")
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := readConfig(name)
	if err != nil {
		return nil, home, err
	}
	tg, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.resolve(tg)
	return s, home, err
}

func TestResolve(t *testing.T) {
	got, home, err := resolve(t, "ssh://build", `
Host build
  HostName %h.example.com
  Port 2222
  User deploy
  IdentityFile ~/.ssh/%r@%h
  IdentityFile "/my keys/%%"
  IdentitiesOnly yes
  IdentityAgent ~/agent
  UserKnownHostsFile ~/known "/other known"
  GlobalKnownHostsFile none
  HostKeyAlias build.internal
  StrictHostKeyChecking no
  ProxyJump jump@first:22,second
  ConnectTimeout 5
  ServerAliveInterval 7
  ServerAliveCountMax 2
Host *
  User nobody
  Port 1
`)
	if err != nil {
		t.Fatal(err)
	}
	want := &settings{
		user: "deploy", host: "build.example.com", port: "2222", alias: "build",
		identities: []string{home + "/.ssh/deploy@build.example.com", "/my keys/%"}, ownIdentities: true, identitiesOnly: true,
		agent: home + "/agent", knownHosts: []string{home + "/known", "/other known"}, keyAlias: "build.internal",
		jumps: []string{"jump@first:22", "second"}, connectTimeout: 5 * time.Second, alive: 7 * time.Second, aliveMax: 2,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Error(diff)
	}
	if n := got.name(); n != "ssh://deploy@build.example.com:2222" {
		t.Errorf("its name is %s", n)
	}
	// What the URL says is stronger.
	got, home, err = resolve(t, "ssh://me@plain:23/d", "Host *\n User deploy\n Port 1\n ProxyJump none\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.user != "me" || got.port != "23" || got.host != "plain" || len(got.jumps) > 0 || got.agent != "/agent" ||
		got.ownIdentities || len(got.identities) != 3 || got.knownHosts[0] != home+"/.ssh/known_hosts" || got.alive <= 0 {
		t.Errorf("%+v", got)
	}
}

// What cannot be honoured is not passed over when it protects or reaches.
func TestRefusedConfig(t *testing.T) {
	for config, want := range map[string]string{
		"Match exec \"true\"\n User x\n":          "Match",
		"Match user x\n Port 1\n":                 "Match",
		"Host *\n ProxyCommand nc %h %p\n":        "ProxyJump",
		"Host *\n IdentityFile ~/%K\n":            "%K",
		"Host *\n ConnectTimeout soon\n":          "ConnectTimeout",
		"Host *\n ServerAliveCountMax 0\n":        "ServerAliveCountMax",
		"Host *\n UserKnownHostsFile ~/known%i\n": "%i",
	} {
		if _, _, err := resolve(t, "ssh://h", config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", config, err)
		}
	}
}
