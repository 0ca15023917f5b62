//go:build unix

package local

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketPair makes the stream to a keeper. Ours is non-blocking, so that Close
// unblocks a read; both are closed on exec, or a process that we start later
// would hold the stream open after our death and the keeper would never know.
func socketPair() (ours io.ReadWriteCloser, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd[0])
		unix.CloseOnExec(fd[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if err := unix.SetNonblock(fd[0], true); err != nil {
		unix.Close(fd[0])
		unix.Close(fd[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd[0]), "keeper"), os.NewFile(uintptr(fd[1]), "keeper"), nil
}

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
