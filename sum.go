package rein

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// sum hashes the bytes of a transcript beside their being read: SHA-256 costs
// more than everything else that happens to them, and nobody wants it before
// the report is made.
//
// It lends the buffers that the bytes are read into and takes them back full,
// so that nothing is copied and a quiet agent's line wakes nobody. It is used
// by one goroutine; the zero value is ready.
type sum struct {
	hash hash.Hash
	buf  []byte        // the bytes of the transcript in it are not hashed yet
	made int           // buffers
	full chan []byte   // to the goroutine that hashes
	free chan []byte   // back from it
	done chan struct{} // it has returned
}

const (
	// sumBuffer is how much is read at once: less costs wake-ups, more the cache.
	sumBuffer = 512 << 10
	// sumBuffers bounds how far the hash is behind: then the reading waits for
	// it, and the agent for the reading (law 1).
	sumBuffers = 4
)

// room returns where the next bytes go: at least one, waiting when the hash is
// behind. What took was told of stays valid until the next call.
func (s *sum) room() []byte {
	if len(s.buf) < cap(s.buf) {
		return s.buf[len(s.buf):cap(s.buf)]
	}
	if s.full == nil {
		s.start()
	}
	select {
	case s.buf = <-s.free:
	default:
		if s.made < sumBuffers {
			s.made++
			s.buf = make([]byte, 0, sumBuffer)
		} else {
			s.buf = <-s.free
		}
	}
	return s.buf[:cap(s.buf)]
}

func (s *sum) start() {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.full, s.free, s.done = make(chan []byte, sumBuffers), make(chan []byte, sumBuffers), make(chan struct{})
	go func() {
		defer close(s.done)
		for p := range s.full {
			s.hash.Write(p)
			s.free <- p[:0] // never waits: there is room for all
		}
	}()
}

// took says that the first n bytes of room are the transcript's next ones.
func (s *sum) took(n int) {
	if s.buf = s.buf[:len(s.buf)+n]; len(s.buf) == cap(s.buf) {
		s.full <- s.buf
		s.buf = nil
	}
}

// end waits for the hash of everything and returns it, in hexadecimal. Nothing
// may be added after it.
func (s *sum) end() string {
	if s.full == nil && s.hash == nil {
		s.start() // nothing was written
	}
	if s.full != nil {
		close(s.full)
		<-s.done
		s.hash.Write(s.buf)
		s.full, s.buf = nil, nil
	}
	return hex.EncodeToString(s.hash.Sum(nil))
}
