//go:build !linux

package keeper

import (
	"os"
	"sync"
	"syscall"

	"github.com/rein-run/rein/host/keeper/proctree"
)

// leader is the process that was asked for. Where there is no waitid(2) to look
// without taking, its pid is free as soon as it has ended, and the sweep goes
// by the recorded session, the marker, or the job.
type leader struct {
	proc proctree.Proc
	over chan struct{}
	p    *os.Process
	mu   sync.Mutex
	st   *os.ProcessState
}

func (l *launch) start(bool) (*leader, error) {
	p, err := os.StartProcess(l.exe, l.argv, &os.ProcAttr{
		Dir: l.dir, Env: l.env, Files: []*os.File{l.stdin, l.stdout, l.stderr}, Sys: sysProcAttr(l),
	})
	if err != nil {
		return nil, err
	}
	ld := &leader{over: make(chan struct{}), p: p}
	ld.proc, err = proctree.Read(p.Pid)
	if err != nil {
		ld.proc = proctree.Proc{PID: p.Pid}
	}
	go func() {
		st, _ := p.Wait()
		ld.mu.Lock()
		ld.st = st
		ld.mu.Unlock()
		close(ld.over)
	}()
	return ld, nil
}

func (ld *leader) isOver() bool {
	select {
	case <-ld.over:
		return true
	default:
		return false
	}
}

func (ld *leader) release() {}

func (ld *leader) status() (code *int, sig string, ok bool) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	if ld.st == nil {
		return nil, "", false
	}
	if ws, is := ld.st.Sys().(syscall.WaitStatus); is && ws.Signaled() {
		return nil, signalName(ws.Signal()), true
	}
	c := ld.st.ExitCode()
	return &c, "", true
}

func (ld *leader) used() (cpu float64, rss int64) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	if ld.st == nil {
		return 0, 0
	}
	return (ld.st.UserTime() + ld.st.SystemTime()).Seconds(), 0
}

func (ld *leader) childless() bool { return false }

func newPipe(weRead, _ bool) (ours, theirs *os.File, err error) {
	r, w, err := os.Pipe()
	if weRead {
		return r, w, err
	}
	return w, r, err
}
