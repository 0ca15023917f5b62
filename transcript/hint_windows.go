package transcript

import "golang.org/x/sys/windows"

const (
	errFull  = windows.ERROR_DISK_FULL
	errQuota = windows.ERROR_DISK_QUOTA_EXCEEDED
)
