//go:build unix

package disk

import (
	"io/fs"
	"os"
	"syscall"
)

// Ours says whether st is of this user. Root may use what is another user's
// (sudo keeps HOME); nobody else may.
func Ours(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	uid := os.Geteuid()
	return !ok || uid == 0 || int(sys.Uid) == uid
}

// Private says whether st is a directory of this user, closed to others.
func Private(st fs.FileInfo) bool {
	return st.IsDir() && Ours(st) && st.Mode().Perm()&0o077 == 0
}
