//go:build unix

package keeper

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func stopSignals() []os.Signal {
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE}
}

// takeStream moves the stream away from the descriptors 0 and 1, and puts the
// null device there. A write to a broken descriptor 1 would end the process by
// SIGPIPE (package os/signal), where any other returns EPIPE; and nothing that
// prints by accident can reach the client. The copies are non-blocking, so that
// Close unblocks a read, and closed on exec, as is whatever else a careless
// parent has left open: the command gets its three streams and nothing more.
func takeStream(stdin, stdout *os.File) (io.ReadWriteCloser, error) {
	r, err := dup(stdin, "stream in")
	if err != nil {
		return nil, err
	}
	w, err := dup(stdout, "stream out")
	if err != nil {
		return nil, err
	}
	if err := detach(stdin, stdout); err != nil {
		return nil, err
	}
	closeOnExec()
	return &stdio{r, w}, nil
}

// detach puts the null device in place of files.
func detach(files ...*os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, f := range files {
		if err := dup2(int(null.Fd()), int(f.Fd())); err != nil {
			return os.NewSyscallError("dup2", err)
		}
	}
	return nil
}

func dup(f *os.File, name string) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	// The flag is shared with whoever else has this open file; a stream of ours
	// has nobody else.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
