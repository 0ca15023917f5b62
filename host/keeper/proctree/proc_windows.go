package proctree

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	stopSignal = syscall.Signal(0) // there is none
	contSignal = syscall.Signal(0)
	// A parent's pid is noted when the child is made, and means nothing once
	// the parent has ended.
	ppidIsStale = true
)

// Read returns the process with the given pid. One that does not exist is
// os.ErrProcessDone. It goes through the table of all processes, which alone
// knows parents and names.
func Read(pid int) (Proc, error) {
	all, err := table()
	if err != nil {
		return Proc{}, err
	}
	for _, p := range all {
		if p.PID == pid {
			return p, nil
		}
	}
	return Proc{}, os.ErrProcessDone
}

// BootID is "": no name of the present boot is to be had. A record without one
// must not be believed; a job object ends its processes by itself.
func BootID() string { return "" }

// Ticks is the present moment in the unit of Proc.Start.
func Ticks() uint64 {
	ft := windows.NsecToFiletime(time.Now().UnixNano())
	return uint64(ft.HighDateTime)<<32 | uint64(ft.LowDateTime)
}

// SetSubreaper returns errors.ErrUnsupported: use a Job.
func SetSubreaper() error { return fmt.Errorf("become child subreaper: %w", errors.ErrUnsupported) }

// Descendants returns what descends from root, breadth first. A root that does
// not exist has none. What lost its parent is out of sight: use a Job.
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
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer windows.CloseHandle(snap)
	var out []Proc
	e := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snap, &e); err == nil; err = windows.Process32Next(snap, &e) {
		p := Proc{
			PID:     int(e.ProcessID),
			PPID:    int(e.ParentProcessID),
			State:   'R',
			Threads: int(e.Threads),
			Name:    windows.UTF16ToString(e.ExeFile[:]),
		}
		if h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, e.ProcessID); err == nil {
			_ = p.times(h) // Start stays 0, and Signal will refuse
			windows.CloseHandle(h)
		}
		out = append(out, p)
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return out, nil
}

// times fills in what an open process tells about itself.
func (p *Proc) times(h windows.Handle) error {
	var made, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &made, &ended, &kernel, &user); err != nil {
		return err
	}
	ticks := func(t windows.Filetime) uint64 { return uint64(t.HighDateTime)<<32 | uint64(t.LowDateTime) }
	p.Start = ticks(made)
	p.CPU = float64(ticks(kernel)+ticks(user)) / 1e7
	if ticks(ended) != 0 { // ended, but somebody holds a handle
		p.State, p.Threads = 'X', 0
	}
	return nil
}

// Marked returns errors.ErrUnsupported: another process's environment cannot
// be read by documented means.
func Marked(string) ([]Proc, error) {
	return nil, fmt.Errorf("find processes by marker: %w", errors.ErrUnsupported)
}

func marked(Proc, string) bool { return false }

// Signal ends p if sig is SIGKILL, after the start time of the opened process
// was compared; any other signal is errors.ErrUnsupported. os.ErrProcessDone
// when p has ended or its pid belongs to another process by now.
func Signal(p Proc, sig syscall.Signal) error {
	if p.PID <= 1 {
		return signalError(p, sig, errProtected)
	}
	if sig != syscall.SIGKILL {
		return signalError(p, sig, errors.ErrUnsupported)
	}
	h, err := windows.OpenProcess(windows.PROCESS_TERMINATE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(p.PID))
	if err != nil {
		if errors.Is(err, windows.ERROR_INVALID_PARAMETER) { // no such process
			return os.ErrProcessDone
		}
		return signalError(p, sig, err)
	}
	defer windows.CloseHandle(h)
	now := Proc{PID: p.PID}
	if err := now.times(h); err != nil {
		return signalError(p, sig, err)
	}
	if now.Start != p.Start || now.Dead() {
		return os.ErrProcessDone
	}
	if err := windows.TerminateProcess(h, 1); err != nil {
		return signalError(p, sig, err)
	}
	return nil
}

// Reap does nothing: there are no zombies here.
func Reap(...int) (int, error) { return 0, nil }

func reap(int) bool { return false }

func waitedCPU() float64 { return 0 }
