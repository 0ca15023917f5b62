//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// open: O_NONBLOCK because opening a pipe that nobody writes blocks for ever,
// before it can be seen that it is one. It means nothing to a regular file.
func open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
	// ELOOP on Linux and macOS, EMLINK on FreeBSD; ENXIO is a pipe or a socket
	// that was opened for writing.
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.ENXIO) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	}
	return f, err
}

// SyncDir makes the names in dir durable. File systems that cannot do it
// (EINVAL on some network file systems) are not an error.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
