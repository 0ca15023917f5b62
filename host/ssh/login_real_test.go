//go:build real && linux

package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/remote"
	"github.com/rein-run/rein/test/sshd"
)

// output runs a short command to its end.
func output(t testing.TB, h *Host, argv ...string) (string, error) {
	t.Helper()
	hh := host.New(h, &host.Options{StartTimeout: patience})
	out, stderr, exit, err := hh.Output(background(t), &driver.Spec{Argv: argv}, 0)
	if err == nil && (exit.Code == nil || *exit.Code != 0) {
		err = fmt.Errorf("%s %v: %s", exit.Reason, exit.Code, stderr)
	}
	return string(out), err
}

// whoami fails unless h can be used.
func whoami(t testing.TB, h *Host) {
	t.Helper()
	defer h.Close()
	if out, err := output(t, h, "echo", "here I am"); err != nil || out != "here I am\n" {
		t.Errorf("echo says %q: %v", out, err)
	}
}

// refused is the error of a host that cannot be used. No error holds a secret.
func refused(t testing.TB, h *Host, secrets ...string) error {
	t.Helper()
	defer h.Close()
	ctx := background(t)
	_, err := h.Start(ctx, &driver.Spec{Argv: []string{"echo", "canary-in-argv"}, Env: driver.Env{"TOKEN": "canary-in-env"}}, discard{})
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, c := range append(secrets, "canary", "PRIVATE KEY") {
		if strings.Contains(err.Error(), c) {
			t.Errorf("the error tells %q: %v", c, err)
		}
	}
	t.Log(err)
	return err
}

type discard struct{}

func (discard) Data(driver.Stream, []byte) {}

