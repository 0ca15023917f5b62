package link

import "fmt"

// chunk is some bytes of the stream in the frame in which they are sent: what
// is written to a transport, and written again to the next, is not copied.
type chunk struct {
	b      []byte // room for the head, then the bytes
	off    uint64
	sealed bool // it has been sent: nothing is added any more
	busy   bool // a write of it is under way: the memory is not to be used again
}

func (k *chunk) end() uint64 { return k.off + uint64(len(k.b)-headSize) }

func (k *chunk) seal() {
	if !k.sealed {
		k.sealed = true
		head{kData, k.off, len(k.b) - headSize}.put(k.b)
	}
}

// outgoing is what was written and is not known to have been read.
type outgoing struct {
	chunks []*chunk
	first  uint64 // number of chunks[0], counted from the beginning
	base   uint64 // read by the peer
	sent   uint64 // sent at least once
	end    uint64
}

// add takes bytes of p, at most room, and returns how many.
func (o *outgoing) add(p []byte, room int, m *memory) int {
	var k *chunk
	if n := len(o.chunks); n > 0 && !o.chunks[n-1].sealed && len(o.chunks[n-1].b) < headSize+maxData {
		k = o.chunks[n-1]
	} else {
		k = &chunk{off: o.end, b: m.get(headSize + min(len(p), maxData))[:headSize]}
		o.chunks = append(o.chunks, k)
	}
	n := min(len(p), room, headSize+maxData-len(k.b))
	k.b = append(k.b, p[:n]...)
	o.end += uint64(n)
	return n
}

// ack lets go of what the peer has read.
func (o *outgoing) ack(n uint64, m *memory) error {
	if n > o.sent {
		return fmt.Errorf("%w: %d bytes acknowledged, %d were sent", errFrame, n, o.sent)
	}
	if n <= o.base {
		return nil // of an earlier transport
	}
	o.base = n
	for len(o.chunks) > 0 && o.chunks[0].end() <= n {
		if k := o.chunks[0]; !k.busy {
			m.put(k.b)
		}
		o.chunks[0] = nil
		o.chunks = o.chunks[1:]
		o.first++
	}
	return nil
}

// seek returns the number of the first chunk that holds a byte beyond received.
func (o *outgoing) seek(received uint64) (uint64, error) {
	if received < o.base || received > o.sent {
		return 0, fmt.Errorf("%w: the peer has %d bytes, of %d to %d", errFrame, received, o.base, o.sent)
	}
	n := o.first
	for _, k := range o.chunks {
		if k.end() > received {
			break
		}
		n++
	}
	return n, nil
}

// next returns chunk number n, or nil.
func (o *outgoing) next(n uint64) *chunk {
	if n -= o.first; n < uint64(len(o.chunks)) {
		return o.chunks[n]
	}
	return nil
}

// incoming is what has come and was not read yet.
type incoming struct {
	queue    [][]byte
	at       int    // bytes of queue[0] that were read
	received uint64 // in order, without a gap
	read     uint64
	told     uint64 // of these, the peer knows
	fin      bool   // there is no more
}

// add takes the bytes at off. What is there already is dropped, a gap is a
// breach: frames of one transport come in order, and each transport begins at
// what was received.
func (in *incoming) add(off uint64, p []byte, m *memory) (fresh bool, err error) {
	switch {
	case off > in.received:
		return false, fmt.Errorf("%w: offset %d, %d bytes have come", errFrame, off, in.received)
	case in.received-off >= uint64(len(p)):
		m.put(p)
		return false, nil
	case in.fin:
		return false, fmt.Errorf("%w: data behind the end", errFrame)
	}
	p = p[in.received-off:]
	if in.received-in.read+uint64(len(p)) > maxBuffer {
		return false, fmt.Errorf("%w: more than %d bytes that were not read", errFrame, maxBuffer)
	}
	in.queue = append(in.queue, p)
	in.received += uint64(len(p))
	return true, nil
}

// take moves bytes into p.
func (in *incoming) take(p []byte, m *memory) (n int) {
	for n < len(p) && len(in.queue) > 0 {
		q := in.queue[0]
		k := copy(p[n:], q[in.at:])
		n += k
		if in.at += k; in.at == len(q) {
			m.put(q)
			in.queue[0], in.at = nil, 0
			in.queue = in.queue[1:]
		}
	}
	in.read += uint64(n)
	return n
}

// drop forgets what nobody will read.
func (in *incoming) drop() {
	in.queue, in.at, in.read = nil, 0, in.received
}

// memory keeps a few buffers for the next frames.
type memory struct{ free [][]byte }

const (
	worthKeeping = 16 << 10
	mostKept     = 8
)

func (m *memory) get(n int) []byte {
	for i := len(m.free) - 1; i >= 0 && n > worthKeeping/2; i-- {
		b := m.free[i]
		m.free = m.free[:i]
		if cap(b) >= n {
			return b[:n]
		}
		// Too small for what comes now: it would only be in the way.
	}
	return make([]byte, n)
}

func (m *memory) put(b []byte) {
	if cap(b) >= worthKeeping && len(m.free) < mostKept {
		m.free = append(m.free, b)
	}
}
