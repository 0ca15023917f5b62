//go:build linux

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
	search := os.Getenv("PATH")
	if p, ok := spec.Env["PATH"]; ok && !d.is("searches the caller's PATH") {
		search = p
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
	case "sends argv as UTF-8":
		for i := range argv {
			argv[i] = strings.ToValidUTF8(argv[i], "\ufffd")
		}
	}
	p := &plainProcess{d: d, spec: spec, out: out, done: make(chan struct{}), dead: make(chan struct{}), stop: make(chan struct{})}
	p.exit.Containment = driver.ByHost
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
	pl := &driver.Place{OS: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid(), Home: os.Getenv("HOME"), Path: os.Getenv("PATH")}
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

// cut is the harness's broken network.
func (d *plain) cut() {
	d.mu.Lock()
	all := d.all
	d.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		p.lost = !d.is("reports lost as exited")
		p.mu.Unlock()
		if !d.is("leaves the tree when lost") {
			p.end(syscall.SIGKILL)
		}
	}
}

type plainProcess struct {
	d       *plain
	spec    *driver.Spec
	out     driver.Output
	cmd     *exec.Cmd
	inMu    sync.Mutex
	in      *os.File
	readers sync.WaitGroup
	outMu   sync.Mutex
	stop    chan struct{} // closed to stop the sampler
	dead    chan struct{} // the leader is over
	done    chan struct{}

	mu       sync.Mutex
	signaled bool
	ended    bool
	lost     bool
	waits    int
	exit     driver.Exit
}

func (p *plainProcess) is(f string) bool { return p.d.is(f) }

func (p *plainProcess) read(s driver.Stream, r *os.File) {
	defer p.readers.Done()
	defer r.Close()
	b := make([]byte, 64<<10)
	var hoard []byte
	for {
		n, err := r.Read(b)
		data := b[:n]
		if p.is("stops reading at the exit") || p.is("waits for the leader only") {
			time.Sleep(20 * time.Millisecond) // that there is something left then
		}
		switch {
		case n == 0:
		case p.is("drops stderr") && s == driver.Stderr:
			data = nil
		case p.is("decodes output"):
			data = []byte(strings.ToValidUTF8(string(data), "\ufffd"))
		case p.is("translates newlines"):
			data = []byte(strings.ReplaceAll(string(data), "\r", ""))
		case p.is("limits a line") && len(data) == len(b):
			data = data[:len(data)-1]
		case p.is("cuts the tail") && p.wasSignaled():
			data = nil
		}
		if p.is("buffers without bound") {
			hoard = append(hoard, data...)
			data = nil
		}
		if len(data) > 0 {
			p.give(s, data)
		}
		if err != nil {
			break
		}
	}
	if len(hoard) > 0 {
		p.give(s, hoard)
	}
}

func (p *plainProcess) give(s driver.Stream, data []byte) {
	p.mu.Lock()
	if s == driver.Stdout {
		p.exit.Stdout += int64(len(data))
	} else {
		p.exit.Stderr += int64(len(data))
	}
	p.mu.Unlock()
	if !p.is("gives both streams at once") {
		p.outMu.Lock()
		defer p.outMu.Unlock()
	}
	p.out.Data(s, data)
}

func (p *plainProcess) wasSignaled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signaled
}

func (p *plainProcess) sample() {
	o, ok := p.out.(driver.Sampler)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ok && !p.is("takes no samples") {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		m := p.members()
		p.mu.Lock()
		p.exit.RSSMax = max(p.exit.RSSMax, int64(len(m))<<20)
		p.mu.Unlock()
		o.Sample(driver.Sample{Procs: len(m), RSS: int64(len(m)) << 20})
	}
}

func (p *plainProcess) members() []driver.Proc {
	m, _ := scan(p.spec.ID)
	return m
}

// end signals the members until none is left, or once when sig can be ignored.
func (p *plainProcess) end(sig syscall.Signal) {
	if p.is("kills the leader only") {
		p.cmd.Process.Signal(sig)
		return
	}
	if p.is("kills the group only") {
		syscall.Kill(-p.cmd.Process.Pid, sig)
		return
	}
	for empty := 0; empty < 2; {
		m := p.members()
		empty++
		for _, q := range m {
			empty = 0
			end(q, sig)
		}
		if sig != syscall.SIGKILL || p.is("scans once") {
			return
		}
	}
}

