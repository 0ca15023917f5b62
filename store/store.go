// Package store keeps the directories of runs: who holds them, in what state
// they are, and when they may go.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rein-run/rein/internal/disk"
)

// Sentinels for errors.Is.
var (
	ErrExists     = errors.New("a run with this id exists: choose another id")
	ErrNotFound   = errors.New("no such run")
	ErrAmbiguous  = errors.New("more than one run begins so")
	ErrLive       = errors.New("a live process holds the run: stop it first")
	ErrUnfinished = errors.New("the run was left unfinished: finish it with `rein reap` first")
	ErrEnded      = errors.New("the run has ended")
	ErrNotHeld    = errors.New("the run is not held by this process")
	ErrUnsafe     = errors.New("not a private directory of this user")
)

// Store is the folder of all runs. It has no state in memory: any number of
// processes may use the same folder, and the methods may be called concurrently.
type Store struct {
	Dir string // absolute, links resolved
}

// Open opens the store in dir, and makes it when it is not there. "" is
// $XDG_STATE_HOME/rein, or ~/.local/state/rein (%LocalAppData%\rein on Windows).
func Open(dir string) (*Store, error) {
	dir, err := place(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		// The user may have put the store on another disk through a link. What
		// lies inside is ours, and no links are followed there.
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	s := &Store{Dir: dir}
	for _, d := range []string{s.runs(), s.leases()} {
		if err := privateDir(d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Find opens the store in dir as Open does, but makes nothing: a store that is
// not there is an empty one. It is for those who look.
func Find(dir string) (*Store, error) {
	dir, err := place(dir)
	if err != nil {
		return nil, err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &Store{Dir: dir}, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Store{Dir: resolved}
	for _, d := range []string{s.runs(), s.leases()} {
		if _, err := checkDir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return s, nil
}

// place is the absolute path of a store that is named so.
func place(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = defaultDir(); err != nil {
			return "", err
		}
	}
	return filepath.Abs(dir)
}

func defaultDir() (string, error) {
	// The specification says that a relative path is to be ignored.
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "rein"), nil
	}
	if runtime.GOOS == "windows" {
		d, err := os.UserCacheDir()
		return filepath.Join(d, "rein"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: set HOME or XDG_STATE_HOME", err)
	}
	return filepath.Join(home, ".local", "state", "rein"), nil
}

// privateDir makes dir, and closes it to others when it is there and open.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := checkDir(dir)
	if err != nil {
		return err
	}
	if !disk.Private(st) {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// checkDir refuses what is no directory of this user's: a link, a file, the
// directory of somebody else.
func checkDir(dir string) (fs.FileInfo, error) {
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() || !disk.Ours(st) {
		return nil, fmt.Errorf("%s: %w", dir, ErrUnsafe)
	}
	return st, nil
}

func (s *Store) runs() string   { return filepath.Join(s.Dir, "runs") }
func (s *Store) leases() string { return filepath.Join(s.Dir, "leases") }

// Create makes the directory of a new run in state Starting and holds it: no
// moment exists in which another process could take it for one that was left
// behind. ErrExists when the id is taken.
func (s *Store) Create(id string) (*Run, error) {
	if err := ValidID(id); err != nil {
		return nil, err
	}
	r := s.run(id)
	switch err := os.Mkdir(r.dir, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("run %s: %w", id, ErrExists)
	case err != nil:
		return nil, err
	}
	if err := r.begin(); err != nil {
		r.Close()
		os.RemoveAll(r.dir)
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	return r, nil
}

// Get finds a run by its id, or by a beginning of it that no other run has.
func (s *Store) Get(id string) (*Run, error) {
	if id == "" || strings.ContainsAny(id, `/\`) {
		return nil, fmt.Errorf("run %q: %w", clip(id), ErrNotFound)
	}
	if ValidID(id) == nil {
		_, err := checkDir(s.run(id).dir)
		if err == nil {
			return s.run(id), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, n := range names {
		if strings.HasPrefix(n, id) {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("run %q: %w: see `rein runs`", clip(id), ErrNotFound)
	case len(found) > 1:
		shown := found[:min(len(found), 5)]
		return nil, fmt.Errorf("run %q: %w: %s", id, ErrAmbiguous, strings.Join(shown, ", "))
	}
	if _, err := checkDir(s.run(found[0]).dir); err != nil {
		return nil, err
	}
	return s.run(found[0]), nil
}

// names are the names in the runs directory that could be ids; none when it was
// never made.
func (s *Store) names() ([]string, error) {
	ents, err := os.ReadDir(s.runs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range ents {
		if ValidID(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Live says whether a process holds the run now.
func (s *Store) Live(id string) bool {
	if ValidID(id) != nil {
		return false
	}
	return s.run(id).live()
}

func (s *Store) run(id string) *Run {
	return &Run{id: id, dir: filepath.Join(s.runs(), id)}
}

// Runs is the folder that holds the run directories.
func (s *Store) Runs() string { return s.runs() }

// RunDir is where the directory of a run is, or would be.
func (s *Store) RunDir(id string) string { return filepath.Join(s.runs(), id) }
