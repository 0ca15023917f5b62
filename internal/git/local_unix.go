//go:build unix

package git

import (
	"os/exec"
	"syscall"
)

// unattended gives cmd a session of its own: without a controlling terminal ssh has
// nobody to ask for a passphrase, and a remote that hangs is ended with all of
// git's helpers, by the group that the session leader leads.
func unattended(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
