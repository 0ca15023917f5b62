//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detachProcess gives the background rein a session of its own: it has no
// terminal that could hang up, and its parent's Ctrl-C does not reach it.
func detachProcess(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}
