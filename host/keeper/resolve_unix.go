//go:build unix

package keeper

import (
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rein-run/rein/host/driver"
)

// mayExecute asks the kernel, by the effective ids: for root any one x bit is
// enough, for others the bit that applies; access control lists count.
func mayExecute(file string, fi fs.FileInfo) string {
	if !fi.Mode().IsRegular() {
		return "is not a regular file"
	}
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
		return "is not executable"
	}
	return ""
}

func extensions(string) []string { return []string{""} }

func passwdHome(passwd string, uid int) string {
	want := strconv.Itoa(uid)
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) >= 7 && f[2] == want {
			return f[5]
		}
	}
	return ""
}

// mayEnter asks whether a process can make dir its working directory.
func mayEnter(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS); err != nil {
		return refuse(driver.ErrNoDir, dir+" may not be entered: "+err.Error())
	}
	return nil
}