// What is refused before anything is said, and what the error tells to do.
func TestHostKeys(t *testing.T) {
	s := sshd.Start(t, &sshd.Options{Config: []string{"HostCertificate " + os.DevNull}})
	whole, err := os.ReadFile(s.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	known := func(name, text string) *Host {
		file := filepath.Join(s.Dir, name)
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return connect(t, s.URL(), Options{Config: s.WriteConfig(name+".config", "IdentityFile "+s.Key, "UserKnownHostsFile "+file, "StrictHostKeyChecking no")})
	}
	other := s.NewKey("other_host", "")
	pub, err := os.ReadFile(other + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	otherKey := strings.Join(strings.Fields(string(pub))[:2], " ")

	t.Run("unknown", func(t *testing.T) {
		for _, text := range []string{"", "github.example " + otherKey + "\n"} {
			err := refused(t, known("none", text))
			unknown, ok := errors.AsType[*UnknownHostError](err)
			if !ok || !errors.Is(err, ErrUnknownHost) || unknown.Line != strings.TrimSpace(string(whole)) || unknown.File != filepath.Join(s.Dir, "none") {
				t.Fatalf("%#v", err)
			}
			// The command in the error does what it promises.
			_, command, ok := strings.Cut(err.Error(), "and then: ")
			if out, err := exec.Command("sh", "-c", command).CombinedOutput(); !ok || err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
			whoami(t, known("none", ""))
		}
	})
	t.Run("changed", func(t *testing.T) {
		err := refused(t, known("changed", fmt.Sprintf("[127.0.0.1]:%s %s\n", s.Port, otherKey)))
		if !errors.Is(err, ErrHostKey) || !strings.Contains(err.Error(), "changed:1") || !strings.Contains(err.Error(), "ssh-keygen -R") {
			t.Errorf("%v", err)
		}
	})
	t.Run("another kind", func(t *testing.T) {
		rsa := filepath.Join(s.Dir, "rsa")
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", rsa).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		pub, err := os.ReadFile(rsa + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		if err := refused(t, known("kind", fmt.Sprintf("[127.0.0.1]:%s %s\n", s.Port, pub))); !errors.Is(err, ErrHostKey) {
			t.Errorf("%v", err)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		_, key, _ := strings.Cut(string(whole), " ")
		err := refused(t, known("revoked", string(whole)+"@revoked * "+key))
		if !errors.Is(err, ErrHostKey) || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("%v", err)
		}
	})
	t.Run("hashed", func(t *testing.T) {
		h := known("hashed", string(whole))
		if out, err := exec.Command("ssh-keygen", "-H", "-f", filepath.Join(s.Dir, "hashed")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if b, _ := os.ReadFile(filepath.Join(s.Dir, "hashed")); strings.Contains(string(b), "127.0.0.1") {
			t.Fatal("it is not hashed")
		}
		whoami(t, h)
	})
}

// A host with a certificate is known by its authority.
func TestHostCertificate(t *testing.T) {
	first := sshd.Start(t, nil) // for its keys
	ca := first.NewKey("ca", "")
	sign := func(args ...string) {
		if out, err := exec.Command("ssh-keygen", append([]string{"-q", "-s", ca}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	key := first.NewKey("certified", "")
	sign("-I", "host", "-h", "-n", "127.0.0.1", key+".pub")
	s := sshd.Start(t, &sshd.Options{Config: []string{"HostKey " + key, "HostCertificate " + key + "-cert.pub"}})
	pub, err := os.ReadFile(ca + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, known := range map[string]bool{"[127.0.0.1]:" + s.Port: true, "elsewhere": false} {
		file := filepath.Join(s.Dir, "ca_hosts")
		if err := os.WriteFile(file, []byte("@cert-authority "+pattern+" "+string(pub)), 0o600); err != nil {
			t.Fatal(err)
		}
		h := connect(t, s.URL(), Options{Config: s.WriteConfig("ca.config", "IdentityFile "+s.Key, "UserKnownHostsFile "+file)})
		if known {
			whoami(t, h)
		} else if err := refused(t, h); !errors.Is(err, ErrUnknownHost) {
			t.Errorf("%v", err)
		}
	}
}

func TestKeys(t *testing.T) {
	s := sshd.Start(t, nil)
	with := func(name string, lines ...string) *Host {
		return connect(t, s.URL(), Options{Config: s.WriteConfig(name, append(lines, "UserKnownHostsFile "+s.KnownHosts)...)})
	}
	t.Run("wrong", func(t *testing.T) {
		wrong := s.NewKey("wrong", "")
		err := refused(t, with("wrong.config", "IdentityFile "+wrong))
		auth, ok := errors.AsType[*AuthError](err)
		if !ok || !errors.Is(err, ErrAuth) || !slices.Equal(auth.Tried, []string{wrong}) {
			t.Errorf("%#v", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		if err := refused(t, with("none.config", "IdentityFile "+s.Dir+"/nothing")); !errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), "nothing (no such file") {
			t.Errorf("%v", err)
		}
	})
	t.Run("locked", func(t *testing.T) {
		locked := s.NewKey("locked", "canary-phrase")
		if err := refused(t, with("locked.config", "IdentityFile "+locked)); !errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), "ssh-add "+locked) {
			t.Errorf("%v", err)
		}
		// The same key, held by an agent.
		b, err := os.ReadFile(locked)
		if err != nil {
			t.Fatal(err)
		}
		key, err := ssh.ParseRawPrivateKeyWithPassphrase(b, []byte("canary-phrase"))
		if err != nil {
			t.Fatal(err)
		}
		allow(t, s, locked)
		socket := sshAgent(t, agent.AddedKey{PrivateKey: key})
		whoami(t, agentHost(t, s, "held.config", "IdentityFile "+locked, "IdentitiesOnly yes", "IdentityAgent "+socket))
		// An agent with a key that nobody named.
		whoami(t, agentHost(t, s, "agent.config", "IdentityAgent "+socket))
	})
	t.Run("certificate", func(t *testing.T) {
		ca, key := s.NewKey("user_ca", ""), s.NewKey("certified_user", "")
		out, err := exec.Command("ssh-keygen", "-q", "-s", ca, "-I", "user", "-n", s.User, key+".pub").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		pub, err := os.ReadFile(ca + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, s, "cert-authority "+string(pub))
		whoami(t, with("cert.config", "IdentityFile "+key))
	})
}

func agentHost(t testing.TB, s *sshd.Server, name string, lines ...string) *Host {
	file := filepath.Join(s.Dir, name)
	lines = append(lines, "UserKnownHostsFile "+s.KnownHosts, "")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return connect(t, s.URL(), Options{Config: file})
}

func allow(t testing.TB, s *sshd.Server, key string) {
	pub, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, string(pub))
}

func appendTo(t testing.TB, s *sshd.Server, line string) {
	f, err := os.OpenFile(filepath.Join(s.Dir, "authorized_keys"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line); err != nil {
		t.Fatal(err)
	}
}

// sshAgent is one that holds a key.
func sshAgent(t testing.TB, keys ...agent.AddedKey) string {
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", dir+"/s")
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
			go func() {
				defer c.Close()
				_ = agent.ServeAgent(ring, c)
			}()
		}
	}()
	return dir + "/s"
}

// Through two jump hosts that have known keys of their own, and one that has not.
func TestJumpHosts(t *testing.T) {
	inner, a, b := sshd.Start(t, nil), sshd.Start(t, nil), sshd.Start(t, nil)
	known := strings.Join([]string{a.HostKey, b.HostKey, "inner.example " + key(inner.HostKey)}, "\n") + "\n"
	config := func(name, known string) string {
		file := filepath.Join(inner.Dir, name)
		if err := os.WriteFile(file, []byte(known), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*sshd.Server{a, b} {
			allow(t, s, inner.Key)
		}
		return inner.WriteConfig(name+".config",
			"Host target", "HostName 127.0.0.1", "Port "+inner.Port, "User "+inner.User, "HostKeyAlias inner.example", "ProxyJump second,"+"third",
			"Host second", "HostName 127.0.0.1", "Port "+a.Port,
			"Host third", "HostName 127.0.0.1", "Port "+b.Port,
			"Host circle", "ProxyJump circle",
			"Host *", "User "+inner.User, "IdentityFile "+inner.Key, "UserKnownHostsFile "+file)
	}
	var dialed []string
	o := Options{Config: config("all", known), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed = append(dialed, addr)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	h := connect(t, "ssh://target", o)
	whoami(t, h)
	if !slices.Equal(dialed, []string{a.Addr()}) {
		t.Errorf("dialed %v from here, want %s alone", dialed, a.Addr())
	}
	if want := inner.URL(); h.Name() != want {
		t.Errorf("its name is %s, want %s", h.Name(), want)
	}
	err := refused(t, connect(t, "ssh://target", Options{Config: config("some", a.HostKey+"\n")}))
	if !errors.Is(err, ErrUnknownHost) || !strings.Contains(err.Error(), "jump host third") {
		t.Errorf("%v", err)
	}
	if err := refused(t, connect(t, "ssh://circle", o)); !strings.Contains(err.Error(), "circle") {
		t.Errorf("%v", err)
	}
}

func key(line string) string {
	_, k, _ := strings.Cut(line, " ")
	return k
}

func TestNobodyAnswers(t *testing.T) {
	s := sshd.Start(t, nil)
	s.Kill()
	if err := refused(t, connect(t, s.URL(), Options{Config: s.Config})); !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("%v", err)
	}
	// One that accepts and says nothing.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config := s.WriteConfig("quick", "ConnectTimeout 1", "IdentityFile "+s.Key)
	if err := refused(t, connect(t, "ssh://"+l.Addr().String(), Options{Config: config})); !strings.Contains(err.Error(), "within 1s") {
		t.Errorf("%v", err)
	}
}

// 50 commands at a time, on a server that lets a connection have ten sessions,
// and on one that lets it have three.
func TestManyAtOnce(t *testing.T) {
	for _, limit := range []string{"10", "3"} {
		t.Run(limit, func(t *testing.T) {
			s := sshd.Start(t, &sshd.Options{Config: []string{"MaxSessions " + limit}})
			var mu sync.Mutex
			conns := 0
			h := connect(t, s.URL(), Options{Config: s.Config, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				conns++
				mu.Unlock()
				return new(net.Dialer).DialContext(ctx, network, addr)
			}})
			defer h.Close()
			const n = 50
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			procs := make([]driver.Process, n)
			outs := make([]*lines, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					outs[i] = &lines{}
					p, err := h.Start(ctx, &driver.Spec{Argv: []string{"cat"}, Duplex: true, Helper: true}, outs[i])
					if err != nil {
						t.Errorf("%d: %v", i, err)
						return
					}
					procs[i] = p
				})
			}
			wg.Wait()
			// All fifty run now, for none has been told to end.
			for i, p := range procs {
				if p == nil {
					continue
				}
				wg.Go(func() {
					if err := p.Write(ctx, fmt.Appendf(nil, "I am %d", i)); err != nil {
						t.Errorf("%d: %v", i, err)
					}
					if err := p.CloseStdin(ctx); err != nil {
						t.Errorf("%d: %v", i, err)
					}
					exit, err := p.Wait(ctx)
					if err != nil || exit.Code == nil || *exit.Code != 0 || outs[i].text() != fmt.Sprintf("I am %d", i) {
						t.Errorf("%d: %v, %+v, %q", i, err, exit, outs[i].text())
					}
				})
			}
			wg.Wait()
			t.Logf("%d connections", conns)
		})
	}
}

