//go:build unix

package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rein-run/rein/host/driver"
)

func TestFolder(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "run", "block")
	f, err := placeFolder(&driver.Folder{Dir: dir, Files: []driver.File{
		{Name: "script", Data: []byte("#!/bin/sh\n"), Program: true},
		{Name: "a/b", Link: "script"},
		{Name: "data", Data: []byte("x")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"script": 0o500, "data": 0o600, "a": 0o700, "a/b": 0o500, ".": 0o700} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, fi, err)
		}
	}
	// Whatever is in it goes with it, and what a link in it leads to does not.
	kept := filepath.Join(base, "kept")
	if err := errors.Join(os.WriteFile(kept, nil, 0o600), os.Symlink(base, filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	f.remove()
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func TestFolderRefused(t *testing.T) {
	base := t.TempDir()
	open := filepath.Join(base, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o755)); err != nil { // beside the umask
		t.Fatal(err)
	}
	for name, d := range map[string]driver.Folder{
		"relative":        {Dir: "x"},
		"open parent":     {Dir: filepath.Join(open, "x")},
		"leads out":       {Dir: filepath.Join(base, "1", "x"), Files: []driver.File{{Name: "../y", Data: []byte("x")}}},
		"absolute":        {Dir: filepath.Join(base, "2", "x"), Files: []driver.File{{Name: "/y", Data: []byte("x")}}},
		"twice":           {Dir: filepath.Join(base, "3", "x"), Files: []driver.File{{Name: "y"}, {Name: "y"}}},
		"link out":        {Dir: filepath.Join(base, "4", "x"), Files: []driver.File{{Name: "y", Link: "../z"}}},
		"through a link":  {Dir: filepath.Join(base, "5", "x"), Files: []driver.File{{Name: "y", Link: "z"}, {Name: "y", Data: []byte("x")}}},
		"too many":        {Dir: filepath.Join(base, "6", "x"), Files: make([]driver.File, maxFolderFiles+1)},
		"is there before": {Dir: open},
	} {
		if _, err := placeFolder(&d); err == nil {
			t.Errorf("%s: was placed", name)
		}
	}
	left, _ := filepath.Glob(filepath.Join(base, "*"))
	if len(left) != 1 { // open
		t.Errorf("left behind: %v", left)
	}
}
