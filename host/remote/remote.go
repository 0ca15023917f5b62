// Package remote is what all hosts share whose commands run in another
// environment: it finds out what the place is, puts a keeper there, and runs
// commands through keepers.
//
// A driver gives it a Reach, which starts a program there, and nothing else.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
)

// Reach starts programs in an environment. Its methods may be called
// concurrently.
type Reach interface {
	// Run starts argv there, word for word, and returns its stdin and stdout as
	// one stream. ctx bounds the call only. A program that is not there may be
	// an error, or a stream that ends at once.
	Run(ctx context.Context, argv []string) (Stream, error)
	// Close releases the connection. Streams that are open end.
	Close() error
}

// Stream is stdin and stdout of one program. Close gives both up and unblocks
// Read and Write; it says nothing about the program.
type Stream interface {
	io.ReadWriteCloser
	// CloseWrite ends the program's stdin.
	CloseWrite() error
	// Code is the exit code of the program: 126 or 127 from a shell that could not
	// start it. -1: it has none, or it did not arrive; then the connection is to
	// blame. Like Said it may wait.
	Code() int
	// Said is for errors: how the program ended or the stream broke, and the last
	// that the program wrote on stderr, on one line; "" when nothing is known. It
	// may wait a moment for news that is on its way, 2 s at most.
	Said() string
}

// Options for New; nil and the zero value are fine.
type Options struct {
	// Name is what a report calls the host.
	Name string
	// Dir is where commands run that name no directory; "" is where the
	// environment starts programs. A leading "~/" is the home directory there.
	Dir string
	// Program finds a keeper for a system, to be copied there. nil is Beside.
	Program func(goos, goarch string) (*Program, error)
	// Ready replaces Place, which needs a POSIX shell there: it puts a keeper
	// into the environment and returns the argv that starts it.
	Ready func(ctx context.Context, r Reach) (*Ready, error)
	// Lease is for how long a command lives on when the connection is dead and
	// nobody there has noticed, which takes TCP hours. It is renewed while the
	// connection is up. A Spec.TTL stands instead of it. 0: 2 min.
	Lease time.Duration
	// RequireContainment refuses commands whose tree only a marker would hold.
	// Helper commands are not refused.
	RequireContainment bool
}

// Ready is an environment with a keeper in it.
type Ready struct {
	Keeper []string      // argv that starts the keeper
	Place  *driver.Place // as the keeper tells it
	// Shell is the user's login shell, which is asked for PATH; "": there is none.
	Shell string
	// Sh says that there is a POSIX shell at /bin/sh. It starts the keeper then:
	// with the PATH of the login shell, and behind a mark, so that what a
	// profile prints is not taken for the keeper's words.
	Sh bool
}

// Host runs commands through keepers. It is a driver.Host and a driver.Looker.
type Host struct {
	reach Reach
	opt   Options

	preparing chan struct{} // held by who readies the place
	mu        sync.Mutex
	ready     *Ready
	path      string // of the login shell; "": the keeper's own
	closed    bool
	procs     map[*process]bool
}

// New returns the host that r reaches. Nothing is asked of it before the first
// command.
func New(r Reach, o *Options) *Host {
	h := &Host{reach: r, procs: make(map[*process]bool), preparing: make(chan struct{}, 1)}
	if o != nil {
		h.opt = *o
	}
	if h.opt.Lease <= 0 {
		h.opt.Lease = 2 * time.Minute
	}
	if h.opt.Program == nil {
		h.opt.Program = Beside
	}
	return h
}

// Name is what a report calls this host.
func (h *Host) Name() string { return h.opt.Name }

var errClosed = errors.New("the host is closed")

