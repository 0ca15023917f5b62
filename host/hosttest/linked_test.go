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
// The time begins with the first word of the other side: a link gives up when
// five transports in a row end before it, and a busy machine is slow to start
// the program that speaks it.
type badLine struct {
	io.ReadWriteCloser
	closed chan struct{}
	once   sync.Once
	spoken sync.Once
	after  time.Duration

	mu    sync.Mutex
	left  int
	quiet bool // it ends by silence
}

var errCut = errors.New("the line was cut")

func newBadLine(c io.ReadWriteCloser, bytes int, after time.Duration) *badLine {
	return &badLine{
		ReadWriteCloser: c, closed: make(chan struct{}), after: time.Duration(rand.ExpFloat64() * float64(after)),
		left: minLine + int(rand.ExpFloat64()*float64(bytes)), quiet: rand.IntN(8) == 0,
	}
}

// minLine is enough for a hello and its answer.
const minLine = 256

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
	if n > 0 {
		l.spoken.Do(func() {
			go func() { // ends with the line at the latest
				t := time.NewTimer(l.after)
				defer t.Stop()
				select {
				case <-t.C:
					l.Close()
				case <-l.closed:
				}
			}()
		})
	}
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
		close(l.closed)
		err = l.ReadWriteCloser.Close()
	})
	return err
}
