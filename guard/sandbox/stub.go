package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// Stub is a file or directory that does not exist and has to, so that it can be
// mounted over. Stubs that are not Gone stay: a mount is gone when the path
// under it is removed outside, also for another run that is under way.
type Stub struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
	Data string `json:"data,omitempty"` // of a file; Place writes something harmless for ""
	Gone bool   `json:"gone,omitempty"` // after the run
}

// CommonStub keeps git from being led elsewhere (CommonFile); ok is false where
// there is no need of it.
func CommonStub(o Options) (s Stub, ok bool) {
	if o.Git == nil || o.ReadOnly || o.Git.GitDir != o.Git.CommonDir {
		return s, false
	}
	p := path.Join(o.Git.CommonDir, CommonFile)
	return Stub{Path: p, Data: CommonHere, Gone: true}, !o.Exists(p)
}

// Place makes it; one that is there by now is left.
func (s Stub) Place() error {
	if s.Dir {
		if err := os.Mkdir(s.Path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	f, err := os.OpenFile(s.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) // git of other users reads CommonFile
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	data := s.Data
	if data == "" && path.Ext(s.Path) == ".json" {
		data = "{}\n"
	}
	_, err = f.WriteString(data)
	return errors.Join(err, f.Close())
}

// Remove removes the stubs that are Gone after the run and still what they were.
func Remove(stubs []Stub) {
	for _, s := range stubs {
		if !s.Gone {
			continue
		}
		fi, err := os.Lstat(s.Path)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() != int64(len(s.Data)) {
			continue
		}
		if b, err := os.ReadFile(s.Path); err == nil && string(b) == s.Data {
			_ = os.Remove(s.Path)
		}
	}
}
