// Package proctree finds, samples and ends the processes that descend from one process.
//
// It uses /proc and system calls alone: no ps, no kill binary, nothing by name.
// Linux is the real thing: lineage under a subreaper, cgroup v2, pidfds. On
// macOS a tree is what lineage, session, group and environment can prove; on
// Windows it is a job object.
package proctree

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Proc is one process at one moment.
type Proc struct {
	PID  int
	PPID int
	PGID int // 0 on Windows
	SID  int // 0 on Windows

	// Start tells two processes with the same pid apart. Linux: clock ticks
	// (1/100 s) since boot, field 22 of /proc/PID/stat. macOS: microseconds
	// since 1970. Windows: 100 ns since 1601. Only ever compared for equality
	// and order on one machine and one boot; see BootID.
	Start uint64

	// State is the letter of /proc/PID/stat: R, S, D, T, t, Z, X, I …; '?' for
	// a child that the system lets its parent know by nothing but the pid.
	State byte
	// Threads counts them, where the system says. It matters for Dead.
	Threads int

	// Name is what the process calls itself, at most 15 bytes on Linux. It is
	// the process's own choice, byte for byte: quote it before it is shown.
	Name string

	RSS    int64   // resident bytes, shared pages included; 0 where unknown
	CPU    float64 // seconds of its own; 0 where unknown
	Waited float64 // seconds used by the children that it has waited for
}

// Dead says that nothing of p runs any more: it is a zombie or gone.
//
// A process whose first thread has ended while others run is shown by Linux as
// a zombie (proc(5), state Z) and is anything but dead: only the count of its
// threads tells. Without it, pthread_exit in main would hide from Kill.
func (p Proc) Dead() bool {
	return (p.State == 'Z' || p.State == 'X' || p.State == 'x') && p.Threads <= 1
}

// hiddenState is that of a process of which nothing but the pid is known: /proc
// is mounted with hidepid, and it is another user's.
const hiddenState = '?'

// errProtected is what Signal answers for the pids that kill(2) reads as
// "everybody" or that hold the system up.
var errProtected = errors.New("refused: pid 1 and below are never signalled")

// signalError wraps what the system said about one process, once. The name is
// quoted: it is hostile text.
func signalError(p Proc, sig syscall.Signal, err error) error {
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return os.ErrProcessDone
	case p.Name == "":
		return fmt.Errorf("send signal %d to process %d: %w", int(sig), p.PID, err)
	}
	return fmt.Errorf("send signal %d to process %d (%q): %w", int(sig), p.PID, p.Name, err)
}

// ancestors returns pid and those above it, as far as they can be read.
func ancestors(pid int) []int {
	var up []int
	// The bound is for a table that changes below our feet; no real line of
	// parents is as long.
	for range 1024 {
		if pid <= 0 {
			break
		}
		up = append(up, pid)
		p, err := Read(pid)
		if err != nil || p.PPID == pid {
			break
		}
		pid = p.PPID
	}
	return up
}
