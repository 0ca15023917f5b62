//go:build linux && real

package hosttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// plain is the simplest host that passes the kit, for the kit's own tests: it
// is no model, since it finds its processes by the kit's mark. Each fault makes
// it break one rule.
type plain struct {
	fault string
	path  string // its own PATH
	mu    sync.Mutex
	all   []*plainProcess
	over  bool
}

func (d *plain) is(fault string) bool { return d.fault == fault }

func (d *plain) resolve(spec *driver.Spec) (string, error) {
	name := spec.Argv[0]
	if name == "" {
		return "", &driver.NotFoundError{Name: name, Why: "empty name"}
	}
	search := d.path
	if p, ok := spec.Env["PATH"]; ok {
		search = p
	}
	if d.is("searches the caller's PATH") {
		search = os.Getenv("PATH")
	}
	if strings.Contains(name, "/") {
		return name, runnable(name)
	}
	for _, dir := range filepath.SplitList(search) {
		if runnable(filepath.Join(dir, name)) == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", &driver.NotFoundError{Name: name, Path: search}
}

func runnable(name string) error {
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return &driver.NotFoundError{Name: name}
	case fi.IsDir():
		return &driver.NotFoundError{Name: name, Why: "is a directory"}
	case fi.Mode()&0o111 == 0:
		return &driver.NotFoundError{Name: name, Why: "is not executable"}
	}
	return nil
}

func (d *plain) environ(spec *driver.Spec) []string {
	m := map[string]string{}
	if !d.is("gives the environment alone") {
		for _, kv := range os.Environ() {
			k, v, _ := strings.Cut(kv, "=")
			m[k] = v
		}
	}
	if !d.is("gives the environment alone") {
		m["PATH"] = d.path
	}
	for k, v := range spec.Env {
		m[k] = v
		if d.is("trims values") {
			m[k] = strings.TrimSpace(v)
		}
	}
	m["REIN_RUN"] = spec.ID
	if d.is("sets no marker") {
		delete(m, "REIN_RUN")
	}
	for _, k := range spec.Unset {
		switch d.fault {
		case "stringifies unset":
			m[k] = "false"
		case "empties unset":
			m[k] = ""
		case "lets Env beat Unset":
			if _, ok := spec.Env[k]; !ok {
				delete(m, k)
			}
		default:
			delete(m, k)
		}
	}
	var list []string
	for k, v := range m {
		list = append(list, k+"="+v)
	}
	return list
}

