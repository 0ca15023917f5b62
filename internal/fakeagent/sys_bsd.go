//go:build unix && !linux

package fakeagent

import (
	"os/signal"
	"syscall"
)

func defaultAction(sig syscall.Signal) error {
	signal.Reset(sig)
	return nil
}
