//go:build unix && !linux

package hosttest

import (
	"os"
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

func forkWaiting() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	p, err := os.StartProcess(self, []string{self, word, os.Args[2], "wait"}, new(os.ProcAttr))
	if err != nil {
		return 0, err
	}
	return p.Pid, nil
}

func defaultAction(syscall.Signal) {}
