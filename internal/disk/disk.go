// Package disk opens files without following links and replaces them as a whole.
//
// The folders of Rein belong to the user, and so does the agent: a name in them
// may have become a link, a pipe or a device since it was last looked at.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrIrregular: the name is a link, a pipe, a device, a socket or a folder.
var ErrIrregular = errors.New("not a regular file")

// ErrTooLarge: the file holds more than ReadFile may return.
var ErrTooLarge = errors.New("file is larger than it can be")

// Open opens a regular file for reading.
func Open(name string) (*os.File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// OpenFile is os.OpenFile for regular files: a link as the last element of name
// is refused, and so is everything that a write could block on.
func OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: %d bytes at most", ErrTooLarge, limit)}
	}
	return b, nil
}

// Replace puts data under name, mode 0600, all of it or nothing. A reader sees
// the old content or the new one. With durable the content and the name are on
// the disk when Replace returns. One caller at a time per name.
func Replace(name string, data []byte, durable bool) error {
	// A fixed name, so that crashes leave one file and not many; exclusive, so
	// that a link that somebody put there is not written through.
	tmp := name + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		os.Remove(tmp) // the space is wanted by what comes next
		return err
	}
	if durable {
		return SyncDir(filepath.Dir(name))
	}
	return nil
}
