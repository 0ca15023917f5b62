package proctree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Read returns the process with the given pid, from /proc/PID/stat. One that
// does not exist is os.ErrProcessDone.
func Read(pid int) (Proc, error) {
	var r reader
	return r.stat(pid)
}

// BootID names the present boot, so that a pid recorded before it is never
// believed. "" when the system does not say; such a record must not be believed
// either.
func BootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// Ticks is the present moment in the unit of Proc.Start.
func Ticks() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // kernels before 2.6.39
	}
	return uint64(ts.Sec)*hertz + uint64(ts.Nsec)/(1e9/hertz)
}

// SetSubreaper makes the calling process the parent of every descendant that
// loses its own (prctl(2), PR_SET_CHILD_SUBREAPER). It then has to wait for
// them: see Reap. It cannot be inherited, and a process that also has children
// of somebody else's making should not do it.
func SetSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// Descendants returns what descends from root, breadth first, zombies included.
// A root that does not exist has none. Where the kernel lists children
// (CONFIG_PROC_CHILDREN) the cost is that of the tree, else of all processes.
func Descendants(root int) ([]Proc, error) {
	procs, _, err := walk(root, nil)
	return procs, err
}

// Marked returns the live processes whose environment says REIN_RUN=marker or
// REIN_RUN=marker/…. It reads the environment that a process was started with;
// those that may not be read (another user's) are skipped. A process that
// overwrites its environment, or was started without one, is not found.
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

// maxEnviron bounds what is read of one environment. execve(2) takes at most
// 6 MiB of arguments and environment together.
const maxEnviron = 8 << 20

func marked(p Proc, marker string) bool {
	if p.Dead() {
		return false
	}
	dir := "/proc/" + strconv.Itoa(p.PID)
	if p.State == 'Z' {
		// The first thread has ended and took its view of the memory along;
		// the others still have it.
		tasks, _ := os.ReadDir(dir + "/task")
		for _, t := range tasks {
			if environIsMarked(dir+"/task/"+t.Name()+"/environ", marker) {
				return true
			}
		}
		return false
	}
	return environIsMarked(dir+"/environ", marker)
}

func environIsMarked(path, marker string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	env, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	return environMarked(env, marker)
}

// walk is Descendants without the branches in skip. settled is false when
// children of root came faster than they could be listed.
func walk(root int, skip map[int]bool) (procs []Proc, settled bool, err error) {
	var r reader
	if !r.listsChildren() {
		procs, err = walkTable(root, skip)
		return procs, true, err
	}
	top, err := r.stat(root)
	if errors.Is(err, os.ErrProcessDone) {
		return nil, true, nil
	} else if err != nil {
		return nil, false, err
	}
	seen := map[int]bool{root: true}
	add := func(parent Proc) (n int, err error) {
		pids, err := r.children(parent)
		for _, pid := range pids {
			if seen[pid] || skip[pid] {
				continue
			}
			seen[pid] = true
			n++
			p, err := r.stat(pid)
			switch {
			case err == nil:
				procs = append(procs, p)
			case unix.Kill(pid, 0) == unix.EPERM:
				// Mounted with hidepid, /proc hides another user's child from
				// us, its parent. It is a member all the same, and to be named.
				procs = append(procs, Proc{PID: pid, PPID: parent.PID, State: hiddenState, Threads: 1})
			case !errors.Is(err, os.ErrProcessDone):
				return n, err
			}
		}
		return n, err
	}
	done := 0
	// A member that ends hands its children to root in the same moment, when
	// root's list may have been read already. So root is asked again until it
	// has nobody new. A family in which every member forks once and ends at
	// once keeps this up for ever: hence the bound, and settled.
	for range 8 {
		if n, err := add(top); n == 0 || err != nil {
			return procs, err == nil, err
		}
		for ; done < len(procs); done++ {
			if p := procs[done]; !p.Dead() {
				if _, err := add(p); err != nil {
					return procs, false, err
				}
			}
		}
	}
	return procs, false, nil
}

// walkTable is walk for kernels without lists of children.
func walkTable(root int, skip map[int]bool) ([]Proc, error) {
	all, err := table()
	if err != nil {
		return nil, err
	}
	guard := map[int]bool{root: true}
	for pid, on := range skip {
		guard[pid] = on
	}
	return (&Tree{Root: root}).closure(all, false, guard, nil), nil
}