func (d *plain) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return nil, errors.New("host is closed")
	}
	if err := ctx.Err(); err != nil && !d.is("starts when cancelled") {
		return nil, err
	}
	if len(spec.Argv) == 0 && d.is("starts something for nothing") {
		s := *spec
		s.Argv = []string{"/proc/self/exe", word, spec.ID}
		spec = &s
	}
	if len(spec.Argv) == 0 {
		return nil, errors.New("no command")
	}
	exe, err := d.resolve(spec)
	if err != nil {
		if d.is("has untyped errors") {
			err = errors.New(err.Error())
		}
		if d.is("tells argv in errors") {
			err = fmt.Errorf("%q: %w", spec.Argv, err)
		}
		return nil, err
	}
	if fi, err := os.Stat(spec.Dir); spec.Dir != "" && (err != nil || !fi.IsDir()) {
		if !d.is("does not check the directory") {
			return nil, fmt.Errorf("%s: %w", spec.Dir, driver.ErrNoDir)
		}
	}
	argv := slices.Clone(spec.Argv)
	switch d.fault {
	case "joins and splits argv":
		argv = strings.Fields(strings.Join(argv, " "))
	case "drops empty arguments":
		argv = slices.DeleteFunc(argv, func(s string) bool { return s == "" })
	case "cuts long arguments":
		for i := range argv {
			argv[i] = argv[i][:min(len(argv[i]), 100_000)]
		}
	case "sends argv as UTF-8":
		for i := range argv {
			argv[i] = strings.ToValidUTF8(argv[i], "\ufffd")
		}
	}
	p := &plainProcess{
		d: d, spec: spec, out: out, done: make(chan struct{}), dead: make(chan struct{}), stop: make(chan struct{}),
		inClosed: make(chan struct{}),
	}
	p.exit.Containment = driver.ByHost
	if spec.Containment != "" && !d.is("takes what means it likes") {
		p.exit.Containment = spec.Containment
	}
	if d.is("claims a cgroup") {
		p.exit.Containment = driver.ByCgroup
	}
	cmd := &exec.Cmd{Path: exe, Args: argv, Env: d.environ(spec), Dir: spec.Dir}
	if d.is("ignores the directory") {
		cmd.Dir = ""
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var close []io.Closer
	defer func() {
		for _, c := range close {
			c.Close()
		}
	}()
	or, ow, _ := os.Pipe()
	er, ew, _ := os.Pipe()
	close = append(close, ow, ew)
	cmd.Stdout, cmd.Stderr = ow, ew
	if spec.MergeStderr || d.is("merges stderr") {
		cmd.Stderr = ow
	}
	if d.is("never merges stderr") {
		cmd.Stderr = ew
	}
	if spec.Duplex || d.is("leaves stdin open") {
		r, w, _ := os.Pipe()
		cmd.Stdin, p.in = r, w
		close = append(close, r)
	}
	if err := cmd.Start(); err != nil {
		or.Close()
		er.Close()
		if p.in != nil {
			p.in.Close()
		}
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is known, and may be long
		}
		if d.is("calls every refusal not found") {
			err = &driver.NotFoundError{Name: argv[0]}
		}
		return nil, fmt.Errorf("start: %w", err)
	}
	p.cmd = cmd
	if d.is("ends with the context of Start") {
		context.AfterFunc(ctx, func() { p.Kill(context.Background()) })
	}
	if d.is("leaves what it refuses") {
		select {
		case <-ctx.Done():
			or.Close()
			er.Close()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	p.readers.Add(2)
	go p.read(driver.Stdout, or)
	go p.read(driver.Stderr, er)
	go p.watch(or, er)
	go p.sample()
	if spec.TTL > 0 && !d.is("has no time to live") {
		time.AfterFunc(spec.TTL, func() { p.Kill(context.Background()) })
	}
	d.all = append(d.all, p)
	return p, nil
}

func (d *plain) Look(_ context.Context, name string, env driver.Env) (*driver.Place, error) {
	pl := &driver.Place{OS: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid(), Home: os.Getenv("HOME"), Path: d.path}
	if name == "" {
		return pl, nil
	}
	if d.is("looks elsewhere") {
		pl.Home = "/"
	}
	exe, err := d.resolve(&driver.Spec{Argv: []string{name}, Env: env})
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(exe)
	if err != nil {
		return nil, err
	}
	pl.Exe, pl.Size, pl.ModTime = exe, fi.Size(), fi.ModTime()
	return pl, nil
}

func (d *plain) Close() error {
	d.mu.Lock()
	d.over = !d.is("starts when closed")
	all := d.all
	d.all = nil
	d.mu.Unlock()
	if d.is("leaves commands at Close") {
		return nil
	}
	for _, p := range all {
		p.Kill(context.Background())
		<-p.done
	}
	return nil
}

func (d *plain) commands() []*plainProcess {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// cut is the harness's broken network.
func (d *plain) cut() {
	for _, p := range d.commands() {
		p.mu.Lock()
		p.lost = !d.is("reports lost as exited")
		p.mu.Unlock()
		if !d.is("leaves the tree when lost") {
			p.end(syscall.SIGKILL)
		}
	}
}

func plainHarness(t testing.TB, fault string) Harness {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	if err := os.Symlink(self, filepath.Join(own, "plain-prog")); err != nil {
		t.Fatal(err)
	}
	search := own + string(filepath.ListSeparator) + os.Getenv("PATH")
	return Harness{
		Make: func(testing.TB) driver.Host { return &plain{fault: fault, path: search} },
		Prog: self,
		Name: "plain-prog",
		Dir:  resolved(t, t.TempDir()),
		Cut:  func(_ testing.TB, d driver.Host) { d.(*plain).cut() },

		Containment: driver.ByHost,
		Weaker:      []driver.Containment{driver.ByMarker},
		NoCrash:     "nothing of it outlives the test",
		NoSpool:     "it has no spool",
	}
}
