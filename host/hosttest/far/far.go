// Package far is a host for tests that shares nothing with its caller but the
// kernel: a keeper over a pipe, as another user, with another root, HOME, PATH
// and environment. What works there refers to nothing on the caller's machine.
package far

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/host/link"
)

const (
	shimWord   = "far-shim"
	keeperWord = "far-keeper"

	bin  = "/opt/far/bin" // the only folder on the PATH there
	home = "/home/far"
	prog = bin + "/far-prog"

	// user is who commands run as when the caller is root: nobody, who exists
	// everywhere and owns nothing.
	user = 65534
)

// Main turns the calling test binary into the other side of a Host when it was
// started as such, and returns otherwise. Call it first in TestMain of a package
// that uses a Host, beside hosttest.Main.
func Main() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case shimWord:
		fmt.Fprintln(os.Stderr, "far:", shim(os.Args[2:]))
		os.Exit(1)
	case keeperWord:
		os.Exit(keeper.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
}

// Options for New; nil and the zero value are fine.
type Options struct {
	// Programs are put on the PATH there: name → file on this machine. The test
	// binary is there as far-prog already.
	Programs map[string]string
	// Tools names programs of this machine that are put on the PATH there, such
	// as git. They come with the shared libraries of this machine; sh is also
	// put where scripts expect it.
	Tools []string
	// NoSpool starts keepers that keep no files.
	NoSpool bool
	// Link reaches each command over a link (package link) whose transports are
	// processes; nil: over the two pipes of one process.
	Link *link.Options
	// Wrap stands between a link and each of its transports, to cut them.
	Wrap func(io.ReadWriteCloser) io.ReadWriteCloser
	// Plain leaves the root and the user as they are, which is also what
	// happens when this process may not change them.
	Plain bool
}

// Host is a driver.Host and a driver.Looker.
type Host struct {
	root   string // where the other root is on this machine
	walled bool   // another root and another user; else only another environment
	opt    Options
	binds  []bind

	mu     sync.Mutex
	closed bool
	lines  map[line]driver.Process // nil until it was started
}

// bind puts something of this machine into the other root, read-only.
type bind struct{ from, to string }

// New makes the environment; t's end removes it. t's failure to make it is
// fatal.
func New(t testing.TB, o *Options) *Host {
	t.Helper()
	h := &Host{root: t.TempDir(), lines: map[line]driver.Process{}}
	if o != nil {
		h.opt = *o
	}
	if err := h.build(); err != nil {
		t.Fatalf("far: %v", err)
	}
	t.Cleanup(func() { h.Close() })
	if !h.walled && !h.opt.Plain {
		t.Log("far: this process may not change root and user: only the environment differs")
	}
	return h
}

// Another returns a second host with the same environment; both are to be
// closed.
func (h *Host) Another() *Host {
	return &Host{root: h.root, walled: h.walled, opt: h.opt, binds: h.binds, lines: map[line]driver.Process{}}
}

// Walled says whether commands have another root and another user.
func (h *Host) Walled() bool { return h.walled }

// There returns the name that the file name has where commands run; name is
// absolute and means the other root.
func (h *Host) There(name string) string {
	if h.walled {
		return name
	}
	return path.Join(h.root, name)
}

// Here returns the name of the same file on this machine.
func (h *Host) Here(name string) string { return filepath.Join(h.root, name) }

// Prog is the test binary, where commands run.
func (h *Host) Prog() string { return h.There(prog) }

// Home is the home directory there. Commands may write in it.
func (h *Host) Home() string { return h.There(home) }

// Spool is the folder there below which each command's output is kept.
func (h *Host) Spool() string { return h.There(home + "/.rein") }

// Name is what a report calls this host.
func (h *Host) Name() string { return "far:" }

