//go:build unix

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "remote-keeper" {
		os.Exit(keeper.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// shells is a Reach of this machine: a program in an environment that is not
// ours. It counts.
type shells struct {
	env   []string
	noise string // printed before everything, as a profile does

	mu   sync.Mutex
	runs [][]string
	open []*piped
}

type piped struct {
	io.WriteCloser
	out  *os.File
	cmd  *exec.Cmd
	said strings.Builder
	done chan struct{}
}

func (p *piped) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = io.ErrClosedPipe
	}
	return n, err
}

func (p *piped) CloseWrite() error { return p.WriteCloser.Close() }

func (p *piped) Close() error {
	p.WriteCloser.Close()
	p.out.Close()
	return nil
}

func (p *piped) Code() int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(2 * time.Second):
		return -1
	}
}

func (p *piped) Said() string {
	select {
	case <-p.done:
		return strings.Join(strings.Fields(fmt.Sprint(p.cmd.ProcessState, " ", p.said.String())), " ")
	case <-time.After(2 * time.Second):
		return ""
	}
}

func (s *shells) Run(_ context.Context, argv []string) (Stream, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if s.noise != "" {
		argv = append([]string{"/bin/sh", "-c", `printf %s "$0"; exec "$@"`, s.noise}, argv...)
	}
	p := &piped{out: r, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.env, w, &p.said
	p.cmd.WaitDelay = time.Second
	if p.WriteCloser, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs, s.open = append(s.runs, argv), append(s.open, p)
	return p, nil
}

func (s *shells) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.open {
		p.Close()
		<-p.done
	}
	return nil
}

func (s *shells) ran(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, argv := range s.runs {
		if strings.Contains(strings.Join(argv, " "), text) {
			n++
		}
	}
	return n
}

func self(string, string) (*Program, error) {
	exe, err := os.Executable()
	return &Program{File: exe, Args: []string{"remote-keeper"}}, err
}

// somewhere is a home directory with a profile.
func somewhere(t *testing.T, profile string) (*shells, string) {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	return &shells{env: []string{"HOME=" + home, "SHELL=/bin/sh", "PATH=/usr/bin:/bin", "OWN=yes"}}, home
}

func output(t *testing.T, h *Host, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, stderr, exit, err := host.New(h, &host.Options{StartTimeout: time.Minute}).Output(ctx, &driver.Spec{Argv: argv}, 0)
	if err != nil || exit.Code == nil || *exit.Code != 0 {
		t.Fatalf("%v, %+v: %s", err, exit, stderr)
	}
	return string(out)
}

