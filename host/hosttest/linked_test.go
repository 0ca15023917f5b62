//go:build linux

package hosttest

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/host/link"
)

// linkHarness is the far host over links.
func linkHarness(t testing.TB, lease time.Duration, wrap func(io.ReadWriteCloser) io.ReadWriteCloser) Harness {
	return farHarness(t, &far.Options{Link: &link.Options{Ping: 2 * time.Second, Lease: lease}, Wrap: wrap})
}

// badLine is a transport that comes to an end: cut or silent, in the middle of a
// frame as well as between two, after a random number of bytes and a random time.
type badLine struct {
	io.ReadWriteCloser
	closed chan struct{}
	once   sync.Once
	timer  *time.Timer

	mu    sync.Mutex
	left  int
	quiet bool // it ends by silence
}

var errCut = errors.New("the line was cut")

func newBadLine(c io.ReadWriteCloser, bytes int, after time.Duration) *badLine {
	l := &badLine{
		ReadWriteCloser: c, closed: make(chan struct{}),
		left: int(rand.ExpFloat64() * float64(bytes)), quiet: rand.IntN(8) == 0,
	}
	l.timer = time.AfterFunc(time.Duration(rand.ExpFloat64()*float64(after)), func() { l.Close() })
	return l
}

func (l *badLine) spend(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.left)
	l.left -= n
	return n
}

func (l *badLine) Write(p []byte) (int, error) {
	pass := l.spend(len(p))
	n, err := l.ReadWriteCloser.Write(p[:pass])
	if err != nil || n == len(p) {
		return n, err
	}
	return n, l.end()
}

func (l *badLine) Read(p []byte) (int, error) {
	n, err := l.ReadWriteCloser.Read(p)
	if pass := l.spend(n); err == nil && pass < n {
		return pass, l.end()
	}
	return n, err
}

func (l *badLine) end() error {
	if l.quiet {
		<-l.closed
	}
	l.Close()
	return errCut
}

func (l *badLine) Close() (err error) {
	l.once.Do(func() {
		l.timer.Stop()
		close(l.closed)
		err = l.ReadWriteCloser.Close()
	})
	return err
}
