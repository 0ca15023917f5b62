package keeper

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/disk"
)

// maxFolderFiles bounds what one start may place.
const maxFolderFiles = 256

// folder is a directory of files that lives as long as the command.
type folder struct {
	dir    string
	parent string // made for it; "" when it was there
}

// placeFolder makes the directory and what is in it. An error leaves nothing
// behind.
//
// The names come from the client, which may place what it likes where it may
// write; os.Root sees that a name with a mistake in it does not.
func placeFolder(d *driver.Folder) (_ *folder, err error) {
	if !filepath.IsAbs(d.Dir) {
		return nil, refuse(driver.ErrArgument, "the directory for files is not absolute")
	}
	if len(d.Files) > maxFolderFiles {
		return nil, refuse(driver.ErrArgument, fmt.Sprintf("%d files to place, %d are the most", len(d.Files), maxFolderFiles))
	}
	f := &folder{}
	defer func() {
		if err != nil {
			f.remove()
		}
	}()
	parent := filepath.Dir(d.Dir)
	switch err := os.Mkdir(parent, 0o700); {
	case err == nil:
		f.parent = parent
	case !errors.Is(err, os.ErrExist):
		return nil, err
	}
	// Who may write there could put something else in the place of what the
	// command is about to start.
	if fi, err := os.Lstat(parent); err != nil {
		return nil, err
	} else if !disk.Private(fi) {
		return nil, fmt.Errorf("%s is not a directory of this user that is closed to others", parent)
	}
	if err := os.Mkdir(d.Dir, 0o700); err != nil {
		return nil, err
	}
	f.dir = d.Dir
	root, err := os.OpenRoot(d.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	made := map[string]bool{".": true}
	for _, file := range d.Files {
		if in := path.Dir(file.Name); !made[in] {
			if err := root.MkdirAll(in, 0o700); err != nil {
				return nil, err
			}
			made[in] = true
		}
		if err := placeFile(root, file); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func placeFile(root *os.Root, f driver.File) error {
	if f.Link != "" {
		to, err := filepath.Rel(path.Dir(f.Name), f.Link)
		if err != nil || !filepath.IsLocal(f.Link) {
			return refuse(driver.ErrArgument, fmt.Sprintf("%q cannot be a link to %q", f.Name, f.Link))
		}
		return root.Symlink(to, f.Name)
	}
	mode := os.FileMode(0o600)
	if f.Program {
		mode = 0o500
	}
	w, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = w.Write(f.Data)
	return errors.Join(err, w.Close())
}

// remove takes it all away, whatever the command has made of it. Links are not
// followed.
func (f *folder) remove() {
	if f == nil {
		return
	}
	if f.dir != "" {
		_ = os.RemoveAll(f.dir)
	}
	if f.parent != "" {
		_ = os.Remove(f.parent)
	}
}
