package fakeagent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Install puts the running program into dir under each CLI's name, so that a
// PATH of dir finds it. The program must call Reexec (a test) or Main.
func Install(dir string, names ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range names {
		if versions[name] == "" {
			return fmt.Errorf("fakeagent: cannot act as %q", name)
		}
		if runtime.GOOS == "windows" { // a symbolic link needs a privilege there
			err = copyFile(filepath.Join(dir, name+".exe"), self)
		} else {
			// A hard link keeps its name when somebody resolves symbolic links.
			if err = os.Link(self, filepath.Join(dir, name)); err != nil {
				err = os.Symlink(self, filepath.Join(dir, name))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}
