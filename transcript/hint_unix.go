//go:build !windows

package transcript

import "syscall"

const (
	errFull  = syscall.ENOSPC
	errQuota = syscall.EDQUOT
)
