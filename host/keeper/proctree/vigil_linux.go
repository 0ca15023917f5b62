package proctree

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	vigilLimit = 2048 // leaves descriptors for everybody else
	maxWatch   = 250 * time.Millisecond
)

// vigil is a watch at the side of those who got SIGKILL. To ask their pidfds is
// one system call for all of them, where to look at the tree again is several
// for each: with hundreds dying, looking is what keeps them from it.
type vigil struct {
	dying []unix.PollFd
}

// kill sends SIGKILL to p and keeps watch.
func (v *vigil) kill(p Proc) error {
	fd, err := signalHeld(p, syscall.SIGKILL)
	switch {
	case fd < 0:
	case err != nil || len(v.dying) >= vigilLimit:
		unix.Close(fd)
	default:
		v.dying = append(v.dying, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return err
}

// over says that all of them are dead, and that there were any. That is no
// proof about the tree: only a reason to look.
func (v *vigil) over() bool {
	if len(v.dying) == 0 {
		return false
	}
	if _, err := unix.Poll(v.dying, 0); err != nil {
		return false
	}
	// pidfd_open(2): readable when the process, with all its threads, is over.
	left := v.dying[:0]
	for _, d := range v.dying {
		if d.Revents == 0 {
			left = append(left, d)
		} else {
			unix.Close(int(d.Fd))
		}
	}
	v.dying = left
	return len(left) == 0
}

func (v *vigil) close() {
	for _, d := range v.dying {
		unix.Close(int(d.Fd))
	}
	v.dying = nil
}
