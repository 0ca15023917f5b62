package transcript

import (
	"errors"
	"syscall"
)

// hintFor says what a person can do about a failed write.
func hintFor(err error) string {
	switch {
	case errors.Is(err, errFull):
		return "free space there, or set XDG_STATE_HOME to a larger file system"
	case errors.Is(err, syscall.EFBIG):
		return "raise the file size limit (ulimit -f)"
	case errors.Is(err, errQuota):
		return "free space within the quota, or set XDG_STATE_HOME to another file system"
	case errors.Is(err, syscall.EIO):
		return "the disk reports an error; set XDG_STATE_HOME to another file system"
	}
	return ""
}