func (p *plainProcess) watch(or, er *os.File) {
	if p.is("ends at the end of output") {
		p.readers.Wait()
		p.mu.Lock()
		p.exit.Reason = driver.Exited
		p.mu.Unlock()
		close(p.dead)
		close(p.stop)
		close(p.done)
		p.cmd.Wait()
		return
	}
	_ = p.cmd.Wait() // the state says it all
	p.mu.Lock()
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	p.exit.Reason = driver.Exited
	if p.signaled {
		p.exit.Reason = driver.Killed
	}
	if ws.Signaled() {
		if !p.signaled {
			p.exit.Reason = driver.Signaled
		}
		p.exit.Signal = map[syscall.Signal]string{9: "SIGKILL", 15: "SIGTERM", 11: "SIGSEGV", 2: "SIGINT"}[ws.Signal()]
		if p.is("merges signal and code") {
			code := 128 + int(ws.Signal())
			p.exit.Reason, p.exit.Signal, p.exit.Code = driver.Exited, "", &code
		}
	} else {
		code := ws.ExitStatus()
		p.exit.Code = &code
	}
	close(p.dead)
	lost := p.lost
	p.mu.Unlock()

	if p.is("stops reading at the exit") {
		or.Close()
		er.Close()
	}
	eof := make(chan struct{})
	go func() { p.readers.Wait(); close(eof) }()
	drain := p.spec.Drain
	if drain == 0 {
		drain = time.Second
	}
	held := false
	if !p.is("drains without bound") {
		select {
		case <-eof:
		case <-time.After(drain):
			held = true
		}
	}
	asked := p.wasSignaled()
	if left := p.members(); len(left) > 0 && !lost && !p.is("leaves leftovers") {
		p.mu.Lock()
		if !asked && !p.is("does not name leftovers") {
			p.exit.Leftovers = left
		}
		if !asked && held && !p.is("does not name holders") {
			for _, q := range left {
				if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", q.PID)); strings.HasPrefix(to, "pipe:") {
					p.exit.HeldBy = append(p.exit.HeldBy, q)
				}
			}
		}
		p.mu.Unlock()
		if !p.is("gives leftovers no grace") {
			if !asked {
				p.end(syscall.SIGTERM)
			}
			for begin := time.Now(); len(p.members()) > 0 && time.Since(begin) < p.grace(); {
				time.Sleep(5 * time.Millisecond)
			}
		}
		p.end(syscall.SIGKILL)
	}
	if lost {
		p.end(syscall.SIGKILL)
	}
	select {
	case <-eof:
	case <-time.After(2 * time.Second):
		if p.is("leaves leftovers") || p.is("kills the leader only") || p.is("kills the group only") {
			or.Close()
			er.Close()
		}
		<-eof
	}
	close(p.stop)
	if lost {
		p.mu.Lock()
		p.exit = driver.Exit{Reason: driver.Lost, Detail: "the stream was cut", Containment: driver.ByHost}
		p.mu.Unlock()
	}
	p.inMu.Lock()
	p.closeIn()
	p.inMu.Unlock()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	close(p.done)
	if p.is("gives data after the end") {
		time.Sleep(5 * time.Millisecond)
		p.out.Data(driver.Stdout, []byte("late"))
	}
}

func (p *plainProcess) grace() time.Duration {
	if p.spec.Grace > 0 {
		return p.spec.Grace
	}
	return time.Second
}

func (p *plainProcess) closeIn() {
	if p.in != nil {
		p.in.Close()
		p.in = nil
	}
}

