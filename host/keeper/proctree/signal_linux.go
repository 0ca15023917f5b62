package proctree

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	stopSignal  = syscall.SIGSTOP
	contSignal  = syscall.SIGCONT
	ppidIsStale = false
)

// Signal sends sig to p, and to nobody else: the process is opened as a pidfd
// first, and its start time compared after that. os.ErrProcessDone when it has
// ended, is a zombie, or its pid belongs to another process by now. A pid of 1
// or less is refused.
func Signal(p Proc, sig syscall.Signal) error {
	fd, err := signalHeld(p, sig)
	if fd >= 0 {
		unix.Close(fd)
	}
	return err
}

// signalHeld is Signal that leaves the pidfd open, if there is one; else fd is
// negative.
func signalHeld(p Proc, sig syscall.Signal) (fd int, err error) {
	if p.PID <= 1 {
		return -1, signalError(p, sig, errProtected)
	}
	fd, err = unix.PidfdOpen(p.PID, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return -1, os.ErrProcessDone
		}
		// A kernel before 5.3, a seccomp filter that does not know the call, no
		// descriptor left: none of these may keep a process alive.
		return -1, signalByPID(p, sig)
	}
	if err := same(p); err != nil {
		return fd, signalError(p, sig, err)
	}
	switch err := unix.PidfdSendSignal(fd, sig, nil, 0); {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ESRCH):
		return fd, os.ErrProcessDone
	case errors.Is(err, unix.ENOSYS):
		return fd, signalByPID(p, sig)
	default:
		return fd, signalError(p, sig, err)
	}
}

// signalByPID makes the same check, but leaves a few microseconds in which the
// pid could be given away.
func signalByPID(p Proc, sig syscall.Signal) error {
	if err := same(p); err != nil {
		return signalError(p, sig, err)
	}
	if err := unix.Kill(p.PID, sig); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return os.ErrProcessDone
		}
		return signalError(p, sig, err)
	}
	return nil
}

// same is nil when the process that has p's pid is p, and alive.
func same(p Proc) error {
	now, err := Read(p.PID)
	if err != nil {
		return err
	}
	if now.Start != p.Start || now.Dead() {
		return os.ErrProcessDone
	}
	return nil
}

// Reap waits for the dead children of the calling process, except those in
// keep, and returns how many there were. A subreaper calls it now and then (on
// SIGCHLD), with the pids that others wait for in keep: a wait for any child
// would take their exit statuses away.
func Reap(keep ...int) (n int, err error) {
	self, err := Read(os.Getpid())
	if err != nil {
		return 0, err
	}
	var r reader
	pids, err := r.children(self)
	if err != nil {
		return 0, err
	}
	if !r.listsChildren() {
		all, err := table()
		if err != nil {
			return 0, err
		}
		for _, p := range all {
			if p.PPID == self.PID {
				pids = append(pids, p.PID)
			}
		}
	}
next:
	for _, pid := range pids {
		for _, k := range keep {
			if pid == k {
				continue next
			}
		}
		if reap(pid) {
			n++
		}
	}
	return n, nil
}

// reap waits for one child without blocking. WALL: a child made by clone(2)
// with another signal than SIGCHLD is waited for too.
func reap(pid int) bool {
	n, err := ignoringEINTR(func() (int, error) {
		return unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil)
	})
	return err == nil && n == pid
}

// waitedCPU is what the children of the calling process used, those that it
// has waited for.
func waitedCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	sec := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return sec(u.Utime) + sec(u.Stime)
}
