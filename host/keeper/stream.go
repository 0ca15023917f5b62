package keeper

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/rein-run/rein/host/driver"
)

// stream is stdout or stderr of the command on its way from the pipe into the
// spool (or into memory, where there is none) and on to the client.
//
//	kept    bytes that were taken from the pipe and are in the spool
//	sent    of these, sent or announced
//	acked   of these, delivered by the client
//
// acked <= sent <= kept <= acked + window, but for the spool while it drains.
type stream struct {
	id       driver.Stream
	pipe     *source  // nil: there is none (stderr merged), at its end from the start
	file     *os.File // nil: no spool
	announce bool     // the client reads the file itself
	out      *outbox
	failed   func(error) // the spool cannot be written

	mu      sync.Mutex
	room    sync.Cond // acked, drain or discard changed
	kept    int64
	sent    int64
	acked   int64
	mem     []byte        // kept, not sent yet; only without file
	drain   bool          // read without limit into the file
	discard bool          // read and forget: nobody can be given the bytes any more
	held    bool          // the window is full: the pump does not look at the pipe
	ended   chan struct{} // the pump has returned
}

func newStream(id driver.Stream, pipe *source, file *os.File) *stream {
	s := &stream{id: id, pipe: pipe, file: file, ended: make(chan struct{})}
	s.room.L = &s.mu
	return s
}

// pump moves bytes until the end of the pipe, or until stop.
func (s *stream) pump() {
	defer close(s.ended)
	if s.pipe == nil {
		return
	}
	defer s.pipe.close()
	m := newMover(s.pipe, s.file)
	disk := writeback{file: s.file}
	var pace pace
	for {
		room, discard := s.waitRoom()
		if discard {
			if err := m.skip(); err != nil {
				return
			}
			continue
		}
		var n int
		var p []byte
		var err error
		if s.file != nil {
			n, err = m.move(s.kept, room) // only the pump changes kept
		} else {
			p, err = m.read(room)
			n = len(p)
		}
		if n > 0 {
			s.mu.Lock()
			s.kept += int64(n)
			if s.file == nil {
				s.mem = append(s.mem, p...)
			}
			due := s.due()
			s.mu.Unlock()
			if due {
				s.out.poke()
			}
			if s.file != nil {
				disk.reached(s.kept)
			}
			pace.moved(n)
		}
		var bad *spoolError
		switch {
		case err == nil:
		case errors.As(err, &bad):
			// What was written stays. The pipe is emptied to nowhere, so that
			// the command does not hang in a write while it is being ended.
			s.setDiscard()
			s.failed(bad.err)
		default:
			return // the end of the pipe, or stop
		}
	}
}

// waitRoom blocks until bytes may be taken from the pipe, and says how many.
func (s *stream) waitRoom() (room int, discard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.held = false }()
	for {
		switch {
		case s.discard:
			return 0, true
		case s.drain && s.file != nil:
			return window, false
		case s.kept-s.acked < window:
			return int(window - (s.kept - s.acked)), false
		}
		s.held = true
		s.room.Wait()
	}
}

// setDrain lifts the window where the bytes have a place to go.
func (s *stream) setDrain() {
	s.mu.Lock()
	s.drain = true
	s.mu.Unlock()
	s.room.Broadcast()
}

func (s *stream) setDiscard() {
	s.mu.Lock()
	s.discard = true
	s.mu.Unlock()
	s.room.Broadcast()
}

// ack notes that the client has delivered everything before off.
func (s *stream) ack(off int64) bool {
	s.mu.Lock()
	ok := off >= s.acked && off <= s.sent
	if ok {
		s.acked = off
	}
	due := s.due()
	s.mu.Unlock()
	s.room.Broadcast()
	if due {
		s.out.poke()
	}
	return ok
}

// due says whether next has something to append; mu is held.
//
// A client that reads the file itself is told at once when it waits. What comes
// while it is at work is announced together: when it has taken the last
// announcement, or, so that it need not come to rest in a flood, when it is
// enough.
func (s *stream) due() bool {
	if s.announce {
		return s.kept > s.sent && (s.sent == s.acked || s.kept-s.sent >= batch)
	}
	return s.kept > s.sent && s.sent-s.acked < window
}

// next appends the next frame of this stream, if there is one to be sent.
func (s *stream) next(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.due() {
		return b
	}
	if s.announce {
		s.sent = s.kept
		return appendOffset(b, kSpooled, s.id, s.kept)
	}
	n := min(s.kept-s.sent, window-(s.sent-s.acked), chunk)
	if s.file == nil {
		b = appendOffset(b, kData, s.id, s.sent, s.mem[:n])
		s.sent += n
		if s.mem = s.mem[n:]; len(s.mem) == 0 {
			s.mem = nil
		}
		return b
	}
	at, start := s.sent, len(b)
	s.mu.Unlock()
	b = appendOffset(b, kData, s.id, at, zeros[:n])
	body := b[len(b)-int(n):]
	got, err := s.file.ReadAt(body, at)
	if got < len(body) {
		// The file was cut short, or the disk is gone. The offsets would lie
		// from here on: the stream must not look complete.
		s.failed(fmt.Errorf("read it back: %w", err))
		b = b[:start]
	}
	s.mu.Lock()
	s.sent += n
	if len(b) == start {
		s.sent = s.kept
	}
	return b
}

// zeros is room for a read, in the shape of something to append.
var zeros [chunk]byte

// allSent says whether the client has been sent all that it will be.
func (s *stream) allSent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.announce || s.sent == s.kept
}

// delivered returns how much the client has taken.
func (s *stream) delivered() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// progress returns the bytes kept so far, and whether the pump waits for the
// client instead of the pipe.
func (s *stream) progress() (kept int64, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept, s.held
}

// stop ends the pump although the pipe is still open.
func (s *stream) stop() {
	s.setDiscard() // it may be waiting for room
	if s.pipe != nil {
		s.pipe.interrupt()
	}
	<-s.ended
}

// spoolError is a failure to write, as opposed to one to read.
type spoolError struct{ err error }

func (e *spoolError) Error() string { return e.err.Error() }