func (p *plainProcess) Write(ctx context.Context, b []byte) error {
	p.inMu.Lock()
	w := p.in
	p.inMu.Unlock()
	if w == nil {
		if p.is("writes after the end") {
			return nil
		}
		return driver.ErrClosed
	}
	if p.is("drops early writes") {
		select {
		case <-p.dead:
		case <-time.After(10 * time.Millisecond):
			p.d.mu.Lock()
			p.waits++
			first := p.waits == 1
			p.d.mu.Unlock()
			if first {
				return nil
			}
		}
	}
	if p.is("reorders writes") {
		b = slices.Clone(b)
		p.mu.Lock()
		p.waits++
		odd := p.waits%2 == 1
		p.mu.Unlock()
		if odd {
			time.AfterFunc(20*time.Millisecond, func() { w.Write(b) })
			return nil
		}
	}
	if p.is("keeps the caller's buffer") {
		time.AfterFunc(time.Millisecond, func() { w.Write(b) })
		return nil
	}
	deadline, _ := ctx.Deadline()
	if !p.is("writes without bound") {
		w.SetWriteDeadline(deadline)
		stop := context.AfterFunc(ctx, func() { w.SetWriteDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	_, err := w.Write(b)
	switch {
	case errors.Is(err, syscall.EPIPE) && p.is("ends when stdin is closed"):
		p.Kill(ctx)
		return driver.ErrClosed
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed):
		return driver.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.DeadlineExceeded
	}
	return err
}

func (p *plainProcess) CloseStdin(context.Context) error {
	p.inMu.Lock()
	defer p.inMu.Unlock()
	if !p.is("does not close stdin") {
		p.closeIn()
	}
	return nil
}

// begin notes that a signal is sent, unless the leader is over.
func (p *plainProcess) begin() {
	// The leader may be a zombie that watch has not waited for yet.
	if m := p.members(); !slices.ContainsFunc(m, func(q driver.Proc) bool { return q.PID == p.cmd.Process.Pid }) &&
		!p.is("calls every end after a kill killed") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signaled = true
	if p.is("calls every end after a kill killed") {
		p.exit.Reason = driver.Killed
	}
}

func (p *plainProcess) Signal(_ context.Context, sig driver.Signal) error {
	s := syscall.SIGTERM
	if sig == driver.Interrupt && !p.is("knows no interrupt") {
		s = syscall.SIGINT
	}
	p.begin()
	if p.is("signals the leader only") {
		p.cmd.Process.Signal(s)
		return nil
	}
	p.end(s)
	return nil
}

func (p *plainProcess) Kill(ctx context.Context) error {
	p.begin()
	if p.is("kills behind the output") {
		p.outMu.Lock()
		defer p.outMu.Unlock()
	}
	if p.is("ends the stream, not the command") {
		p.mu.Lock()
		defer p.mu.Unlock()
		return nil
	}
	p.end(syscall.SIGKILL)
	if p.is("has no second kill") {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waits++
		if p.waits > 1 {
			return errors.New("no such process")
		}
	}
	select {
	case <-p.dead:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *plainProcess) Wait(ctx context.Context) (driver.Exit, error) {
	if p.is("waits for the leader only") {
		select {
		case <-p.dead:
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.exit, nil
		case <-ctx.Done():
			return driver.Exit{}, ctx.Err()
		}
	}
	done := ctx.Done()
	if p.is("ends when Wait gives up") {
		context.AfterFunc(ctx, func() { p.end(syscall.SIGKILL) })
	}
	select {
	case <-p.done:
	case <-done:
		if p.is("ends when Wait gives up") {
			return driver.Exit{Reason: driver.Killed}, nil
		}
		return driver.Exit{}, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits++
	if p.is("ends twice") && p.waits > 1 {
		return driver.Exit{Reason: driver.Killed}, nil
	}
	return p.exit, nil
}

func plainHarness(t testing.TB, fault string) Harness {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Harness{
		Make: func(testing.TB) driver.Host { return &plain{fault: fault} },
		Prog: self,
		Dir:  resolved(t, t.TempDir()),
		Cut:  func(_ testing.TB, d driver.Host) { d.(*plain).cut() },

		Containment: driver.ByHost,
		NoCrash:     "nothing of it outlives the test",
		NoSpool:     "it has no spool",
		NoName:      "the test binary is on no PATH",
	}
}

func resolved(t testing.TB, dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