// A keeper is put into an empty home, behind a profile that prints; PATH is the
// profile's, everything else the environment's own; and the second Rein finds
// the keeper there.
func TestPlace(t *testing.T) {
	s, home := somewhere(t, "echo Welcome; PATH=/own/bin:$PATH; export PATH; printf 'no newline'")
	s.noise = "A banner\nwithout end of line"
	h := New(s, &Options{Program: self, Dir: "~/work"})
	if err := os.Mkdir(home+"/work", 0o700); err != nil {
		t.Fatal(err)
	}
	// What else is on PATH is said by /etc/profile.
	got := output(t, h, "sh", "-c", `echo "$PATH $OWN $PWD"`)
	if !strings.HasPrefix(got, "/own/bin:/") || !strings.HasSuffix(got, " yes "+home+"/work\n") {
		t.Errorf("got %q", got)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if n := s.ran("cat >"); n != 1 {
		t.Errorf("%d copies", n)
	}
	files, err := filepath.Glob(home + "/.cache/rein/*")
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if fi, err := os.Lstat(files[0]); err != nil || fi.Mode() != 0o700 {
		t.Errorf("%v, %v", fi, err)
	}
	h = New(s, &Options{Program: self})
	defer h.Close()
	output(t, h, "true")
	if n := s.ran("cat >"); n != 1 {
		t.Errorf("copied again: %d", n)
	}
	if _, err := h.Look(context.Background(), "no-such-program", nil); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// A copy that breaks off leaves nothing: what has the name is whole.
func TestHalfACopy(t *testing.T) {
	s, home := somewhere(t, "")
	file := filepath.Join(home, "program")
	if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := home + "/there"
	if err := put(context.Background(), s, file, dir, "keeper", 5); err == nil || !strings.Contains(err.Error(), "not whole") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := put(context.Background(), s, file, dir, "keeper", 4); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(dir + "/keeper"); err != nil || string(b) != "half" {
		t.Errorf("%q, %v", b, err)
	}
	// A link, and a file, where the folder should be.
	if err := os.Symlink(dir, home+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{home + "/link", file} {
		if err := put(context.Background(), s, file, name, "keeper2", 4); err == nil {
			t.Errorf("%s was taken", name)
		} else {
			t.Log(err)
		}
	}
	if _, err := os.Stat(dir + "/keeper2"); err == nil {
		t.Error("the link was followed")
	}
	s.Close()
}

// What is not a POSIX shell is said, and so is a system for which there is no
// keeper.
func TestNoPlace(t *testing.T) {
	s, _ := somewhere(t, "")
	defer s.Close()
	missing := func(goos, goarch string) (*Program, error) { return in("/opt/rein", "rein", "plan9", "mips") }
	h := New(s, &Options{Program: missing})
	if _, err := h.Look(context.Background(), "", nil); err == nil || !strings.Contains(err.Error(), "GOOS=plan9 GOARCH=mips go build -o /opt/rein/rein-keeper-plan9-mips") {
		t.Errorf("%v", err)
	}
	h = New(without{s}, &Options{Program: self})
	if _, err := h.Look(context.Background(), "", nil); err == nil || !strings.Contains(err.Error(), "exit status 9 This account is not available.") {
		t.Errorf("%v", err)
	}
}

// without is a place without a shell.
type without struct{ *shells }

func (w without) Run(ctx context.Context, _ []string) (Stream, error) {
	return w.shells.Run(ctx, []string{"/bin/sh", "-c", "echo This account is not available. >&2; exit 9"})
}

func TestBeside(t *testing.T) {
	dir := t.TempDir()
	touch := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got := func(goos, goarch string) string {
		p, err := in(dir, "rein", goos, goarch)
		if err != nil {
			return ""
		}
		return strings.TrimPrefix(p.File, dir+"/") + strings.Join(p.Args, " ")
	}
	if g := got(runtime.GOOS, runtime.GOARCH); g != "reinkeeper" {
		t.Errorf("alone: %q", g)
	}
	touch("rein-keeper")
	if g := got(runtime.GOOS, runtime.GOARCH); g != "rein-keeper" {
		t.Errorf("with its keeper: %q", g)
	}
	if g := got("plan9", "arm"); g != "" {
		t.Errorf("for another system: %q", g)
	}
	touch("rein-keeper-plan9-arm")
	if g := got("plan9", "arm"); g != "rein-keeper-plan9-arm" {
		t.Errorf("for another system: %q", g)
	}
}

func TestPathBetween(t *testing.T) {
	for out, want := range map[string]string{
		"Welcome\nM/a:/bM\n": "/a:/b",
		"noiseM/a/bM":        "/a/b",
		"M/a":                "", // cut off
		"":                   "",
		"MM":                 "",
		"Mno slashM":         "",
		"M/a\n/bM":           "",
		"M" + strings.Repeat("/a", maxPath) + "M": "",
	} {
		if got := pathBetween(out, "M"); got != want {
			t.Errorf("%.40q: got %q, want %q", out, got, want)
		}
	}
}

// FuzzBehind: whatever comes first, what comes behind the mark is untouched, and
// without a mark nothing comes.
func FuzzBehind(f *testing.F) {
	f.Add([]byte("noise"), []byte("words"))
	f.Add([]byte("rein-Xrein-"), []byte("rein-X\n"))
	f.Fuzz(func(t *testing.T, noise, words []byte) {
		const mark = "rein-X"
		if strings.Contains(string(noise)+mark+"\n", mark+"\n") && strings.Index(string(noise)+mark+"\n", mark+"\n") != len(noise) {
			return // the mark stands in the noise itself
		}
		b, err := io.ReadAll(behind(text(string(noise)+mark+"\n"+string(words)), mark))
		if err != nil || string(b) != string(words) {
			t.Errorf("%q, %v", b, err)
		}
		if b, err := io.ReadAll(behind(text(noise), mark)); len(b) > 0 || err == nil {
			t.Errorf("without a mark: %q, %v", b, err)
		}
	})
}

func TestNoiseIsBounded(t *testing.T) {
	if _, err := io.ReadAll(behind(text(strings.Repeat("x", maxNoise+1)), "mark")); !errors.Is(err, errNoise) {
		t.Errorf("%v", err)
	}
}

func text(s any) Stream { return &reading{strings.NewReader(fmt.Sprintf("%s", s))} }

type reading struct{ io.Reader }

func (reading) Write(p []byte) (int, error) { return len(p), nil }
func (reading) Close() error                { return nil }
func (reading) CloseWrite() error           { return nil }
func (reading) Code() int                   { return -1 }
func (reading) Said() string                { return "" }
