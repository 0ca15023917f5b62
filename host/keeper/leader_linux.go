package keeper

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rein-run/rein/host/keeper/proctree"
)

const oNoFollow = syscall.O_NOFOLLOW

// leader is the process that was asked for.
type leader struct {
	proc proctree.Proc
	over chan struct{} // closed when it has ended

	// adopt says that this process is a keeper, waits for all of its children
	// and has taken the status before over was closed. Otherwise the leader
	// stays a zombie until release: its pid, session and group are then not
	// given away while the tree is being swept by them.
	adopt bool
	stay  chan struct{} // ends the thread that forked it, and the reaper
	once  sync.Once

	mu    sync.Mutex
	taken bool
	lost  bool // somebody else took the status
	ws    syscall.WaitStatus
	ru    syscall.Rusage
}

// start forks and executes. With adopt, every child that this process ever gets
// is waited for: only a keeper may ask for that.
func (l *launch) start(adopt bool) (*leader, error) {
	ld := &leader{over: make(chan struct{}), stay: make(chan struct{}), adopt: adopt}
	pid, err := ld.fork(l)
	if err != nil {
		return nil, err
	}
	// It is our child and not waited for: the pid cannot be another process.
	ld.proc, err = proctree.Read(pid)
	if err != nil {
		ld.proc = proctree.Proc{PID: pid, SID: pid, PGID: pid}
	}
	if adopt {
		go ld.waitAll()
	} else {
		go ld.watch()
	}
	return ld, nil
}

// fork runs on a thread of its own that stays until the leader is released.
// PR_SET_PDEATHSIG (prctl(2)) fires when the *thread* that forked ends, not the
// process; Go ends a thread only when a goroutine returns that is locked to it,
// and any code in this process may do that to a thread we happened to fork on
// (go.dev/issue/27505). A locked goroutine that waits is what prevents it.
func (ld *leader) fork(l *launch) (int, error) {
	type result struct {
		pid int
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		pid, err := l.forkExec()
		done <- result{pid, err}
		if err == nil {
			<-ld.stay
		}
	}()
	r := <-done
	return r.pid, r.err
}

func (l *launch) forkExec() (pid int, err error) {
	attr := &syscall.ProcAttr{
		Dir: l.dir,
		Env: l.env,
		Files: []uintptr{
			l.stdin.Fd(), l.stdout.Fd(), l.stderr.Fd(),
		},
		Sys: &syscall.SysProcAttr{
			Setsid:    true,
			Pdeathsig: syscall.SIGKILL, // the leader does not outlive a killed keeper
		},
	}
	if l.cgroup != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, l.cgroup.FD()
	}
	for try := 0; ; try++ {
		pid, err = syscall.ForkExec(l.exe, l.argv, attr)
		// A file that was written a moment ago may still be open for writing in
		// a child that another thread forked and that has not executed yet
		// (go.dev/issue/22315). It passes.
		if err == syscall.ETXTBSY && try < 20 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		return pid, err
	}
}

// waitAll waits for everybody: orphans of the tree become our children, since
// we are the subreaper, and would fill the process table as zombies.
func (ld *leader) waitAll() {
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, syscall.SIGCHLD)
	defer signal.Stop(chld)
	for {
		for {
			var ws syscall.WaitStatus
			var ru syscall.Rusage
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, &ru)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid == 0 {
				break
			}
			if pid == ld.proc.PID {
				ld.mu.Lock()
				ld.taken, ld.ws, ld.ru = true, ws, ru
				ld.mu.Unlock()
				close(ld.over)
			}
		}
		select {
		case <-chld:
		case <-ld.stay:
			return
		}
	}
}

// watch sees the end and leaves the status where it is.
func (ld *leader) watch() {
	for {
		err := unix.Waitid(unix.P_PID, ld.proc.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	close(ld.over)
}

// isOver asks the kernel, so that an end which nobody has been told of yet
// counts as before the signal that is about to be sent.
func (ld *leader) isOver() bool {
	select {
	case <-ld.over:
		return true
	default:
	}
	// Zombie, gone, or (waited for meanwhile) another process.
	p, err := proctree.Read(ld.proc.PID)
	return err != nil || p.Dead() || p.Start != ld.proc.Start
}

// release takes the status, once, and lets the pid go. The leader must be over,
// or given up.
func (ld *leader) release() {
	ld.once.Do(func() {
		close(ld.stay)
		if ld.adopt {
			return
		}
		for {
			pid, err := syscall.Wait4(ld.proc.PID, &ld.ws, syscall.WNOHANG, &ld.ru)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			ld.taken = pid == ld.proc.PID
			ld.lost = err != nil
			return
		}
	})
}

// status is valid after release. A leader that is still alive has neither.
func (ld *leader) status() (code *int, sig string, ok bool) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	switch {
	case !ld.taken:
		return nil, "", false
	case ld.ws.Signaled():
		return nil, unix.SignalName(ld.ws.Signal()), true
	}
	c := ld.ws.ExitStatus()
	return &c, "", true
}

// used is what the leader, and whoever was waited for by it or by us, has used:
// seconds of processor time, and a lower bound for the resident bytes.
func (ld *leader) used() (cpu float64, rss int64) {
	if ld.adopt {
		// All our children are of the tree.
		var ru syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ru) == nil {
			return seconds(ru.Utime) + seconds(ru.Stime), ru.Maxrss << 10
		}
	}
	// Not Maxrss here: execve(2) keeps the peak of the memory that the forking
	// process had, and that is the caller's.
	return seconds(ld.ru.Utime) + seconds(ld.ru.Stime), 0
}

// childless says that this process, the subreaper of the tree, has no child at
// all. Then the tree is gone: whoever loses his parent becomes our child, so a
// descendant without a child of ours above it cannot be (prctl(2),
// PR_SET_CHILD_SUBREAPER). This proof costs one system call where a look at
// all processes costs thousands.
func (ld *leader) childless() bool {
	return ld.adopt && unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// newPipe makes a pipe whose one end is ours and whose other is the command's.
// Only ours is non-blocking: the flag belongs to the open file, and many
// programs do not expect EAGAIN from their stdout.
func newPipe(weRead, large bool) (ours, theirs *os.File, err error) {
	var fd [2]int
	if err := syscall.Pipe2(fd[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	our, their := fd[1], fd[0]
	if weRead {
		our, their = fd[0], fd[1]
	}
	if large {
		// Fewer wake-ups. Refused beyond /proc/sys/fs/pipe-user-pages-soft; the
		// 64 KiB that a pipe has anyway will do.
		_, _ = unix.FcntlInt(uintptr(our), unix.F_SETPIPE_SZ, 1<<20)
	}
	if !weRead { // what we write is for the runtime's poller; what we read, see source
		if err := syscall.SetNonblock(our, true); err != nil {
			syscall.Close(our)
			syscall.Close(their)
			return nil, nil, os.NewSyscallError("fcntl", err)
		}
	}
	return os.NewFile(uintptr(our), "pipe"), os.NewFile(uintptr(their), "pipe"), nil
}
