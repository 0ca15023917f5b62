package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Program is a keeper to be copied to another system.
type Program struct {
	File string   // on this machine
	Args []string // that make it a keeper: {"keeper"} for the command rein
}

// Beside finds a keeper in the folder of this executable: rein-keeper-GOOS-GOARCH,
// for this very system also rein-keeper, and the command rein itself. The error
// says how to build what is missing.
func Beside(goos, goarch string) (*Program, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return nil, err
	}
	return in(filepath.Dir(exe), filepath.Base(exe), goos, goarch)
}

func in(dir, self, goos, goarch string) (*Program, error) {
	name := "rein-keeper-" + goos + "-" + goarch
	names := []string{name}
	if goos == runtime.GOOS && goarch == runtime.GOARCH {
		names = append(names, "rein-keeper")
	}
	for _, n := range names {
		file := filepath.Join(dir, n)
		switch fi, err := os.Stat(file); {
		case err == nil && fi.Mode().IsRegular():
			return &Program{File: file}, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if len(names) > 1 && strings.TrimSuffix(self, ".exe") == "rein" {
		return &Program{File: filepath.Join(dir, self), Args: []string{"keeper"}}, nil
	}
	return nil, fmt.Errorf("there is no keeper for %s/%s in %s: build it with `make keepers`, or CGO_ENABLED=0 GOOS=%s GOARCH=%s go build -o %s github.com/rein-run/rein/cmd/rein-keeper",
		goos, goarch, dir, goos, goarch, filepath.Join(dir, name))
}
