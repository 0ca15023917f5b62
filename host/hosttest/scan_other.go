//go:build !linux

package hosttest

import (
	"errors"
	"syscall"

	"github.com/rein-run/rein/host/driver"
)

// scan needs /proc; elsewhere the harness must bring Procs.
func scan(string) ([]driver.Proc, error) {
	return nil, errors.New("hosttest: no /proc here: set Harness.Procs")
}

func end(driver.Proc, syscall.Signal) {}
