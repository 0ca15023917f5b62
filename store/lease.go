package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rein-run/rein/internal/disk"
)

// Lease is the right of a run to work in a directory of a host. The death of
// the process ends it, and so does the garbage collector when nothing refers to
// the Lease any more: keep it until Release.
type Lease struct {
	lock   *os.File
	record *os.File
	path   string // of record
}

// Holder is a run that holds a lease.
type Holder struct {
	ID     string    `json:"id"`
	Since  time.Time `json:"since"`
	Shared bool      `json:"shared"`
}

// LeaseError says that a directory is taken, and by whom.
type LeaseError struct {
	Host, Dir string
	Holders   []Holder // may be empty when they were just going
}

func (e *LeaseError) Error() string {
	s := fmt.Sprintf("%s on %s is in use", e.Dir, e.Host)
	if len(e.Holders) > 0 {
		h := e.Holders[0]
		what := "writes"
		if h.Shared {
			what = "reads"
		}
		s += fmt.Sprintf(": run %s %s there since %s", h.ID, what, h.Since.Format(time.RFC3339))
	}
	if n := len(e.Holders); n > 1 {
		s += fmt.Sprintf(" (and %d more)", n-1)
	}
	return s + ": wait for it, or give this run a directory of its own"
}

// localHost is the name of this machine: its directories can be looked at.
const localHost = "local:"

// LeaseDir takes the lease on dir, an absolute path on the named host ("local:"
// is this machine, where links are resolved), for the run id. A writer has it
// alone; with shared any number of readers have it together. It does not wait:
// *LeaseError when another run is there. dir is compared as a whole: give the
// top of the worktree, and not the folder inside it where an agent is started.
func (s *Store) LeaseDir(host, dir, id string, shared bool) (*Lease, error) {
	if err := ValidID(id); err != nil {
		return nil, fmt.Errorf("lease on %s: %w", dir, err)
	}
	if host == localHost {
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, fmt.Errorf("lease on %s: %w", dir, err)
		}
		dir = resolved
	} else {
		dir = path.Clean(dir)
	}
	sum := sha256.Sum256([]byte(host + "\x00" + dir))
	d := filepath.Join(s.leases(), hex.EncodeToString(sum[:16]))

	// A moment of a lock being looked at or swept, or of a holder that is about
	// to write its name, is not an answer: try again while nobody can be named.
	var holders []Holder
	for end := time.Now().Add(retryFor); ; time.Sleep(retryEvery) {
		l, err := takeLease(d, Holder{ID: id, Since: time.Now(), Shared: shared})
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, errBusy) {
			return nil, fmt.Errorf("lease on %s: %w", dir, err)
		}
		holders = leaseHolders(d)
		if len(holders) > 0 || time.Now().After(end) {
			return nil, &LeaseError{Host: host, Dir: dir, Holders: holders}
		}
	}
}

// takeLease locks <d>/lock, and then a record of its own that says who it is.
// The record is locked as well, so that one of a dead holder is known as such.
func takeLease(d string, h Holder) (*Lease, error) {
	if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if _, err := checkDir(d); errors.Is(err, fs.ErrNotExist) {
		return nil, errBusy // swept meanwhile
	} else if err != nil {
		return nil, err
	}
	l := &Lease{path: filepath.Join(d, h.ID+".json")}
	var err error
	if l.lock, _, err = attempt(filepath.Join(d, lockFile), h.Shared, true); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errBusy // swept meanwhile
		}
		return nil, err
	}
	if l.record, err = acquire(l.path, true); err == nil {
		var b []byte
		if b, err = json.Marshal(h); err == nil {
			if err = l.record.Truncate(0); err == nil {
				_, err = l.record.WriteAt(b, 0)
			}
		}
	}
	if err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// leaseHolders names the live holders.
func leaseHolders(d string) []Holder {
	ents, _ := os.ReadDir(d)
	var hs []Holder
	for _, e := range ents {
		name := filepath.Join(d, e.Name())
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || ValidID(id) != nil {
			continue
		}
		if live, _ := held(name); !live {
			continue
		}
		h := Holder{ID: id}
		b, err := disk.ReadFile(name, 4096)
		if err != nil || json.Unmarshal(b, &h) != nil || h.ID != id {
			continue // about to be written
		}
		hs = append(hs, h)
	}
	return hs
}

// Release gives the lease back. It may be called again.
func (l *Lease) Release() error {
	var errs []error
	if l.record != nil {
		// Unlinked while it is locked, so that the next one of this name makes
		// a file of its own. Where that cannot be (Windows) it stays, unlocked,
		// and names nobody.
		os.Remove(l.path)
		errs = append(errs, release(l.record))
		l.record = nil
	}
	if l.lock != nil {
		errs = append(errs, release(l.lock))
		l.lock = nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("release the lease: %w", err)
	}
	return nil
}

// sweepLeases deletes the folders of leases that nobody holds, so that they do
// not add up with every worktree that ever was.
func (s *Store) sweepLeases() {
	ents, _ := os.ReadDir(s.leases())
	for _, e := range ents {
		d := filepath.Join(s.leases(), e.Name())
		if strings.HasPrefix(e.Name(), goneDir) {
			os.RemoveAll(d)
			continue
		}
		f, err := acquire(filepath.Join(d, lockFile), false)
		if err != nil {
			continue
		}
		// Away as a whole and locked. Deleting it in place would, after the
		// unlinking of this lock, delete one that was made anew and is held.
		gone := filepath.Join(s.leases(), goneDir+rand.Text())
		if os.Rename(d, gone) == nil {
			os.RemoveAll(gone)
		}
		release(f)
	}
}