type lines struct {
	mu sync.Mutex
	b  []byte
}

func (l *lines) Data(_ driver.Stream, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// The server dies in the middle: lost, with what had come until then, and
// nothing of the command is left there. Afterwards the same host works again.
func TestServerKilled(t *testing.T) {
	each(t, func(t *testing.T, o sshd.Options) {
		s := sshd.Start(t, &o)
		h := connect(t, s.URL(), Options{Config: s.Config})
		defer h.Close()
		mark := "rein-test-" + ssh.FingerprintSHA256(mustKey(t, s))[7:27]
		out := &lines{}
		p, err := h.Start(background(t), &driver.Spec{
			Argv: []string{"sh", "-c", `setsid sh -c 'sleep 3600; : "$0"' "$0" & (trap "" TERM; sleep 3600; : "$0") & echo started; sleep 3600; :`, mark},
		}, out)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the first words", func() bool { return out.text() == "started\n" })
		await(t, "all of it", func() bool { return len(running(t, mark)) >= 3 })
		s.Kill()
		exit, err := p.Wait(background(t))
		if err != nil || exit.Reason != driver.Lost || exit.Code != nil || exit.Stdout != 8 || exit.Containment != "" || !strings.Contains(exit.Detail, s.Addr()) {
			t.Errorf("%v, %+v", err, exit)
		}
		await(t, "an end there", func() bool { return len(running(t, mark)) == 0 })
		again := o
		again.Port = s.Port
		if err := refused(t, connect(t, s.URL(), Options{Config: s.Config})); err == nil {
			t.Error("it is still there")
		}
	})
}

func mustKey(t testing.TB, s *sshd.Server) ssh.PublicKey {
	b, err := os.ReadFile(s.Key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	k, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// running are the processes with the mark among their arguments.
func running(t testing.TB, mark string) (out []string) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), mark) {
			out = append(out, f)
		}
	}
	return out
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

