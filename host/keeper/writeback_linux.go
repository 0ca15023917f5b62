package keeper

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriting asks the disk to begin with a part of the file. It promises
// nothing, as sync_file_range(2) does not: the sync at the end does.
func startWriting(f *os.File, at, n int64) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) {
		_ = unix.SyncFileRange(int(fd), at, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}
