package far

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rein-run/rein/host/link"
)

// linked is a line over a link: every transport of it is a process, which the
// other side does not depend on.
type linked struct {
	*link.Conn
	h    *Host
	name string // of its directory, which means the other root
	left chan struct{}

	mu      sync.Mutex
	severed bool
	last    *pipes
}

// dial makes a link to a keeper that its first transport starts.
func (h *Host) dial(ctx context.Context) (line, error) {
	l := &linked{h: h, name: home + "/.link/" + strings.ToLower(rand.Text()), left: make(chan struct{})}
	var err error
	if l.Conn, err = link.Dial(ctx, l.connect, h.opt.Link); err != nil {
		return nil, err
	}
	go func() {
		defer close(l.left)
		_ = l.Conn.Wait(context.Background()) // bounded by the lease
		l.awaitServer()
	}()
	return l, nil
}

func (l *linked) connect(context.Context) (io.ReadWriteCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.severed {
		return nil, fmt.Errorf("the network is down: %w", link.ErrFinal)
	}
	p, err := l.h.spawn(l.h.There(l.name))
	if err != nil {
		return nil, err
	}
	l.last = p
	if l.h.opt.Wrap != nil {
		return l.h.opt.Wrap(p), nil
	}
	return p, nil
}

// cut leaves no way back: the other side waits for its lease.
func (l *linked) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.severed = true
	l.last.Close()
}

// awaitServer waits until the other side has removed its directory, the last
// thing that it does.
func (l *linked) awaitServer() {
	lease := l.h.opt.Link.Lease
	if lease == 0 {
		lease = 2 * time.Minute
	}
	for deadline := time.Now().Add(lease + time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(l.h.Here(l.name)); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}

func (l *linked) gone() <-chan struct{} { return l.left }

func (l *linked) leave() { <-l.left }

func (l *linked) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.explain(err)
}