// table returns all processes that can be seen.
func table() ([]Proc, error) {
	var r reader
	pids, err := r.numbers("/proc")
	if err == nil && len(pids) == 0 {
		err = errors.New("it lists no process")
	}
	if err != nil {
		return nil, fmt.Errorf("read /proc (is it mounted?): %w", err)
	}
	procs := make([]Proc, 0, len(pids))
	for _, pid := range pids {
		p, err := r.stat(pid)
		switch {
		case err == nil:
			procs = append(procs, p)
		case errors.Is(err, os.ErrProcessDone), errors.Is(err, os.ErrPermission):
			// It has ended meanwhile, or is not ours to see (hidepid=1).
		default:
			// No descriptor left, say. Not to see must not pass for not there.
			return nil, err
		}
	}
	return procs, nil
}

// reader reads /proc with bare system calls into one buffer: os.File costs a
// poller registration and a finalizer for each of thousands of tiny files.
type reader struct {
	buf []byte
}

// stat reads one process.
func (r *reader) stat(pid int) (Proc, error) {
	b, err := r.file("/proc/" + strconv.Itoa(pid) + "/stat")
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH):
		// Not mounted looks the same as not there, and would make every
		// process look dead.
		if unix.Access("/proc/self", unix.F_OK) != nil {
			return Proc{}, errors.New("read /proc: it is not mounted")
		}
		return Proc{}, os.ErrProcessDone
	case err != nil:
		return Proc{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	p, err := parseStat(b)
	if err != nil {
		return Proc{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	p.RSS *= int64(os.Getpagesize())
	return p, nil
}

// listsChildren says whether this kernel has /proc/PID/task/TID/children.
func (r *reader) listsChildren() bool {
	return unix.Access("/proc/thread-self/children", unix.R_OK) == nil
}

// children returns the children of all threads of p.
func (r *reader) children(p Proc) ([]int, error) {
	dir := "/proc/" + strconv.Itoa(p.PID) + "/task/"
	tids := []int{p.PID}
	if p.Threads != 1 {
		// A child belongs to the thread that forked it.
		var err error
		if tids, err = r.numbers(dir); err != nil && !hidden(err) {
			return nil, fmt.Errorf("list threads of process %d: %w", p.PID, err)
		}
	}
	var pids []int
	for _, tid := range tids {
		b, err := r.file(dir + strconv.Itoa(tid) + "/children")
		if hidden(err) {
			continue
		} else if err != nil {
			return pids, fmt.Errorf("list children of process %d: %w", p.PID, err)
		}
		for len(b) > 0 {
			i := bytes.IndexByte(b, ' ')
			if i < 0 {
				i = len(b)
			}
			if pid, ok := number(b[:i]); ok && pid > 0 {
				pids = append(pids, int(pid))
			}
			b = b[min(i+1, len(b)):]
		}
	}
	return pids, nil
}

// hidden says that err means a process that has ended, or one that hidepid
// keeps from us.
func hidden(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrPermission)
}

// file returns the content of a file, valid until the next call of r.
func (r *reader) file(path string) ([]byte, error) {
	fd, err := r.open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for {
		if n == len(r.buf) {
			r.buf = append(r.buf, make([]byte, max(4096, n))...)
		}
		m, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, r.buf[n:]) })
		if err != nil {
			return nil, err
		}
		if m <= 0 {
			return r.buf[:n], nil
		}
		n += m
	}
}

// numbers returns the entries of a directory that are numbers: pids or tids.
func (r *reader) numbers(dir string) ([]int, error) {
	fd, err := r.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if len(r.buf) < 16<<10 {
		r.buf = make([]byte, 16<<10)
	}
	var out []int
	for {
		n, err := ignoringEINTR(func() (int, error) { return unix.Getdents(fd, r.buf) })
		if err != nil {
			return out, err
		}
		if n <= 0 {
			return out, nil
		}
		// struct linux_dirent64 (getdents(2)): the length is at 16, the name,
		// ended by NUL, at 19.
		for b := r.buf[:n]; len(b) > 19; {
			size := int(binary.NativeEndian.Uint16(b[16:]))
			if size <= 19 || size > len(b) {
				break
			}
			name := b[19:size]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			if v, ok := number(name); ok && v > 0 {
				out = append(out, int(v))
			}
			b = b[size:]
		}
	}
}

func (r *reader) open(path string, flags int) (int, error) {
	return ignoringEINTR(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0) })
}

// ignoringEINTR repeats a call that a signal cut short: the Go runtime
// interrupts its own threads (golang/go#40870).
func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
