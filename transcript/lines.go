package transcript

import (
	"bytes"

	"github.com/rein-run/rein/agent"
)

// MaxLine is the longest line, without its newline, that is given whole. Longer
// ones are elided; the transcript has all of them.
const MaxLine = 4 << 20

// keepBuf is the buffer that is kept between lines. A run that once wrote one
// long line must not hold megabytes for the rest of its life.
const keepBuf = 256 << 10

// Elider shortens one line that is longer than MaxLine. The line is fed in
// chunks, without the newline; p is valid only during the call.
type Elider interface {
	Write(p []byte)
	// Line is what is left of the line, at most MaxLine bytes, and whether
	// anything was left out. Called once, last.
	Line() (b []byte, elided bool)
}

// Lines splits the bytes of one stream into lines. A line is what ends in 0x0A:
// a carriage return stays in it, U+2028 does not end it, and it may be of any
// length (memory stays below 8 MiB). How the bytes are cut into chunks makes no
// difference. The zero value begins at offset 0. It is used by one goroutine.
type Lines struct {
	// NewElider makes the Elider of one long line. nil: the head of the line
	// is given, 64 KiB.
	NewElider func() Elider

	limit  int    // MaxLine; tests make it small
	offset int64  // of the first byte of the unfinished line
	size   int64  // of the unfinished line so far
	buf    []byte // the unfinished line, unless long is set
	long   Elider // takes the unfinished line when it is longer than MaxLine
}

// Start says where in the transcript the next byte lies; it must be the first
// one of a line. What was unfinished is forgotten.
func (l *Lines) Start(offset int64) {
	l.reset()
	l.offset = offset
}

// Offset is where the next byte lies in the transcript.
func (l *Lines) Offset() int64 { return l.offset + l.size }

// Feed takes the next bytes and calls emit for each line that they end. The
// bytes of a line are valid only during the call.
func (l *Lines) Feed(p []byte, emit func(agent.Line)) {
	if l.limit == 0 {
		l.limit = MaxLine
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.hold(p)
			return
		}
		if l.size == 0 && i <= l.limit {
			// The line lies inside the chunk: nothing is copied.
			emit(agent.Line{Bytes: p[:i:i], Offset: l.offset, Size: int64(i) + 1})
			l.offset += int64(i) + 1
		} else {
			l.hold(p[:i])
			l.end(1, emit)
		}
		p = p[i+1:]
	}
}

// Flush gives the last line when no newline ends it. Its Size is then the
// number of its bytes.
func (l *Lines) Flush(emit func(agent.Line)) {
	if l.size > 0 {
		l.end(0, emit)
	}
}

// hold keeps a part of the unfinished line.
func (l *Lines) hold(p []byte) {
	l.size += int64(len(p))
	if l.long != nil {
		l.long.Write(p)
		return
	}
	if l.size <= int64(l.limit) {
		l.grow(len(p))
		l.buf = append(l.buf, p...)
		return
	}
	if l.NewElider != nil {
		l.long = l.NewElider()
	} else {
		l.long = &head{}
	}
	if len(l.buf) > 0 {
		l.long.Write(l.buf)
	}
	l.buf = nil
	l.long.Write(p)
}

// grow makes room for n more bytes. append alone would end at more than MaxLine
// and hold the old and the new array together: up to 9 MiB.
func (l *Lines) grow(n int) {
	need := len(l.buf) + n
	if need <= cap(l.buf) {
		return
	}
	c := min(max(need, 2*cap(l.buf), 4096), l.limit)
	l.buf = append(make([]byte, 0, c), l.buf...)
}

func (l *Lines) end(newline int64, emit func(agent.Line)) {
	line := agent.Line{Bytes: l.buf, Offset: l.offset, Size: l.size + newline}
	if l.long != nil {
		line.Bytes, line.Elided = l.long.Line()
	}
	emit(line)
	l.offset += line.Size
	l.reset()
}

func (l *Lines) reset() {
	l.long, l.size = nil, 0
	if l.buf = l.buf[:0]; cap(l.buf) > keepBuf {
		l.buf = nil
	}
}

// head is the Elider that needs to know nothing: it keeps the first 64 KiB.
type head struct{ b []byte }

func (h *head) Write(p []byte) {
	h.b = append(h.b, p[:min(len(p), 64<<10-len(h.b))]...)
}

func (h *head) Line() ([]byte, bool) { return h.b, true }
