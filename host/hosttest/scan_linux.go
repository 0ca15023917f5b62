package hosttest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rein-run/rein/host/driver"
)

// scan finds the live processes of this machine that carry mark as an argument
// of their own. A zombie counts as gone: a slow process 1 leaves killed orphans
// in that state for seconds.
//
// It is written apart from package proctree on purpose, and looks at nothing
// but the command line: what is under test must not judge itself.
func scan(mark string) ([]driver.Proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []driver.Proc
	needle := []byte("\x00" + mark + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, f, name, ok := read(pid)
		if !ok || !bytes.Contains(cmdline, needle) {
			continue
		}
		start, _ := strconv.ParseUint(f[19], 10, 64)
		found = append(found, driver.Proc{PID: pid, Name: name, Start: start})
	}
	return found, nil
}

// read returns the command line of a live process, and its stat from the state
// on. Between its address space being replaced and filled, a process in execve
// shows an empty command line; that moment is waited for, or a child that is
// just being born would count as gone.
func read(pid int) (cmdline []byte, f []string, name string, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	for range 1000 {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			return nil, nil, "", false
		}
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if open < 0 || end < open {
			return nil, nil, "", false
		}
		f = strings.Fields(string(stat[end+1:]))
		// Field 23 is the size of the address space: a kernel thread has none.
		if len(f) < 21 || f[0] == "Z" || f[0] == "X" || f[20] == "0" {
			return nil, nil, "", false
		}
		if cmdline, err = os.ReadFile(dir + "/cmdline"); err != nil {
			return nil, nil, "", false
		}
		if len(cmdline) > 0 {
			return cmdline, f, string(stat[open+1 : end]), true
		}
		time.Sleep(100 * time.Microsecond)
	}
	return nil, nil, "", false
}

// end kills a process that scan has found, if it is still that process.
func end(p driver.Proc, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, f, _, ok := read(p.PID)
	if !ok || f[19] != strconv.FormatUint(p.Start, 10) {
		return // another process by now
	}
	_ = unix.PidfdSendSignal(fd, unix.Signal(sig), nil, 0)
}
