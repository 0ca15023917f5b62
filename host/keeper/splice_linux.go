package keeper

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// splicer moves pages from the pipe into the file by splice(2): no buffer of
// ours, one copy less. It gives up for good where the file system cannot.
type splicer struct {
	conn syscall.RawConn
	fd   int
}

func (s *splicer) init(pipe, file *os.File) {
	if file == nil {
		return
	}
	if c, err := pipe.SyscallConn(); err == nil {
		s.conn, s.fd = c, int(file.Fd())
	}
}

// move is mover.move; ok is false when it cannot be done this way.
func (s *splicer) move(off int64, room int) (n int, err error, ok bool) {
	if s.conn == nil {
		return 0, nil, false
	}
	var got int64
	var serr error
	rerr := s.conn.Read(func(fd uintptr) bool {
		for {
			at := off
			got, serr = unix.Splice(int(fd), nil, s.fd, &at, room, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			if serr != unix.EINTR {
				return serr != unix.EAGAIN // false: wait until the pipe is readable
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, rerr, true // closed, or the deadline of stop
	case serr == nil && got == 0:
		return 0, io.EOF, true
	case serr == nil:
		return int(got), nil, true
	case errors.Is(serr, unix.EINVAL), errors.Is(serr, unix.ENOSYS), errors.Is(serr, unix.EOPNOTSUPP):
		s.conn = nil // EINVAL: the file system does not support splicing (splice(2))
		return 0, nil, false
	}
	return 0, &spoolError{serr}, true
}
