//go:build !unix

package disk

import (
	"errors"
	"io/fs"
	"os"
)

// open looks before it opens: there is no O_NOFOLLOW here, and making a link
// needs a privilege on Windows.
func open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	st, err := os.Lstat(name)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return os.OpenFile(name, flag, perm)
}

// SyncDir does nothing: a folder cannot be synced here.
func SyncDir(string) error { return nil }
