package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// maxHops bounds a chain of jump hosts, which a configuration can make endless.
const maxHops = 8

var errCircle = fmt.Errorf("ProxyJump: more than %d jump hosts, or a circle", maxHops)

// dialer makes connections to one host.
type dialer struct {
	files  *files
	target target
	net    func(ctx context.Context, network, addr string) (net.Conn, error)
}

// client is one connection, and the jump hosts that it goes through.
type client struct {
	*ssh.Client
	addr string
	via  *client

	dead chan struct{} // the connection is over

	mu       sync.Mutex
	cause    error // why, when it was us who gave it up
	sessions int   // under way, or about to be
	limit    int   // of the server, as far as it is known
}

// dial connects to the host. ctx bounds all of it; each hop has ConnectTimeout
// besides.
func (d *dialer) dial(ctx context.Context) (*client, error) {
	return d.reach(ctx, d.target, 0)
}

// reach connects to a host through its own jump hosts.
func (d *dialer) reach(ctx context.Context, t target, depth int) (*client, error) {
	s, err := d.files.resolve(t)
	if err != nil {
		return nil, err
	}
	if depth+len(s.jumps) > maxHops {
		return nil, errCircle
	}
	var via *client
	for i, j := range s.jumps {
		jt, err := jump(j)
		if err != nil {
			via.close(nil)
			return nil, fmt.Errorf("ProxyJump for %s: %w", t.host, err)
		}
		if i == 0 { // it may have jump hosts of its own; the next ones are reached through it
			via, err = d.reach(ctx, jt, depth+1)
		} else {
			via, err = d.hop(ctx, jt, via)
		}
		switch {
		case errors.Is(err, errCircle):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("jump host %s: %w", jt.host, err)
		}
	}
	return d.shake(ctx, s, via)
}

// hop connects to a host through via, which is closed with it.
func (d *dialer) hop(ctx context.Context, t target, via *client) (*client, error) {
	s, err := d.files.resolve(t)
	if err != nil {
		via.close(nil)
		return nil, err
	}
	return d.shake(ctx, s, via)
}

// jump reads one of ProxyJump: [user@]host[:port], or a URL.
func jump(s string) (target, error) {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "ssh://") {
		return parse(s)
	}
	return parse("ssh://" + s)
}

// shake opens the connection, through via or not, and logs in.
func (d *dialer) shake(ctx context.Context, s *settings, via *client) (_ *client, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.connectTimeout, fmt.Errorf("no connection within %v", s.connectTimeout))
	defer cancel()
	defer func() {
		if err != nil {
			via.close(nil)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		}
	}()
	check, algorithms, err := hostKeys(s)
	if err != nil {
		return nil, err
	}
	dial := d.net
	if via != nil {
		dial = via.DialContext
	}
	conn, err := dial(ctx, "tcp", s.addr())
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })() // a channel of a jump host knows no deadline

	var refused error
	var ring *keyring
	defer func() {
		if ring != nil {
			ring.close()
		}
	}()
	c, chans, reqs, err := ssh.NewClientConn(conn, s.addr(), &ssh.ClientConfig{
		User:          s.user,
		ClientVersion: "SSH-2.0-rein",
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			refused = check(host, remote, key)
			return refused
		},
		HostKeyAlgorithms: algorithms,
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			ring = keys(s) // not before the host has proved who it is
			return ring.signers, nil
		})},
	})
	if err != nil {
		conn.Close()
		switch {
		case refused != nil:
			return nil, refused
		case ring != nil && (strings.Contains(err.Error(), "unable to authenticate") || strings.Contains(err.Error(), "authentication failures")):
			return nil, &AuthError{User: s.user, Addr: s.addr(), Tried: ring.tried, Unusable: ring.unusable}
		case len(algorithms) > 0 && strings.Contains(err.Error(), "no common algorithm for host key"):
			return nil, fmt.Errorf("%w: %s has no key of a kind that known_hosts has for it (%s)", ErrHostKey, s.addr(), strings.Join(algorithms, ", "))
		}
		return nil, fmt.Errorf("%s: %w", s.addr(), err)
	}
	out := &client{Client: ssh.NewClient(c, chans, reqs), addr: s.addr(), via: via, dead: make(chan struct{}), limit: maxSessions}
	go func() {
		err := out.Wait()
		out.mu.Lock()
		if out.cause == nil {
			out.cause = err
		}
		out.mu.Unlock()
		out.via.close(nil)
		close(out.dead)
	}()
	go out.keepalive(s.alive, s.aliveMax)
	return out, nil
}

// close gives the connection up. A nil client has none.
func (c *client) close(cause error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	c.Client.Close()
}

// broken says why the connection is over, "" while it is not.
func (c *client) broken() string {
	select {
	case <-c.dead:
	default:
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause == nil, errors.Is(c.cause, io.EOF):
		return "the connection to " + c.addr + " ended"
	case errors.Is(c.cause, net.ErrClosed):
		return "the connection to " + c.addr + " was closed"
	}
	return "the connection to " + c.addr + " broke: " + c.cause.Error()
}

// keepalive gives up a connection on which nothing comes back any more: a dead
// network says so to nobody. The name of the request is OpenSSH's, which answers
// it with a failure like any other that it does not know; both are answers.
func (c *client) keepalive(every time.Duration, most int) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-tick.C:
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _, _ = c.SendRequest("keepalive@openssh.com", true, nil) // ends with the connection
		}()
		wait := time.NewTimer(every * time.Duration(most))
		select {
		case <-answered:
		case <-c.dead:
		case <-wait.C:
			c.close(fmt.Errorf("no answer for %v", every*time.Duration(most)))
		}
		wait.Stop()
	}
}
