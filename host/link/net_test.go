package link

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// network is what lies between the two ends: pipes in memory that a test cuts.
type network struct {
	wrap func(net.Conn) io.ReadWriteCloser // of the client's end

	mu    sync.Mutex
	down  bool
	conns []net.Conn
	dials int

	queue  chan net.Conn
	closed chan struct{}
}

func newNetwork() *network {
	return &network{queue: make(chan net.Conn, 64), closed: make(chan struct{})}
}

var errDown = errors.New("no route to host")

func (n *network) connect(context.Context) (io.ReadWriteCloser, error) {
	n.mu.Lock()
	n.dials++
	if n.down {
		n.mu.Unlock()
		return nil, errDown
	}
	near, far := net.Pipe()
	n.conns = append(n.conns, near, far)
	if gone(n.closed) {
		// As Attach says it.
		go Attach(far, func(*Hello) (net.Conn, error) { return nil, ErrGone })
	} else {
		n.queue <- far
	}
	n.mu.Unlock()
	if n.wrap != nil {
		return n.wrap(near), nil
	}
	return near, nil
}

// cut ends all transports; with down, no other will be made.
func (n *network) cut(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

func (n *network) up() {
	n.mu.Lock()
	n.down = false
	n.mu.Unlock()
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.queue:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if gone(n.closed) {
		return nil
	}
	close(n.closed)
	for {
		select {
		case c := <-n.queue:
			c.Close() // as a kernel does
		default:
			return nil
		}
	}
}

func (n *network) Addr() net.Addr { return nil }

// pair makes a link over n.
func pair(t testing.TB, n *network, o *Options) (client, server *Conn) {
	t.Helper()
	client, err := Dial(t.Context(), n.connect, o)
	if err != nil {
		t.Fatal(err)
	}
	// The server is given the key of the first hello, as a keeper does.
	return client, Serve(n, client.key, nil)
}

// send writes n bytes of noise in pieces of all sizes, and returns their hash.
func send(w io.Writer, n int, seed uint64) ([32]byte, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := sha256.New()
	noise := make([]byte, 300<<10)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for n > 0 {
		size := 1 + rng.IntN(200)
		if rng.IntN(3) == 0 {
			size = 1 + rng.IntN(200<<10)
		}
		at := rng.IntN(100 << 10)
		p := noise[at:min(at+min(size, n), len(noise))]
		if _, err := w.Write(p); err != nil {
			return [32]byte{}, err
		}
		h.Write(p)
		n -= len(p)
	}
	return [32]byte(h.Sum(nil)), nil
}

// sum reads n bytes, or to the end with n < 0.
func sum(r io.Reader, n int) ([32]byte, int64, error) {
	h := sha256.New()
	if n >= 0 {
		r = io.LimitReader(r, int64(n))
	}
	got, err := io.Copy(h, r)
	return [32]byte(h.Sum(nil)), got, err
}

func finished(t testing.TB, cs ...*Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, c := range cs {
		if err := c.Wait(ctx); err != nil {
			t.Errorf("Wait: %v", err)
		}
	}
}
