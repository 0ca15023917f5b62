package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Entry is one run in a list.
type Entry struct {
	ID      string
	Run     *Run // not held
	State   State
	Live    bool      // a process holds it
	Started time.Time // by run.json, else by the file system
	Ended   time.Time // zero unless State is Ended
	// Err says why the directory cannot be read as a run. State is then "".
	Err error
}

// Unfinished: nobody holds the run, and it has not ended.
func (e *Entry) Unfinished() bool { return e.Err == nil && e.State != Ended && !e.Live }

// List gives all runs, newest first. What is no run has its Err set.
func (s *Store) List() ([]Entry, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(names))
	for _, n := range names {
		if e, ok := s.entry(n); ok {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID))
	})
	return list, nil
}

// entry looks at one directory; false when it is gone.
func (s *Store) entry(id string) (Entry, bool) {
	e := Entry{ID: id, Run: s.run(id)}
	st, err := checkDir(e.Run.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return e, false
	}
	if err != nil {
		e.Err = err
		return e, true
	}
	e.Started = st.ModTime()
	// The lock before the state: a run that ends in between is seen as ended,
	// and never as one that was left behind.
	e.Live = e.Run.live()
	h, err := e.Run.header()
	if err != nil {
		e.Err = fmt.Errorf("run %s: %w", id, err)
		return e, true
	}
	e.State = h.State
	if !h.Started.IsZero() {
		e.Started = h.Started
	}
	if h.State == Ended {
		e.Ended = h.Ended
		if st, err := os.Lstat(e.Run.Path(stateFile)); err == nil && e.Ended.IsZero() {
			e.Ended = st.ModTime()
		}
	}
	return e, true
}

// Unfinished gives the runs that were left behind: not ended and held by
// nobody. Claim one before working on it.
func (s *Store) Unfinished() ([]Entry, error) {
	list, err := s.List()
	return slices.DeleteFunc(list, func(e Entry) bool { return !e.Unfinished() }), err
}

// Remove deletes the directory of a run. ErrLive when a process holds it,
// ErrUnfinished when it was left behind: its record is what its processes are
// found by. A directory that cannot be read as a run is removed, a link that
// stands in its place is unlinked.
func (s *Store) Remove(id string) error {
	if err := ValidID(id); err != nil {
		return err
	}
	r := s.run(id)
	st, err := os.Lstat(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	if err == nil && !st.IsDir() {
		err = os.Remove(r.dir)
	} else if err == nil {
		err = s.remove(r)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	return nil
}

// goneDir is where a run goes to be deleted: one rename takes it out of every
// list, and a crash in the middle leaves nothing that looks like a run.
const goneDir = ".removed-"

func (s *Store) remove(r *Run) error {
	// Held while it is looked at, so that nobody claims it meanwhile.
	lock, err := acquire(r.Path(lockFile), false)
	switch {
	case errors.Is(err, errBusy):
		return ErrLive
	case errors.Is(err, fs.ErrNotExist): // never was a run
	case err != nil:
		return err
	default:
		defer release(lock)
	}
	if h, err := r.header(); err == nil && h.State != Ended {
		return ErrUnfinished
	}
	gone := filepath.Join(s.runs(), goneDir+r.id)
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(r.dir, gone); err != nil {
		// Windows renames no directory in which a file is open.
		gone = r.dir
	}
	if lock != nil {
		release(lock)
	}
	return os.RemoveAll(gone)
}

// GC deletes ended runs: those that ended longer than olderThan ago, and the
// oldest ones as long as all runs together take more than maxBytes. The newest
// keep runs stay whatever they are. A zero olderThan or maxBytes means no such
// rule. Live, unfinished and unreadable runs are never touched. It returns the
// ids and the bytes that were freed, also beside an error.
func (s *Store) GC(olderThan time.Duration, keep int, maxBytes int64) ([]string, int64, error) {
	if olderThan < 0 || keep < 0 || maxBytes < 0 {
		return nil, 0, errors.New("a limit is negative: zero means none")
	}
	s.sweep()
	list, err := s.List()
	if err != nil {
		return nil, 0, err
	}
	list = slices.DeleteFunc(list, func(e Entry) bool { return e.Err != nil })
	var total int64
	sizes := make([]int64, len(list))
	for i, e := range list {
		sizes[i] = dirSize(e.Run.dir)
		total += sizes[i]
	}
	now := time.Now()
	var removed []string
	var freed int64
	var errs []error
	for i := len(list) - 1; i >= keep; i-- {
		e := list[i]
		old := olderThan > 0 && now.Sub(e.Ended) > olderThan
		full := maxBytes > 0 && total > maxBytes
		if e.State != Ended || e.Live || !(old || full) {
			continue
		}
		switch err := s.Remove(e.ID); {
		case err == nil:
			removed = append(removed, e.ID)
			freed += sizes[i]
			total -= sizes[i]
		case errors.Is(err, ErrLive), errors.Is(err, ErrNotFound): // somebody was faster
		default:
			errs = append(errs, err)
		}
	}
	return removed, freed, errors.Join(errs...)
}

// sweep finishes what a crashed Remove began, and deletes leases of nobody.
func (s *Store) sweep() {
	ents, _ := os.ReadDir(s.runs())
	for _, e := range ents {
		if strings.HasPrefix(e.Name(), goneDir) {
			os.RemoveAll(filepath.Join(s.runs(), e.Name()))
		}
	}
	s.sweepLeases()
}

// dirSize adds the sizes of the files. Links are not followed.
func dirSize(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				n += st.Size()
			}
		}
		return nil
	})
	return n
}
