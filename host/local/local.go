// Package local runs commands on this machine.
package local

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
)

// Options for New; nil and the zero value are fine.
type Options struct {
	// Keeper is the argv that starts a keeper, such as {"/usr/bin/rein",
	// "keeper"}. nil: commands are kept by this process itself, which cannot
	// be made the parent of orphans: what leaves the tree on purpose is found
	// by its cgroup, if one can be made, else by its session or the marker in
	// its environment only.
	Keeper []string
	// Spool is the folder below which every command gets one of its own, named
	// by Spec.ID. "" means no spool.
	Spool string
	// Containment is the strongest means that may be used; "" is the best one
	// there is. A Spec that names one itself is not overruled.
	Containment driver.Containment
	// RequireContainment refuses commands whose tree only the marker would
	// hold, with an error that matches driver.ErrContainment. Helper commands
	// are not refused.
	RequireContainment bool
}

// Host is this machine. It is a driver.Host and a driver.Looker.
type Host struct {
	opt Options

	mu     sync.Mutex
	closed bool
	procs  map[*process]bool
}

// New returns the host. Nothing is started before the first command.
func New(o *Options) *Host {
	h := &Host{procs: make(map[*process]bool)}
	if o != nil {
		h.opt = *o
	}
	return h
}

// Name is what a report calls this host.
func (h *Host) Name() string { return "local:" }

// Look describes this machine; no keeper is started for it.
func (h *Host) Look(_ context.Context, name string, env driver.Env) (*driver.Place, error) {
	place, err := keeper.Describe(name, env)
	if err != nil {
		return nil, err
	}
	dir := h.opt.Spool
	if dir == "" {
		dir = os.TempDir()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return place, nil
	}
	place.Private = dir
	if len(h.opt.Keeper) == 0 || runtime.GOOS == "windows" {
		return place, nil
	}
	exe, err := exec.LookPath(h.opt.Keeper[0])
	if err != nil {
		return place, nil // a start will say what is wrong with it
	}
	if exe, err = filepath.Abs(exe); err != nil {
		return place, nil
	}
	place.Keeper = append([]string{exe}, h.opt.Keeper[1:]...)
	return place, nil
}

// Start starts a command; see driver.Host.
func (h *Host) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	p := &process{host: h, gone: make(chan struct{})}
	if err := h.add(p); err != nil {
		return nil, err
	}
	s := *spec
	if s.Containment == "" {
		s.Containment = h.opt.Containment
	}
	conn, err := p.keeper(&s)
	if err != nil {
		h.remove(p)
		return nil, err
	}
	inner, err := keeper.Start(ctx, conn, &s, out, &keeper.ClientOptions{
		LocalSpool:         h.opt.Spool != "",
		RequireContainment: h.opt.RequireContainment && !s.Helper,
	})
	if err != nil {
		p.awaitKeeper()
		h.remove(p)
		return nil, p.explain(err)
	}
	p.spec = s
	if !h.started(p, inner) { // the host was closed meanwhile
		_ = p.end(context.WithoutCancel(ctx)) // a keeper bounds it
		h.remove(p)
		return nil, errClosed
	}
	go func() {
		<-p.gone
		h.remove(p)
	}()
	return p, nil
}

var errClosed = errors.New("the host is closed")

// started makes p known to Close.
func (h *Host) started(p *process, inner driver.Process) (open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.Process = inner
	return !h.closed
}

func (h *Host) add(p *process) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errClosed
	}
	h.procs[p] = true
	return nil
}

func (h *Host) remove(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.procs, p)
}

// closeWait bounds Close: a keeper needs less for any tree it can end.
const closeWait = 10 * time.Second

// Close ends every command that is still running, and waits for it, at most
// 10 s.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	var all []*process
	for p := range h.procs {
		if p.Process != nil { // else Start has not returned, and will fail
			all = append(all, p)
		}
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	errs := make(chan error, len(all))
	for _, p := range all {
		go func() { errs <- p.end(ctx) }()
	}
	var err error
	for range all {
		err = errors.Join(err, <-errs)
	}
	return err
}

// inProcess serves a command from a goroutine of this process.
func (p *process) inProcess(spool string) io.ReadWriteCloser {
	client, server := keeper.Pipe()
	go func() {
		defer close(p.gone)
		// What is wrong with the stream, the client sees at its own end of it.
		_ = keeper.Serve(context.Background(), server, &keeper.ServeOptions{Spool: spool})
	}()
	return client
}
