package proctree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stopSignal  = syscall.SIGSTOP
	contSignal  = syscall.SIGCONT
	ppidIsStale = false
)

// Read returns the process with the given pid. One that does not exist is
// os.ErrProcessDone. RSS and CPU are 0: the kernel tells them through libproc
// only, which needs cgo.
func Read(pid int) (Proc, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		// A pid that does not exist is an answer of no bytes, which x/sys
		// reports as EIO.
		if err == nil || errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) {
			return Proc{}, os.ErrProcessDone
		}
		return Proc{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return fromKinfo(k), nil
}

func fromKinfo(k *unix.KinfoProc) Proc {
	p := Proc{
		PID:     int(k.Proc.P_pid),
		PPID:    int(k.Eproc.Ppid),
		PGID:    int(k.Eproc.Pgid),
		Start:   uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
		Threads: 1,
	}
	p.SID, _ = unix.Getsid(p.PID) // 0 when it has ended meanwhile
	name := k.Proc.P_comm[:]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	p.Name = string(name)
	// sys/proc.h: SIDL, SRUN, SSLEEP, SSTOP, SZOMB.
	if s := int(k.Proc.P_stat); s >= 1 && s <= 5 {
		p.State = "IRSTZ"[s-1]
	}
	return p
}

// BootID names the present boot, so that a pid recorded before it is never
// believed. "" when the system does not say; such a record must not be believed
// either.
func BootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// Ticks is the present moment in the unit of Proc.Start.
func Ticks() uint64 { return uint64(time.Now().UnixMicro()) }

// SetSubreaper returns errors.ErrUnsupported: launchd takes every orphan.
func SetSubreaper() error { return fmt.Errorf("become child subreaper: %w", errors.ErrUnsupported) }

// Descendants returns what descends from root, breadth first, zombies included.
// A root that does not exist has none. What lost its parent is out of sight.
func Descendants(root int) ([]Proc, error) {
	procs, _, err := walk(root, nil)
	return procs, err
}

func walk(root int, skip map[int]bool) ([]Proc, bool, error) {
	all, err := table()
	if err != nil {
		return nil, false, err
	}
	guard := map[int]bool{root: true}
	for pid, on := range skip {
		guard[pid] = on
	}
	return (&Tree{Root: root}).closure(all, false, guard, nil), true, nil
}

func table() ([]Proc, error) {
	ks, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	procs := make([]Proc, 0, len(ks))
	for i := range ks {
		procs = append(procs, fromKinfo(&ks[i]))
	}
	return procs, nil
}

// Marked returns the live processes whose environment says REIN_RUN=marker or
// REIN_RUN=marker/…. Those that may not be read are skipped: another user's,
// and Apple's own programs, which System Integrity Protection covers.
func Marked(marker string) ([]Proc, error) {
	if marker == "" {
		return nil, nil
	}
	all, err := table()
	if err != nil {
		return nil, err
	}
	var out []Proc
	for _, p := range all {
		if marked(p, marker) {
			out = append(out, p)
		}
	}
	return out, nil
}

func marked(p Proc, marker string) bool {
	if p.Dead() {
		return false
	}
	b, err := unix.SysctlRaw("kern.procargs2", p.PID)
	return err == nil && environMarked(procargsEnv(b), marker)
}

// procargsEnv returns the environment in what KERN_PROCARGS2 gives: the count
// of arguments, the path, NULs up to a boundary, the arguments, the variables.
func procargsEnv(b []byte) []byte {
	if len(b) < 4 {
		return nil
	}
	argc := int(int32(binary.NativeEndian.Uint32(b)))
	b = b[4:]
	_, b, _ = bytes.Cut(b, []byte{0})
	b = bytes.TrimLeft(b, "\x00")
	for ; argc > 0 && len(b) > 0; argc-- {
		_, b, _ = bytes.Cut(b, []byte{0})
	}
	return b
}

// Signal sends sig to p after its start time was compared. os.ErrProcessDone
// when it has ended, is a zombie, or its pid belongs to another process by now.
// A pid of 1 or less is refused. There is no pidfd here: a few microseconds
// remain in which the pid could be given away.
func Signal(p Proc, sig syscall.Signal) error {
	if p.PID <= 1 {
		return signalError(p, sig, errProtected)
	}
	now, err := Read(p.PID)
	if err != nil {
		return signalError(p, sig, err)
	}
	if now.Start != p.Start || now.Dead() {
		return os.ErrProcessDone
	}
	if err := unix.Kill(p.PID, sig); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return os.ErrProcessDone
		}
		return signalError(p, sig, err)
	}
	return nil
}

// Reap waits for the dead children of the calling process, except those in
// keep, and returns how many there were.
func Reap(keep ...int) (n int, err error) {
	all, err := table()
	if err != nil {
		return 0, err
	}
next:
	for _, p := range all {
		if p.PPID != os.Getpid() || !p.Dead() {
			continue
		}
		for _, k := range keep {
			if p.PID == k {
				continue next
			}
		}
		if reap(p.PID) {
			n++
		}
	}
	return n, nil
}

func reap(pid int) bool {
	for {
		n, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if err != unix.EINTR {
			return err == nil && n == pid
		}
	}
}

func waitedCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	sec := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return sec(u.Utime) + sec(u.Stime)
}
