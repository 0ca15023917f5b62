package keeper

import (
	"encoding/binary"
	"os"
	"sync"
)

// stdin is the way of the client's bytes into the command's stdin. The client
// keeps to its credit, so the queue is bounded without anybody blocking.
type stdin struct {
	pipe *os.File // nil: the command has none
	out  *outbox

	mu      sync.Mutex
	cond    sync.Cond
	queue   [][]byte
	queued  int
	taken   uint64 // bytes that the pipe has taken, or that were dropped
	told    uint64 // of these, told to the client
	closing bool   // end of file after what is queued
	broken  bool   // the command closed its end
}

func newStdin(pipe *os.File, out *outbox) *stdin {
	s := &stdin{pipe: pipe, out: out}
	s.cond.L = &s.mu
	return s
}

// put queues p. false: the client has overdrawn its credit.
func (s *stdin) put(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pipe == nil || s.closing || s.broken {
		s.taken += uint64(len(p)) // nobody will read it; the credit is given back
		s.out.poke()
		return true
	}
	if s.queued+len(p) > credit {
		return false
	}
	if len(p) > 0 {
		s.queue, s.queued = append(s.queue, p), s.queued+len(p)
	}
	s.cond.Signal()
	return true
}

// close ends stdin after what is queued.
func (s *stdin) close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.cond.Signal()
}

// abort ends stdin at once: nobody is left to read it.
func (s *stdin) abort() {
	s.close()
	if s.pipe != nil {
		s.pipe.Close() // unblocks a write
	}
}

// pump writes until close or until the command has closed its end.
func (s *stdin) pump() {
	if s.pipe == nil {
		return
	}
	defer s.pipe.Close()
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.closing {
			s.cond.Wait()
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		p := s.queue[0]
		s.mu.Unlock()

		// EPIPE and all other errors mean the same here: the command will not
		// read any more. That is not its end.
		_, err := s.pipe.Write(p)

		s.mu.Lock()
		s.queue, s.queued = s.queue[1:], s.queued-len(p)
		s.taken += uint64(len(p))
		if err != nil {
			s.taken += uint64(s.queued)
			s.queue, s.queued, s.broken = nil, 0, true
		}
		s.mu.Unlock()
		if err != nil {
			s.out.frame(kStdinClosed)
			return
		}
		s.out.poke()
	}
}

// next appends the credit that the client does not know of.
func (s *stdin) next(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A quarter at a time: a frame for every small write would cost more than
	// the write. The client is never stopped by the rest.
	if s.taken-s.told < credit/4 && s.queued > 0 || s.taken == s.told {
		return b
	}
	s.told = s.taken
	return appendFrame(b, kCredit, binary.BigEndian.AppendUint64(nil, s.taken))
}
