// Package transcript keeps the bytes that an agent wrote: append, split into
// lines, index, follow, replay and hash, with nothing decoded and nothing lost.
package transcript

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rein-run/rein/internal/disk"
)

// Writer appends bytes to one transcript. It is for hosts whose spool is
// somewhere else; a local keeper writes the file itself. Its methods may be
// called concurrently; writes are in the order in which they got in.
type Writer struct {
	path string
	size atomic.Int64

	mu  sync.Mutex
	f   *os.File
	err error // the first failed write, for ever
}

// Create makes the file, mode 0600. It is an error that matches fs.ErrExist
// when the name is taken, whatever it is: a transcript is never written over.
func Create(path string) (*Writer, error) {
	return newWriter(path, os.O_CREATE|os.O_EXCL)
}

// Append continues a transcript that is there, behind its last byte.
func Append(path string) (*Writer, error) {
	return newWriter(path, 0)
}

func newWriter(path string, flag int) (*Writer, error) {
	f, err := disk.OpenFile(path, flag|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	w := &Writer{path: path, f: f}
	w.size.Store(st.Size())
	return w, nil
}

// Size is the number of bytes that are really in the file.
func (w *Writer) Size() int64 { return w.size.Load() }

// Write appends p. When it fails the file holds an intact prefix of what was
// given, Size says how much, and every later Write fails with the same
// *WriteError: going on after a gap would make the file something that the
// agent never wrote.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	before := w.size.Load()
	n, err := w.f.Write(p)
	if err == nil {
		w.size.Store(before + int64(n))
		return n, nil
	}
	// Ask the file and not the count: a call may have moved bytes and failed.
	size := before + int64(n)
	if st, serr := w.f.Stat(); serr == nil && st.Size() >= before && st.Size() <= before+int64(len(p)) {
		size = st.Size()
	}
	w.size.Store(size)
	w.err = &WriteError{Path: w.path, Size: size, Err: err}
	return int(size - before), w.err
}

// Sync puts what was written on the disk.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail(w.f.Sync())
}

// Close closes the file, without a sync. A network file system may say only
// now that there was no room.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail(w.f.Close())
}

func (w *Writer) fail(err error) error {
	if err == nil {
		return nil
	}
	return &WriteError{Path: w.path, Size: w.Size(), Err: err}
}

// WriteError says that bytes could not be kept. errors.Is finds the cause, as
// in errors.Is(err, syscall.ENOSPC).
type WriteError struct {
	Path string
	Size int64 // bytes that are in the file
	Err  error
}

func (e *WriteError) Error() string {
	s := fmt.Sprintf("transcript: %v (%d bytes are kept)", e.Err, e.Size)
	if hint := hintFor(e.Err); hint != "" {
		s += ": " + hint
	}
	return s
}

func (e *WriteError) Unwrap() error { return e.Err }
