package keeper

import "syscall"

const oNoFollow = 0

func sysProcAttr(*launch) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func signalName(s syscall.Signal) string { return s.String() }
