//go:build unix && !linux

package keeper

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const oNoFollow = syscall.O_NOFOLLOW

func sysProcAttr(*launch) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func signalName(s syscall.Signal) string { return unix.SignalName(s) }
