package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/rein-run/rein/internal/disk"
)

// The locks are flock(2) locks (LockFileEx on Windows). The kernel drops them
// when the last descriptor of the open file is closed, so a killed holder is
// seen at once and nothing is ever stale: no pid is written down, none is
// guessed at.
//
// A flock belongs to the open file and not to the process. A child that
// inherited the descriptor would hold the lock after its parent was killed, and
// the dead run would look alive for as long as an agent's grandchild lives. So
// the descriptor is close-on-exec (os.OpenFile always sets O_CLOEXEC; on
// Windows handles are not inherited), and must never be passed on.

var errBusy = errors.New("locked")

// retryFor bounds the wait for others that hold a lock only to look.
const (
	retryFor   = 2 * time.Second
	retryEvery = 2 * time.Millisecond
)

// acquire takes the lock at path without waiting for whoever keeps it: errBusy
// then. With create the file is made.
//
// Looking takes the lock shared for a moment (see held). An exclusive attempt
// that meets only such looks must not be told that somebody is there: it is
// tried again.
func acquire(path string, create bool) (*os.File, error) {
	for end := time.Now().Add(retryFor); ; time.Sleep(retryEvery) {
		f, onlyShared, err := attempt(path, false, create)
		if !onlyShared || time.Now().After(end) {
			return f, err
		}
	}
}

// attempt tries once to take the lock at path. Beside errBusy it says whether
// the lock could have been taken shared.
func attempt(path string, shared, create bool) (f *os.File, onlyShared bool, err error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	if f, err = disk.OpenFile(path, flag, 0o600); err != nil {
		return nil, false, err
	}
	err = lock(f, shared)
	switch {
	case err == nil && isAt(f, path):
		return f, false, nil
	case err == nil:
		// Unlinked between open and lock: what was locked is no lock at all.
		err, onlyShared = errBusy, true
	case !errors.Is(err, errBusy):
		err = fmt.Errorf("lock %s: %w: put the store on a local file system (XDG_STATE_HOME)", path, err)
	case !shared:
		onlyShared = lock(f, true) == nil
	}
	release(f)
	return nil, onlyShared, err
}

// release unlocks and closes. Closing alone is not enough at once: between fork
// and exec a child of this process holds every descriptor for a moment.
func release(f *os.File) error {
	unlock(f)
	return f.Close()
}

// held says whether somebody keeps the lock at path exclusively.
func held(path string) (bool, error) {
	f, err := disk.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer release(f)
	err = lock(f, true)
	if errors.Is(err, errBusy) {
		return true, nil
	}
	return false, err
}

func isAt(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}
