package unixsock

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// addressOf reaches a long path through an open descriptor of the directory:
// no second place, nothing to clean up. It needs /proc; without it the place
// is a short one, as on other systems.
func addressOf(dir, name string, create bool) (address, error) {
	path := filepath.Join(dir, name)
	if len(path) <= maxPath {
		return direct(path), nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return address{}, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	proc := fmt.Sprintf("/proc/self/fd/%d", fd)
	if _, err := os.Stat(proc); err != nil {
		unix.Close(fd)
		return elsewhere(dir, name, create)
	}
	release := func() { unix.Close(fd) }
	return address{proc + "/" + name, release, release}, nil
}
