package hosttest

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forks makes n waiting processes by fork without exec: 500 copies of a Go
// program cost 500 page tables, not 500 program starts. The children may do
// nothing but raw system calls: the other threads of the runtime, and the locks
// that they hold, do not exist there.
func forks(n int) error {
	const wide = 61
	// Each tree writes a byte when it is complete.
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(fd[0])
	defer unix.Close(fd[1])
	for n > 0 {
		kids := min(n-1, wide)
		if errno := forkTree(kids, fd[1]); errno != 0 {
			return errno
		}
		for {
			_, err := unix.Read(fd[0], make([]byte, 1))
			if err == nil {
				break
			}
			if err != unix.EINTR {
				return err
			}
		}
		n -= kids + 1
	}
	return nil
}

//go:norace
//go:noinline
func forkTree(kids, ready int) syscall.Errno {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return errno
	}
	parent := true
	for range kids {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			parent = false
			break
		}
	}
	if parent {
		var b byte
		syscall.RawSyscall6(unix.SYS_WRITE, uintptr(ready), uintptr(unsafe.Pointer(&b)), 1, 0, 0, 0)
	}
	sleepAndExit()
	return 0
}

// forkWaiting makes one child that waits, as those of forks do.
//
//go:norace
//go:noinline
func forkWaiting() (int, error) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if pid == 0 {
		sleepAndExit()
	}
	return int(pid), nil
}

// sleepAndExit is all that a forked child may do: bounded, like every process
// of this program.
//
//go:norace
//go:noinline
//go:nosplit
func sleepAndExit() {
	ts := unix.Timespec{Sec: int64(longest / 1e9)}
	syscall.RawSyscall6(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0, 0, 0, 0)
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
	}
}

// defaultAction sets SIG_DFL behind the back of the Go runtime, which keeps its
// own handler for SIGSEGV and the like even after signal.Reset.
func defaultAction(sig syscall.Signal) {
	var act struct {
		handler, flags, restorer, mask uintptr
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
}
