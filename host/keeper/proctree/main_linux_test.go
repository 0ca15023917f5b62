package proctree

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// init keeps main on the first thread, which "leaderless" has to end.
func init() { runtime.LockOSThread() }

// leftBehind returns the live processes, other than this one, that run this
// very file.
func leftBehind() []Proc {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return nil
	}
	look := func() (left []Proc) {
		all, _ := table()
		for _, p := range all {
			if p.PID == os.Getpid() || p.Dead() {
				continue
			}
			// Of every thread: the first one may have ended ("leaderless").
			exes, _ := filepath.Glob("/proc/" + strconv.Itoa(p.PID) + "/task/*/exe")
			if slices.ContainsFunc(exes, func(exe string) bool {
				fi, err := os.Stat(exe)
				return err == nil && os.SameFile(own, fi)
			}) {
				left = append(left, p)
			}
		}
		return left
	}
	// What was killed a moment ago may still be on its way.
	for deadline := time.Now().Add(10 * time.Second); len(look()) > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	return look()
}

// prepare gives the process of a child what its first words ask for.
func prepare(cmd *exec.Cmd, args []string) {
	switch args[0] {
	case "setsid":
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	case "bare": // env -i setsid
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Env = []string{}
	}
}

func platformChild(args []string) bool {
	switch args[0] {
	case "keeper":
		keep(args[1])
	case "setsid", "bare": // prepare has done it; the rest says what to be
		child(args[1:])
	case "orphan": // double fork: the child outlives this one, at once
		startChild(args[1:]...)
	case "threaded": // a parent whose child belongs to another thread than the first
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			startChild(args[1:]...)
			close(started)
			sleep()
		}()
		<-started
		ready()
		sleep()
	case "named":
		// The file belongs to the first thread, whichever writes it.
		if err := os.WriteFile("/proc/self/comm", []byte(") S 1 (x\n y)"), 0); err != nil {
			panic(err)
		}
		ready()
		sleep()
	case "stopped":
		ready()
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		sleep()
	case "leaderless": // the first thread ends, the others go on
		go func() {
			for {
				if p, err := Read(os.Getpid()); err == nil && p.State == 'Z' {
					break
				}
				runtime.Gosched()
			}
			ready()
			sleep()
			os.Exit(0)
		}()
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	case "fork": // fork N: N silent children, no exec
		n, _ := strconv.Atoi(args[1])
		for range n {
			if rawFork() == 0 {
				rawPause()
			}
		}
		ready()
		sleep()
	case "exec": // exec N PROGRAM ARGS: N of a program that is not ours
		n, _ := strconv.Atoi(args[1])
		for range n {
			if err := exec.Command(args[2], args[3:]...).Start(); err != nil {
				panic(err)
			}
		}
		ready()
		sleep()
	case "bomb": // every process forks twice, 8 generations: 510 descendants
		ready()
		rawBomb(8)
		sleep()
	case "pass": // pass N: N children one after the other, none of them waited for by name
		n, _ := strconv.Atoi(args[1])
		ready()
		rawPass(n)
		sleep()
	case "hop": // hop N: a family of N in which everybody forks once and ends at once
		n, _ := strconv.Atoi(args[1])
		ready()
		rawHop(n)
	default:
		return false
	}
	return true
}

// The rest runs in the child of a fork without exec. The Go runtime is not
// there any more (its threads are not copied), so nothing but system calls may
// happen: no stack growth, no allocation, no race detector.

//go:nosplit
//go:norace
func rawFork() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid
}

var (
	rawLife  = unix.NsecToTimespec(int64(childLife))
	rawBlink = unix.NsecToTimespec(200_000)
)

//go:nosplit
//go:norace
func rawExit() {
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

//go:nosplit
//go:norace
func rawPause() {
	rawWait(&rawLife)
	rawExit()
}

//go:nosplit
//go:norace
func rawBomb(generations int) {
	first := true
	for forks := 0; forks < 2 && generations > 0; forks++ {
		if rawFork() == 0 {
			first = false
			generations--
			forks = -1 // a child forks twice itself
		}
	}
	if first {
		return // the runtime's signals would end its pause, and orphan the rest
	}
	rawPause()
}

//go:nosplit
//go:norace
func rawPass(n int) {
	for range n {
		if rawFork() == 0 {
			rawWait(&rawBlink)
			rawExit()
		}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), 0, syscall.WNOHANG, 0, 0, 0)
	}
}

//go:nosplit
//go:norace
func rawHop(n int) {
	for range n {
		if rawFork() != 0 {
			rawExit()
		}
	}
	rawExit()
}

// rawWait is ppoll, since not every architecture has pause.
//
//go:nosplit
//go:norace
func rawWait(d *unix.Timespec) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(d)), 0, 0, 0)
}
