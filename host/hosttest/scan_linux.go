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
		// Most are somebody else's, and told by one read.
		if cmdline, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err != nil || len(cmdline) > 0 && !bytes.Contains(cmdline, needle) {
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
// on. In the middle of execve a process shows an empty command line, and so it
// does in exit, after its memory is gone and before anybody can wait for it.
// Both moments are waited for: what is just being born is not gone, and who is
// dying has no exit status yet.
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
		// Field 20 counts the threads: while others than the first live, the
		// state is that of the first alone, and the process has not ended.
		if len(f) < 21 || (f[0] == "Z" || f[0] == "X") && (f[17] == "1" || f[17] == "0") {
			return nil, nil, "", false
		}
		// Field 9 holds the flags; kernel threads (PF_KTHREAD) never have one.
		if flags, _ := strconv.ParseUint(f[6], 10, 64); flags&0x200000 != 0 {
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
