package remote

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"sync"
)

// newMark is a word that nobody prints by accident.
func newMark() string { return "rein-" + rand.Text() }

// maxNoise is what may come before a mark. A profile that prints more is not one
// that anybody logs in with.
const maxNoise = 256 << 10

var errNoise = errors.New("what the other side prints first is not from a keeper: a profile there prints without end?")

// marked drops what comes before a line with the mark. A login shell reads
// files of the user's before it runs a command, and they may print (a banner, a
// fortune): RFC 4254 has one stdout for all of it, and scp breaks on it.
type marked struct {
	Stream
	mark []byte
	once sync.Once
	err  error
	r    *bufio.Reader
}

func behind(s Stream, mark string) Stream {
	return &marked{Stream: s, mark: []byte(mark + "\n"), r: bufio.NewReaderSize(s, 4<<10)}
}

func (m *marked) Read(p []byte) (int, error) {
	m.once.Do(m.skip)
	if m.err != nil {
		return 0, m.err
	}
	return m.r.Read(p)
}

// skip reads to the end of the mark, which may stand behind noise without a
// newline.
func (m *marked) skip() {
	var seen []byte
	for range maxNoise {
		b, err := m.r.ReadByte()
		if err != nil {
			if m.err = err; errors.Is(err, io.EOF) {
				m.err = io.ErrUnexpectedEOF
			}
			return
		}
		if seen = append(seen, b); bytes.HasSuffix(seen, m.mark) {
			return
		}
		if len(seen) >= 2*len(m.mark) {
			seen = append(seen[:0], seen[len(seen)-len(m.mark):]...)
		}
	}
	m.err = errNoise
}
