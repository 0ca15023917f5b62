package hosttest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

var errNotHere = errors.New("not on this system")

func readyPipe() *os.File { return nil }

func getwd() (string, error) { return os.Getwd() }

func stopSelf() error            { return errNotHere }
func dieBy(syscall.Signal) error { return errNotHere }

// child starts a child of this program and returns when the child has written
// or closed its stdout, which is all that Windows lets it inherit simply.
func (p *program) child(flags string, steps []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, slices.Concat([]string{word, p.mark}, steps)...)
	if strings.Contains(flags, "hold") {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	cmd.Stdin = nil
	return cmd.Start()
}

func forks(n int) error {
	p := &program{mark: os.Args[2]}
	for range n {
		if err := p.child("", []string{"wait"}); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) churn(int) error { _ = io.Discard; return errNotHere }
