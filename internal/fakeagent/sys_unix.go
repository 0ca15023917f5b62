//go:build unix

package fakeagent

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownSession starts cmd as the leader of a new session, as every real CLI does
// with its tools.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// endTool ends the tool's group: it is a session leader, so its pid is the
// group's.
func endTool(cmd *exec.Cmd, gently bool) {
	sig := syscall.SIGKILL
	if gently {
		sig = syscall.SIGTERM
	}
	if cmd != nil && cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, sig)
	}
}

// dieOf ends this process by the signal, so that its parent sees a death by
// signal and no exit code.
func dieOf(name string) error {
	sig := unix.SignalNum(name)
	if sig == 0 {
		return fmt.Errorf("unknown signal %q", name)
	}
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if sig != syscall.SIGKILL {
		if err := defaultAction(sig); err != nil {
			return err
		}
	}
	if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
		return err
	}
	time.Sleep(bounded)
	return fmt.Errorf("survived %s", name)
}
