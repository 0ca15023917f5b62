//go:build real && linux

package keeper

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rein-run/rein/host/link"
)

// halfOpen is a transport that passes so much and then nothing, and whose end
// does not reach the other side.
type halfOpen struct {
	io.ReadWriteCloser
	left   atomic.Int64
	closed chan struct{}
}

func (h *halfOpen) Read(p []byte) (int, error) {
	if h.left.Load() <= 0 {
		<-h.closed
		return 0, io.ErrClosedPipe
	}
	n, err := h.ReadWriteCloser.Read(p)
	h.left.Add(-int64(n))
	return n, err
}

func (h *halfOpen) Write(p []byte) (int, error) {
	if h.left.Load() <= 0 {
		return len(p), nil
	}
	return h.ReadWriteCloser.Write(p)
}

func (h *halfOpen) Close() error {
	close(h.closed)
	return nil
}

// The process of a transport whose client has vanished leaves by itself,
// although its daemon has noticed nothing; the output goes on elsewhere.
func TestLinkHalfOpen(t *testing.T) {
	t.Parallel()
	a := newLinkAt(t)
	first := true
	conn, err := link.Dial(t.Context(), func(ctx context.Context) (io.ReadWriteCloser, error) {
		c, err := a.connect(ctx)
		if err == nil && first {
			first = false
			h := &halfOpen{ReadWriteCloser: c, closed: make(chan struct{})}
			h.left.Store(1 << 20)
			t.Cleanup(func() { c.Close() })
			return h, nil
		}
		return c, err
	}, &link.Options{Ping: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	out := newSink()
	p := a.start(conn, prog(t, "flood", "20000000"), out)
	if e := wait(t, p); e.Code == nil || *e.Code != 0 || e.Stdout != 20_000_000 {
		t.Errorf("the end is %+v", e)
	}
	a.over(conn)
	a.wg.Wait() // every process of a transport has left
	if conn.Resumes() == 0 {
		t.Error("nothing was half open")
	}
}