// A dead connection under a host that lives is replaced, and the keeper that
// was put there is found again.
func TestNextConnection(t *testing.T) {
	s := sshd.Start(t, nil)
	puts := 0
	h := connect(t, s.URL(), Options{Config: s.Config, Program: func(goos, goarch string) (*remote.Program, error) {
		puts++
		return self(goos, goarch)
	}})
	defer h.Close()
	for range 3 {
		if out, err := output(t, h, "echo", "x"); err != nil || out != "x\n" {
			t.Errorf("%q, %v", out, err)
		}
		cut(h)
	}
	if puts != 1 {
		t.Errorf("the place was readied %d times", puts)
	}
}

// A link that swallows everything is given up by this side, and the lease ends
// the command on the other.
func TestSilence(t *testing.T) {
	s := sshd.Start(t, nil)
	silent := make(chan struct{})
	h := connect(t, s.URL(), Options{
		Config: s.WriteConfig("quick", "IdentityFile "+s.Key, "UserKnownHostsFile "+s.KnownHosts, "ServerAliveInterval 1", "ServerAliveCountMax 2"),
		Lease:  4 * time.Second,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return hole(t, c, silent), nil
		},
	})
	defer h.Close()
	mark := "rein-silent-" + s.Port
	out := &lines{}
	p, err := h.Start(background(t), &driver.Spec{Argv: []string{"sh", "-c", "echo up; sleep 3600; :", mark}}, out)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the first words", func() bool { return out.text() == "up\n" })
	// Longer than the lease: it is renewed while the link lives.
	time.Sleep(6 * time.Second)
	if len(running(t, mark)) == 0 {
		t.Error("it was ended while the link lived")
	}
	close(silent)
	exit, err := p.Wait(background(t))
	if err != nil || exit.Reason != driver.Lost || !strings.Contains(exit.Detail, "no answer for 2s") {
		t.Errorf("%v, %+v", err, exit)
	}
	await(t, "an end there", func() bool { return len(running(t, mark)) == 0 })
}

// hole is a connection through which nothing comes any more once silent is
// closed, and whose end the other side is not told either.
func hole(t testing.TB, c net.Conn, silent chan struct{}) net.Conn {
	near, far := net.Pipe()
	pump := func(to, from net.Conn) {
		b := make([]byte, 32<<10)
		for {
			n, err := from.Read(b)
			select {
			case <-silent:
				return
			default:
			}
			if err != nil {
				to.Close()
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				from.Close()
				return
			}
		}
	}
	go pump(c, far)
	go pump(far, c)
	t.Cleanup(func() { c.Close(); far.Close() })
	return near
}
