package keeper

import (
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// source is the end of a pipe that we read. It stands outside of the runtime's
// poller: there, epoll(7) wakes this process for every write of the other side,
// whether anybody waits for it or not: 100,000 times a second in a flood of
// 4 KiB lines, at the cost of both sides. poll(2) is in the way of the writer
// only while we wait in it. It costs one thread per pipe.
type source struct {
	f    *os.File
	fd   int      // of f
	stop *os.File // eventfd; written to end the wait
}

func newSource(f *os.File) (*source, error) {
	fd := int(f.Fd())
	// Ours alone: the two ends of a pipe have flags of their own.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &source{f: f, fd: fd, stop: os.NewFile(uintptr(stop), "eventfd")}, nil
}

// wait returns nil when the pipe can be read or is at its end.
func (s *source) wait() error {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.stop.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR: // the runtime preempts with signals
		case err != nil:
			return os.NewSyscallError("poll", err)
		case fds[1].Revents != 0:
			return os.ErrDeadlineExceeded
		default:
			return nil
		}
	}
}

// read waits for some bytes.
func (s *source) read(p []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, p)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if err := s.wait(); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// interrupt ends a wait that is under way, and every later one. After close it
// does nothing.
func (s *source) interrupt() {
	_, _ = s.stop.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// files are what close closes.
func (s *source) files() []*os.File { return []*os.File{s.f, s.stop} }

// close is called when nobody reads any more.
func (s *source) close() { closeAll(s.files()) }

// nap waits for about as long as a flood needs to fill a third of the pipe.
// time.Sleep cannot: the runtime's timers have the millisecond of epoll_wait(2),
// in which a flood fills all of the pipe and stands still. Nor does the runtime
// know of it: to a process that rests and comes back a thousand times a second
// it sends its monitor thread every 20 µs, which cost more than the moving.
func nap() {
	t := unix.NsecToTimespec(300_000)
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
