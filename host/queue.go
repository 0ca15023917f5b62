package host

import (
	"context"
	"io"
	"sync"

	"github.com/rein-run/rein/host/driver"
)

// queueSize bounds what Write takes before the driver has.
const queueSize = 1 << 20

// queue is what stands between Write, which never blocks, and the driver, which
// may. It is there before the command is, so that early writes keep their order.
type queue struct {
	mu     sync.Mutex
	wake   sync.Cond
	parts  [][]byte
	size   int  // bytes in parts and on their way in the driver
	ending bool // CloseStdin: end of file after parts
	closed bool // the end: nothing is taken any more
}

func newQueue() *queue {
	q := new(queue)
	q.wake.L = &q.mu
	return q
}

// put takes p or nothing of it.
func (q *queue) put(p []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed || q.ending:
		return driver.ErrClosed
	case q.size+len(p) > queueSize:
		return driver.ErrBusy
	case len(p) == 0:
		return nil
	}
	q.parts = append(q.parts, append([]byte(nil), p...))
	q.size += len(p)
	q.wake.Signal()
	return nil
}

// end lets the queue run empty and then ends stdin.
func (q *queue) end() {
	q.mu.Lock()
	q.ending = true
	q.mu.Unlock()
	q.wake.Broadcast()
}

// close drops everything.
func (q *queue) close() {
	q.mu.Lock()
	q.closed, q.parts, q.size = true, nil, 0
	q.mu.Unlock()
	q.wake.Broadcast()
}

// next waits for the next part; eof says that there will be none, and whether
// stdin is to be ended for it.
func (q *queue) next() (p []byte, eof, end bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.parts) == 0 && !q.ending && !q.closed {
		q.wake.Wait()
	}
	switch {
	case q.closed:
		return nil, true, false
	case len(q.parts) == 0:
		return nil, true, true
	}
	p, q.parts = q.parts[0], q.parts[1:]
	return p, false, false
}

func (q *queue) written(n int) {
	q.mu.Lock()
	q.size = max(0, q.size-n)
	q.mu.Unlock()
}

// pump gives the queue to the driver until the end.
func (q *queue) pump(ctx context.Context, p driver.Process) {
	for {
		b, eof, end := q.next()
		if eof {
			if end {
				_ = p.CloseStdin(ctx) // it fails only when there is none any more
			}
			return
		}
		if err := p.Write(ctx, b); err != nil {
			q.close()
			return
		}
		q.written(len(b))
	}
}

// feed pumps in to stdin and ends stdin. It returns the error of in; a command
// that does not read to the end is none.
func feed(ctx context.Context, p driver.Process, in io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && p.Write(ctx, buf[:n]) != nil {
			return nil
		}
		if err != nil {
			_ = p.CloseStdin(ctx)
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}
