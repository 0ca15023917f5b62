//go:build linux

package inside

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rein-run/rein/internal/unixsock"
)

// dialTime bounds the way to the socket, and to what a mirror stands for.
const dialTime = 30 * time.Second

// relay carries every connection to the socket. Where that is gone, so is Rein.
func relay(c Config) error {
	name := append([]byte(RelayName), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	targets := []string{""} // the proxy itself
	if c.Landlock == nil {
		targets = append(targets, c.Mirror...)
	}
	failed := make(chan error, len(targets))
	for i, target := range targets {
		f := os.NewFile(uintptr(3+i), "listener")
		l, err := net.FileListener(f)
		if err != nil {
			return err
		}
		f.Close()
		go func() { failed <- c.serve(l, target) }()
	}
	return <-failed
}

func (c Config) serve(l net.Listener, target string) error {
	for {
		in, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer in.Close()
			out, r, err := c.dial(target)
			if err != nil {
				_, _ = io.WriteString(in, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				return
			}
			defer out.Close()
			go func() {
				_, _ = io.Copy(out, in)
				_ = out.(*net.UnixConn).CloseWrite()
			}()
			_, _ = io.Copy(in, r)
		}()
	}
}

// dial connects to the proxy outside and, through it, to target, unless that is
// "". r is what is read from the connection.
func (c Config) dial(target string) (conn net.Conn, r io.Reader, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	if conn, err = unixsock.Dial(ctx, c.Dir, c.Name); err != nil || target == "" {
		return conn, conn, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	_ = conn.SetDeadline(time.Now().Add(dialTime))
	if _, err = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return nil, nil, err
	}
	br := bufio.NewReader(conn)
	err = granted(br)
	_ = conn.SetDeadline(time.Time{})
	return conn, br, err
}

// granted reads the answer to CONNECT. (net/http would make a keeper of this
// program that is twice as large.)
func granted(r *bufio.Reader) error {
	status, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return err
		case n > 100:
			return errors.New("the proxy's answer does not end")
		case strings.TrimSpace(line) != "":
		case strings.HasPrefix(status, "HTTP/1.1 200 "):
			return nil
		default:
			return fmt.Errorf("the proxy says %q", strings.TrimSpace(status))
		}
	}
}
