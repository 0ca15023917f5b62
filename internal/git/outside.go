package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Outside says that surely no repository contains dir, a directory of this
// machine. It starts no process. False is "ask git": there is something that
// looks like a repository, or something could not be read.
//
// It looks further than git does, which stops at GIT_CEILING_DIRECTORIES and at
// the end of a file system, and at less: every .git counts, also one that is
// broken. GIT_DIR does not matter, because every git of ours has it removed.
func Outside(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	// git walks up from the real path of its working directory.
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return false
	}
	for {
		if !absent(dir, ".git") || !absent(dir, "HEAD") && // bare, or a .git itself
			(!absent(dir, "commondir") || !absent(dir, "objects") && !absent(dir, "refs")) {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}

// absent says that dir surely has no entry of that name.
func absent(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return errors.Is(err, fs.ErrNotExist)
}
