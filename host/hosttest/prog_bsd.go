//go:build unix && !linux

package hosttest

import (
	"os"
	"os/exec"
	"syscall"
)

// forks starts n waiting children by exec: there is no raw fork on systems
// whose system calls go through libc.
func forks(n int) error {
	p := &program{mark: os.Args[2]}
	for range n {
		if err := p.child("", []string{"wait"}); err != nil {
			return err
		}
	}
	return nil
}

func forkShort() error { return exec.Command("/usr/bin/true").Run() }

func defaultAction(syscall.Signal) {}