// prepare readies the place, once; a failure is tried again by the next call.
func (h *Host) prepare(ctx context.Context) (*Ready, error) {
	select {
	case h.preparing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-h.preparing }()
	h.mu.Lock()
	ready, closed := h.ready, h.closed
	h.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if ready != nil {
		return ready, nil
	}
	var err error
	if h.opt.Ready != nil {
		ready, err = h.opt.Ready(ctx, h.reach)
	} else {
		ready, err = Place(ctx, h.reach, h.opt.Program)
	}
	if err != nil {
		return nil, err
	}
	path := h.loginPath(ctx, ready)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready, h.path = ready, path
	return ready, nil
}

// connect starts a keeper.
func (h *Host) connect(ctx context.Context, ready *Ready) (Stream, error) {
	h.mu.Lock()
	path := h.path
	h.mu.Unlock()
	return startKeeper(ctx, h.reach, ready, path)
}

func startKeeper(ctx context.Context, r Reach, ready *Ready, path string) (Stream, error) {
	if !ready.Sh {
		return r.Run(ctx, ready.Keeper)
	}
	mark := newMark()
	s, err := r.Run(ctx, append([]string{"/bin/sh", "-c", keeperScript, mark, path}, ready.Keeper...))
	if err != nil {
		return nil, err
	}
	return behind(s, mark), nil
}

// keeperScript has the mark as $0 and the PATH as $1. Nothing in it means
// anything inside single quotes to any shell that could be a login shell.
const keeperScript = `PATH="${1:-$PATH}"; export PATH; shift; echo "$0"; exec "$@"`

// Look asks a keeper there; see driver.Looker.
func (h *Host) Look(ctx context.Context, name string, env driver.Env) (*driver.Place, error) {
	ready, err := h.prepare(ctx)
	if err != nil {
		return nil, err
	}
	s, err := h.connect(ctx, ready)
	if err != nil {
		return nil, err
	}
	place, err := keeper.Look(ctx, s, name, env) // closes s
	return place, explain(ctx, s, err)
}

// Start starts a command; see driver.Host.
func (h *Host) Start(ctx context.Context, spec *driver.Spec, out driver.Output) (driver.Process, error) {
	p := &process{host: h, over: make(chan struct{})}
	if err := h.add(p); err != nil {
		return nil, err
	}
	if err := h.start(ctx, p, spec, out); err != nil {
		h.remove(p)
		return nil, err
	}
	return p, nil
}

func (h *Host) start(ctx context.Context, p *process, spec *driver.Spec, out driver.Output) error {
	ready, err := h.prepare(ctx)
	if err != nil {
		return err
	}
	if p.stream, err = h.connect(ctx, ready); err != nil {
		return err
	}
	s := *spec
	s.Dir = h.dir(s.Dir, ready.Place.Home)
	leased := s.TTL == 0
	if leased {
		s.TTL = h.opt.Lease
	}
	inner, err := keeper.Start(ctx, p.stream, &s, out, &keeper.ClientOptions{
		RequireContainment: h.opt.RequireContainment && !s.Helper,
	})
	if err != nil {
		return explain(ctx, p.stream, err)
	}
	if !h.started(p, inner) { // the host was closed meanwhile
		_ = p.end(context.WithoutCancel(ctx))
		return errClosed
	}
	go p.watch(leased)
	return nil
}

func (h *Host) dir(dir, home string) string {
	if dir == "" {
		dir = h.opt.Dir
	}
	if dir == "~" || len(dir) > 1 && dir[:2] == "~/" {
		return home + dir[1:]
	}
	return dir
}

// explain adds what the other side said when an answer did not come. What a
// keeper refuses needs no such thing.
func explain(ctx context.Context, s Stream, err error) error {
	if err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || ctx.Err() != nil {
		return err
	}
	if said := s.Said(); said != "" {
		return fmt.Errorf("%w (%s)", err, said)
	}
	return err
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

// started makes p known to Close.
func (h *Host) started(p *process, inner driver.Process) (open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.Process = inner
	return !h.closed
}

// closeWait bounds the wait of Close for the commands.
const closeWait = 10 * time.Second

// Close ends every command that is still running, waits for it, at most 10 s,
// and releases the connection.
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
	return errors.Join(err, h.reach.Close())
}
