package keeper

import (
	"io"
	"os"
)

// mover takes bytes from a pipe.
type mover struct {
	pipe   *source
	file   *os.File
	splice splicer
	buf    []byte
}

const moveBuf = 128 << 10

func newMover(pipe *source, file *os.File) *mover {
	m := &mover{pipe: pipe, file: file}
	m.splice.init(pipe, file)
	return m
}

// move takes up to room bytes and writes them to the file at off. It returns
// what is in the file for certain, io.EOF at the end of the pipe, and a
// *spoolError when the file cannot take more.
func (m *mover) move(off int64, room int) (int, error) {
	if n, err, ok := m.splice.move(off, room); ok {
		return n, err
	}
	p, err := m.read(room)
	if len(p) == 0 {
		return 0, err
	}
	n, werr := m.file.WriteAt(p, off)
	if werr != nil {
		return n, &spoolError{werr}
	}
	return n, err
}

// read takes up to room bytes; they are valid until the next call.
func (m *mover) read(room int) ([]byte, error) {
	if m.buf == nil {
		m.buf = make([]byte, moveBuf)
	}
	n, err := m.pipe.read(m.buf[:min(room, len(m.buf))])
	if n > 0 {
		return m.buf[:n], nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return nil, err
}

// skip takes some bytes and forgets them.
func (m *mover) skip() error {
	_, err := m.read(moveBuf)
	return err
}
