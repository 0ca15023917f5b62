package unixsock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rein-run/rein/internal/disk"
)

var errTooLong = errors.New("the path of the socket is too long for this system")

// elsewhere puts the socket into a private directory with a short path, which
// is written down in the file <name>.path beside where it should have been.
func elsewhere(dir, name string, create bool) (address, error) {
	note := filepath.Join(dir, name+".path")
	path, err := readNote(note, name)
	if err != nil && !create {
		return address{}, err
	}
	if err != nil {
		if path, err = writeNote(note, name); err != nil {
			return address{}, err
		}
	}
	return address{path: path, release: nothing, forget: func() {
		os.Remove(path)
		os.Remove(filepath.Dir(path)) // only when it is empty
		os.Remove(note)
	}}, nil
}

// readNote reads where the socket is. Folders for temporary files are cleaned,
// and then anybody may take the name: one that is not ours is not there.
func readNote(note, name string) (string, error) {
	b, err := disk.ReadFile(note, maxPath)
	if err != nil {
		return "", err
	}
	path := string(b)
	st, err := os.Lstat(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if !disk.Private(st) || filepath.Base(path) != name {
		return "", fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	return path, nil
}

func writeNote(note, name string) (string, error) {
	dir, err := os.MkdirTemp("", "rein-") // mode 0700
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if len(path) > maxPath {
		err = fmt.Errorf("%w: set TMPDIR to a shorter path", errTooLong)
	} else {
		err = disk.Replace(note, []byte(path), false)
	}
	if err != nil {
		os.Remove(dir)
		return "", err
	}
	return path, nil
}
