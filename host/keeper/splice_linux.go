package keeper

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// splicer moves pages from the pipe into the file by splice(2): no buffer of
// ours, one copy less. It gives up for good where the file system cannot.
type splicer struct {
	pipe *source // nil: it cannot be done
	fd   int     // of the file
}

func (s *splicer) init(pipe *source, file *os.File) {
	if file != nil {
		s.pipe, s.fd = pipe, int(file.Fd())
	}
}

// move is mover.move; ok is false when it cannot be done this way.
func (s *splicer) move(off int64, room int) (n int, err error, ok bool) {
	for s.pipe != nil {
		at := off
		got, err := unix.Splice(s.pipe.fd, nil, s.fd, &at, room, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if err := s.pipe.wait(); err != nil {
				return 0, err, true
			}
		case err == nil && got == 0:
			return 0, io.EOF, true
		case err == nil:
			return int(got), nil, true
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
			s.pipe = nil // EINVAL: the file system does not support splicing (splice(2))
		default:
			return 0, &spoolError{err}, true
		}
	}
	return 0, nil, false
}
