package link

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// chaos is a transport that comes to a bad end: cut, stalled, or half open,
// within a write as well as between two, after a random number of bytes.
type chaos struct {
	net.Conn
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	left int // bytes until the end
	how  int
	rng  *rand.Rand
}

const (
	cutShort = iota
	stall
	deaf // what is written vanishes
	ends
)

var errCut = errors.New("connection reset by peer")

func newChaos(c net.Conn, seed uint64, mean int) *chaos {
	rng := rand.New(rand.NewPCG(seed, 2))
	return &chaos{
		Conn: c, closed: make(chan struct{}), rng: rng, how: rng.IntN(ends),
		left: int(rng.ExpFloat64() * float64(mean)),
	}
}

// spend takes n bytes of what is left, and says how many of them pass.
func (c *chaos) spend(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, c.left)
	c.left -= n
	return n
}

func (c *chaos) Write(p []byte) (int, error) {
	pass := c.spend(len(p))
	n, err := c.Conn.Write(p[:pass])
	if err != nil || n == len(p) {
		return n, err
	}
	return c.end(n, len(p))
}

func (c *chaos) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	pass := c.spend(n)
	if err != nil || pass == n {
		return pass, err
	}
	if pass > 0 {
		return pass, nil
	}
	n, err = c.end(0, 0)
	if err == nil {
		// Deaf in this direction is silent.
		io.Copy(io.Discard, c.Conn)
		<-c.closed
		err = net.ErrClosed
	}
	return n, err
}

func (c *chaos) end(n, all int) (int, error) {
	switch c.how {
	case cutShort:
		c.Conn.Close()
		return n, errCut
	case stall:
		<-c.closed
		return n, net.ErrClosed
	}
	return all, nil
}

func (c *chaos) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// bothWays moves n bytes each way over a link whose transports come to bad ends,
// and compares what arrives.
func bothWays(t *testing.T, seed uint64, n, mean int, o *Options) {
	t.Helper()
	net := newNetwork()
	tries := uint64(0)
	var up atomic.Pointer[Conn]
	net.wrap = func(c conn) io.ReadWriteCloser {
		tries++
		// A link that hears nothing on five transports in a row takes it for a
		// program that is not there.
		if l := up.Load(); tries == maxMute-1 && l != nil && !l.wasUp() {
			return c
		}
		return newChaos(c, seed<<32+tries, mean)
	}
	client, server := pair(t, net, o)
	up.Store(client)
	type result struct {
		what string
		sum  [32]byte
		err  error
	}
	results := make(chan result, 4)
	run := func(what string, f func() ([32]byte, error)) {
		go func() {
			s, err := f()
			results <- result{what, s, err}
		}()
	}
	get := func(c *Conn) func() ([32]byte, error) {
		return func() ([32]byte, error) {
			s, got, err := sum(c, n)
			if err == nil && got != int64(n) {
				err = fmt.Errorf("%d bytes came", got)
			}
			return s, err
		}
	}
	run("client sent", func() ([32]byte, error) { return send(client, n, seed) })
	run("server sent", func() ([32]byte, error) { return send(server, n, seed+1) })
	run("server got", get(server))
	run("client got", get(client))
	all := map[string][32]byte{}
	for range 4 {
		r := <-results
		if r.err != nil {
			t.Errorf("seed %d: %s: %v", seed, r.what, r.err)
			client.Close()
			server.Close()
		}
		all[r.what] = r.sum
	}
	if all["client sent"] != all["server got"] || all["server sent"] != all["client got"] {
		t.Errorf("seed %d: the bytes differ after %d resumptions", seed, client.Resumes())
	}
	client.Close()
	server.Close()
	finishedOrLost(t, client, server)
	if net.dials < 2 {
		t.Errorf("seed %d: nothing was cut", seed)
	}
	t.Logf("seed %d: %d transports", seed, net.dials)
}

type conn = net.Conn

// finishedOrLost: at the very end the last words may be lost so often that one
// side gives up; that is no loss of bytes.
func finishedOrLost(t *testing.T, cs ...*Conn) {
	t.Helper()
	for _, c := range cs {
		if err := c.Wait(t.Context()); err != nil && !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	}
}

// What was written arrives once and in order, whatever befalls the transports.
func TestChaos(t *testing.T) {
	o := &Options{Lease: time.Hour}
	for seed := range uint64(sizes.seeds) {
		bubble(t, func(t *testing.T) { bothWays(t, seed, 512<<10, 60<<10, o) })
	}
	seed := rand.Uint64()
	bubble(t, func(t *testing.T) { bothWays(t, seed, sizes.stream, sizes.stream/sizes.cuts, o) })
}
