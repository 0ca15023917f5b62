package fakeagent

import (
	"errors"
	"os/exec"
	"syscall"
)

// ownSession starts cmd in a process group of its own, the nearest there is.
func ownSession(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func endTool(cmd *exec.Cmd, _ bool) {
	if cmd != nil && cmd.Process != nil {
		cmd.Process.Kill()
	}
}

func dieOf(string) error { return errors.New("there is no death by signal on windows") }
