package ssh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/rein-run/rein/host/remote"
	"github.com/rein-run/rein/internal/shell"
)

// maxSessions is how many sessions sshd lets one connection have (MaxSessions,
// sshd_config(5)) unless it was set up otherwise.
const maxSessions = 10

// pool runs many commands over few connections. It is a remote.Reach.
type pool struct {
	dial func(ctx context.Context) (*client, error)

	dialing chan struct{} // held by who dials: one at a time, or MaxStartups refuses some
	mu      sync.Mutex
	clients []*client
	closed  bool
}

var errClosed = errors.New("the host is closed")

// Run starts argv; see remote.Reach.
func (p *pool) Run(ctx context.Context, argv []string) (remote.Stream, error) {
	// The user's login shell reads this line, whichever it is. exec, so that it
	// does not stay in between.
	line := "exec " + shell.Join(argv)
	for try := 1; ; try++ {
		c, err := p.client(ctx)
		if err != nil {
			return nil, err
		}
		s, err := c.run(ctx, line)
		if err == nil {
			return s, nil
		}
		if g, ok := errors.AsType[*given](err); ok {
			return nil, g.error
		}
		full, none := c.release(err)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case none:
			return nil, fmt.Errorf("%s opens no session: %w", c.addr, err)
		case full:
			continue // on another connection; what cannot be dialed ends this
		case errors.Is(err, errNotOpened) && try < 3:
			// The connection had died, and nothing was started on it.
			c.close(nil)
			<-c.dead
			continue
		}
		return nil, err
	}
}

// client returns a connection with a session to spare, which is then taken.
func (p *pool) client(ctx context.Context) (*client, error) {
	if c, err := p.free(); c != nil || err != nil {
		return c, err
	}
	select {
	case p.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.dialing }()
	if c, err := p.free(); c != nil || err != nil { // somebody else's, meanwhile
		return c, err
	}
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.close(nil)
		return nil, errClosed
	}
	c.take()
	p.clients = append(p.clients, c)
	return c, nil
}

func (p *pool) free() (*client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	p.clients = slices.DeleteFunc(p.clients, func(c *client) bool { return c.broken() != "" })
	for _, c := range p.clients {
		if c.take() {
			return c, nil
		}
	}
	return nil, nil
}

func (c *client) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions >= c.limit {
		return false
	}
	c.sessions++
	return true
}

// release gives a session back. err is why it could not be opened: full says
// that the server has a lower limit than was thought, none that it is nought.
func (c *client) release(err error) (full, none bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions--
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) {
		return false, false
	}
	c.limit = min(c.limit, c.sessions)
	return c.limit > 0, c.limit == 0
}

// Close closes all connections.
func (p *pool) Close() error {
	p.mu.Lock()
	p.closed = true
	all := p.clients
	p.clients = nil
	p.mu.Unlock()
	for _, c := range all {
		c.close(nil)
		<-c.dead
	}
	return nil
}