func (h *Host) build() error {
	root, err := filepath.EvalSymlinks(h.root)
	if err != nil {
		return err
	}
	h.root = root
	self, err := os.Executable()
	if err != nil {
		return err
	}
	h.walled = !h.opt.Plain && mayWall()
	for _, dir := range []string{bin, home, "/tmp", "/dev", "/proc", "/bin", "/usr", "/etc"} {
		if err := os.MkdirAll(h.Here(dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(h.Here("/etc/passwd"), []byte("far:x:65534:65534::"+home+":/bin/sh\n"), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(h.Here("/tmp"), 0o1777); err != nil {
		return err
	}
	if h.walled {
		if err := os.Chown(h.Here(home), user, user); err != nil {
			return err
		}
	}
	if err := h.place(self, prog); err != nil {
		return err
	}
	for name, file := range h.opt.Programs {
		if err := h.place(file, path.Join(bin, name)); err != nil {
			return err
		}
	}
	for _, name := range h.opt.Tools {
		file, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("%s is needed there and not to be found here: %w", name, err)
		}
		if err := h.place(file, path.Join(bin, name)); err != nil {
			return err
		}
		if name == "sh" {
			if err := h.place(file, "/bin/sh"); err != nil {
				return err
			}
		}
	}
	if h.walled {
		return h.libraries()
	}
	return nil
}

// place makes file appear as name there.
func (h *Host) place(file, name string) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	if !h.walled {
		return os.Symlink(file, h.Here(name))
	}
	h.binds = append(h.binds, bind{file, name})
	return os.WriteFile(h.Here(name), nil, 0o755)
}

// libraries makes the shared libraries of this machine appear there, at the
// same place: a test binary built with the race detector needs them.
func (h *Host) libraries() error {
	for _, dir := range []string{"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib64"} {
		fi, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		if fi.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(dir)
			if err != nil {
				return err
			}
			if err := os.Symlink(to, h.Here(dir)); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(h.Here(dir), 0o755); err != nil {
			return err
		}
		h.binds = append(h.binds, bind{dir, dir})
	}
	return nil
}

// line is the stream to one keeper.
type line interface {
	io.ReadWriteCloser
	gone() <-chan struct{} // closed when the keeper has left
	cut()                  // as a broken network would
	leave()                // waits until the keeper has left
	explain(error) error   // adds what the keeper says
}

// pipes are a line of two pipes, as an SSH channel has.
type pipes struct {
	r, w *os.File
	cmd  *exec.Cmd
	said said
	left chan struct{}
}

func (l *pipes) Read(p []byte) (int, error)  { return l.r.Read(p) }
func (l *pipes) Write(p []byte) (int, error) { return l.w.Write(p) }
func (l *pipes) gone() <-chan struct{}       { return l.left }
func (l *pipes) cut()                        { l.Close() }

// Close may be called twice.
func (l *pipes) Close() error {
	err := errors.Join(l.r.Close(), l.w.Close())
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// spawn starts the keeper's program there: as a keeper, or as the far end of the
// link in dir.
func (h *Host) spawn(dir string) (*pipes, error) {
	var args []string
	if dir != "" {
		args = append(args, "link")
	}
	if !h.opt.NoSpool {
		args = append(args, "--spool", h.Spool())
	}
	if dir != "" {
		args = append(args, dir)
	}
	theirIn, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	r, theirOut, err := os.Pipe()
	if err != nil {
		w.Close()
		return nil, err
	}
	defer theirOut.Close()
	l := &pipes{r: r, w: w, left: make(chan struct{})}
	l.cmd, err = h.command(args)
	if err == nil {
		l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = theirIn, theirOut, &l.said
		l.cmd.WaitDelay = time.Second
		l.cmd.Env = []string{} // and not nil, which means all of ours
		err = l.cmd.Start()
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	go func() {
		defer close(l.left)
		_ = l.cmd.Wait()
	}()
	return l, nil
}

// connect makes a line to a new keeper.
func (h *Host) connect(ctx context.Context) (line, error) {
	var l line
	var err error
	if h.opt.Link != nil {
		l, err = h.dial(ctx)
	} else {
		l, err = h.spawn("")
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		l.Close()
		return nil, errors.New("the host is closed")
	}
	h.lines[l] = nil
	return l, nil
}

func (h *Host) forget(l line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lines, l)
}

// Start starts a command; see driver.Host.
func (h *Host) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	l, err := h.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := *spec
	if s.Dir == "" {
		s.Dir = h.Home() // where a login would be
	}
	p, err := keeper.Start(ctx, l, &s, out, nil)
	if err != nil {
		l.Close()
		l.leave()
		h.forget(l)
		return nil, l.explain(err)
	}
	h.mu.Lock()
	h.lines[l] = p
	closed := h.closed
	h.mu.Unlock()
	if closed {
		// Close has looked through the list already.
		l.Close()
		l.leave()
		return nil, errors.New("the host is closed")
	}
	go func() {
		<-l.gone()
		h.forget(l)
	}()
	return &process{p, l}, nil
}

// process waits for its keeper too, so that a host that has reported the end
// of every command has left nothing.
type process struct {
	driver.Process
	line line
}

func (p *process) Wait(ctx context.Context) (driver.Exit, error) {
	exit, err := p.Process.Wait(ctx)
	if err != nil {
		return exit, err
	}
	if exit.Reason != driver.Lost {
		p.line.leave()
	}
	return exit, nil
}

// Look starts a keeper to look; see driver.Looker.
func (h *Host) Look(ctx context.Context, name string, env driver.Env) (*driver.Place, error) {
	l, err := h.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer h.forget(l)
	place, err := keeper.Look(ctx, l, name, env)
	l.Close()
	l.leave()
	if err != nil {
		return nil, l.explain(err)
	}
	return place, nil
}

// Cut severs the links to all commands that run, as a broken network would:
// both sides are left to find out.
func (h *Host) Cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.lines {
		l.cut()
	}
}

// Close ends the commands that run; see driver.Host.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	type pair struct {
		l line
		p driver.Process
	}
	var all []pair
	for l, p := range h.lines {
		all = append(all, pair{l, p})
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var err error
	for _, x := range all {
		if x.p != nil {
			kerr := x.p.Kill(ctx)
			exit, werr := x.p.Wait(ctx)
			if exit.Reason == driver.Lost {
				kerr = nil // nobody can say; the other side ends it
			}
			err = errors.Join(err, kerr, werr)
		}
		x.l.Close()
		x.l.leave()
	}
	return err
}

// leave waits until the keeper has left, which it promises to do within 5 s of
// the end of its stream, and ends one that does not.
func (l *pipes) leave() {
	t := time.NewTimer(20 * time.Second)
	defer t.Stop()
	select {
	case <-l.left:
	case <-t.C:
		_ = l.cmd.Process.Kill()
		<-l.left
	}
}

func (l *pipes) explain(err error) error {
	if s := l.said.String(); s != "" {
		return fmt.Errorf("%w (the keeper says: %s)", err, s)
	}
	return err
}

// said keeps the beginning of what a keeper says on stderr.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Write(p[:min(len(p), max(0, 2000-s.b.Len()))])
	return len(p), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(strings.Fields(s.b.String()), " ")
}
