package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rein-run/rein/host/driver"
)

// spool is the folder of one command: its output, and what is known about it.
type spool struct {
	dir            string
	stdout, stderr *os.File
	created        bool // the folder itself is ours: a refused start removes it
}

// checkID keeps an id from being anything but a name: it becomes a folder, a
// cgroup and a marker.
func checkID(id string) error {
	switch {
	case id == "":
		return nil
	case len(id) > 128:
		return refuse(driver.ErrArgument, "the id is longer than 128 bytes")
	case id == "." || id == ".." || id[0] == '-' || strings.ContainsAny(id, "/\\\x00\n"):
		return refuse(driver.ErrArgument, fmt.Sprintf("the id %q cannot be a file name", id))
	}
	return nil
}

// openSpool makes the folder root/id, which may be there already, and the two
// files in it, which must be absent or empty: an earlier transcript is never
// written over.
func openSpool(root, id string) (*spool, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	s := &spool{dir: filepath.Join(root, id)}
	switch err := os.Mkdir(s.dir, 0o700); {
	case err == nil:
		s.created = true
	case !errors.Is(err, os.ErrExist):
		return nil, err
	}
	if fi, err := os.Lstat(s.dir); err != nil {
		return nil, err
	} else if !fi.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", s.dir)
	}
	var err error
	if s.stdout, err = s.create(stdoutFile); err == nil {
		if s.stderr, err = s.create(stderrFile); err == nil {
			return s, nil
		}
	}
	s.undo()
	return nil, err
}

func (s *spool) create(name string) (*os.File, error) {
	file := filepath.Join(s.dir, name)
	// Not O_APPEND: splice(2) refuses such files. The keeper is the only
	// writer, and writes at offsets that it counts itself. Read as well, for a
	// client that is not on this machine is sent the bytes from here.
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|oNoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() != 0 {
		f.Close()
		if err == nil {
			err = fmt.Errorf("%s holds something already: every command needs an id of its own", file)
		}
		return nil, err
	}
	return f, nil
}

func (s *spool) file(st driver.Stream) *os.File {
	switch {
	case s == nil:
		return nil
	case st == driver.Stderr:
		return s.stderr
	}
	return s.stdout
}

func (s *spool) paths() (stdout, stderr string) {
	if s == nil {
		return "", ""
	}
	return filepath.Join(s.dir, stdoutFile), filepath.Join(s.dir, stderrFile)
}

func (s *spool) record(r *Record) error {
	if s == nil {
		return nil
	}
	return writeJSON(filepath.Join(s.dir, recordFile), r, false)
}

// sync brings both streams to the disk.
func (s *spool) sync() error {
	return errors.Join(s.stdout.Sync(), s.stderr.Sync())
}

func (s *spool) close() {
	if s == nil {
		return
	}
	for _, f := range []*os.File{s.stdout, s.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// undo removes what openSpool made, and nothing that it met: a start that is
// refused leaves nothing.
func (s *spool) undo() {
	if s == nil {
		return
	}
	s.close()
	for name, f := range map[string]*os.File{stdoutFile: s.stdout, stderrFile: s.stderr} {
		if f != nil {
			os.Remove(filepath.Join(s.dir, name))
		}
	}
	if s.created {
		os.Remove(s.dir)
	}
}
