// Package unixsock listens on and connects to a unix socket in a directory,
// also when its path is longer than the kernel takes in an address.
package unixsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// maxPath is what fits everywhere with its NUL: sun_path has 108 bytes on Linux
// and Windows, 104 on macOS and the BSDs.
const maxPath = 103

// ErrInUse: another process listens there.
var ErrInUse = errors.New("another process listens on the socket")

// address is where the kernel finds a socket.
type address struct {
	path    string
	release func() // when the address is no longer needed
	forget  func() // instead, by a listener that made the place and is over
}

// Listen listens on the socket name in dir, which should be private (0700): the
// socket itself gets mode 0600 just after it was made. A socket that nobody
// listens on any more is replaced. Closing the listener removes the socket.
func Listen(dir, name string) (net.Listener, error) {
	path := filepath.Join(dir, name)
	a, err := addressOf(dir, name, true)
	if err != nil {
		return nil, err
	}
	l, err := listen(a.path)
	if err != nil {
		// EADDRINUSE: somebody listens, or somebody was killed.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if c, derr := (&net.Dialer{}).DialContext(ctx, "unix", a.path); derr == nil {
			c.Close()
			a.release()
			return nil, fmt.Errorf("listen on %s: %w", path, ErrInUse)
		}
		if st, serr := os.Lstat(a.path); serr == nil && isSocket(st) {
			if os.Remove(a.path) == nil {
				l, err = listen(a.path)
			}
		}
	}
	if err != nil {
		a.release()
		return nil, fmt.Errorf("listen on %s: %w", path, shorten(err))
	}
	if err := os.Chmod(a.path, 0o600); err != nil {
		l.Close()
		a.forget()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &listener{UnixListener: l, forget: a.forget}, nil
}

func listen(path string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// Dial connects to the socket name in dir; ctx bounds the call.
func Dial(ctx context.Context, dir, name string) (net.Conn, error) {
	path := filepath.Join(dir, name)
	a, err := addressOf(dir, name, false)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	defer a.release()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", a.path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, shorten(err))
	}
	return c, nil
}

// shorten takes the address out of an error: a descriptor's path means nothing.
func shorten(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// isSocket: on Windows a socket is a reparse point, which Go calls irregular.
func isSocket(st fs.FileInfo) bool {
	return st.Mode()&(fs.ModeSocket|fs.ModeIrregular) != 0
}

// listener keeps what its address needs until it is closed: closing unlinks the
// socket by that address.
type listener struct {
	*net.UnixListener
	forget func()
}

func (l *listener) Close() error {
	err := l.UnixListener.Close()
	if err == nil {
		l.forget()
	}
	return err
}

// direct is the address of a path that is short enough.
func direct(path string) address { return address{path, nothing, nothing} }

func nothing() {}
