package store

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rein-run/rein/internal/disk"
)

// State is where a run is in its life. It goes forward only.
type State string

const (
	Starting State = "starting" // nothing was started yet, or just now
	Running  State = "running"  // the agent was started
	Ended    State = "ended"    // run.json is the report
)

// Names of the files in a run directory that this package writes.
const (
	stateFile   = "run.json"
	lockFile    = "lock"
	reserveFile = "reserve"
	journalFile = "journal"
	socketFile  = "socket"

	maxState    = 64 << 20 // what ReadState reads at most
	reserveSize = 64 << 10
)

// Run is the directory of one run. Only a process that holds it (Create, Hold,
// Claim) may change its state. Keep a Run that is held until Close: when the
// garbage collector finds that nothing refers to it, the lock goes with it. The
// methods may be called concurrently.
type Run struct {
	id, dir string

	mu      sync.Mutex
	lock    *os.File // nil: not held
	state   State    // of run.json, known while held
	journal *Journal
}

// ID is the id of the run.
func (r *Run) ID() string { return r.id }

// Dir is the run's directory, absolute, mode 0700.
func (r *Run) Dir() string { return r.dir }

// Path is the path of a file in the run's directory.
func (r *Run) Path(name string) string { return filepath.Join(r.dir, name) }

// begin fills a directory that was just made.
func (r *Run) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The lock first, the state second: whoever reads a state sees the lock held.
	if err := r.take(true); err != nil {
		return err
	}
	// Real bytes that no file system can compress away. The report is written
	// over them, so that a disk that has become full does not keep it out.
	b := make([]byte, reserveSize)
	rand.Read(b)
	f, err := disk.OpenFile(r.Path(reserveFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return r.write(Starting, struct {
		ID      string    `json:"id"`
		Started time.Time `json:"started_at"`
	}{r.id, time.Now()})
}

// Hold marks this process as the one that supervises the run, until Close or
// its death. ErrLive when another one does; nil when this Run holds it already.
func (r *Run) Hold() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hold()
}

// Claim holds a run that was left unfinished, to finish it: of several that
// try, one gets it. ErrLive when somebody holds it, ErrEnded when it was
// finished meanwhile.
func (r *Run) Claim() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lock != nil {
		return fmt.Errorf("run %s: %w", r.id, ErrLive)
	}
	if err := r.hold(); err != nil {
		return err
	}
	// Read behind the lock: before it, somebody else may have been finishing.
	if r.state == Ended {
		r.release()
		return fmt.Errorf("run %s: %w", r.id, ErrEnded)
	}
	return nil
}

func (r *Run) hold() error {
	if r.lock != nil {
		return nil
	}
	err := r.take(false)
	if err == nil {
		var h header
		if h, err = r.header(); err != nil {
			r.release()
		}
		r.state = h.State
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", r.id, err)
	}
	return nil
}

func (r *Run) take(create bool) error {
	f, err := acquire(r.Path(lockFile), create)
	switch {
	case errors.Is(err, errBusy):
		return ErrLive
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound
	case err != nil:
		return err
	}
	r.lock = f
	return nil
}

func (r *Run) release() error {
	if r.lock == nil {
		return nil
	}
	err := release(r.lock)
	r.lock = nil
	return err
}

// Close lets the run go. It writes nothing: a run that was not ended is then
// an unfinished one.
func (r *Run) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.journal != nil {
		err = r.journal.close()
		r.journal = nil
	}
	return errors.Join(err, r.release())
}

func (r *Run) live() bool {
	h, err := held(r.Path(lockFile))
	// A lock that cannot be looked at may be held: nothing is done to such a run.
	return h || err != nil
}

// WriteState replaces run.json by v, a value that marshals to a JSON object,
// with the member "state" put in front. A reader sees the old one or the new
// one. At Ended it is on the disk when WriteState returns, and it is written
// into a reserve of 64 KiB, so that it succeeds on a full disk. After Ended
// only Ended may be written. ErrNotHeld when the run is not held.
func (r *Run) WriteState(s State, v any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	switch {
	case r.lock == nil:
		err = ErrNotHeld
	case rank(s) == 0:
		err = fmt.Errorf("unknown state %q", s)
	case rank(s) < rank(r.state):
		err = fmt.Errorf("state %s cannot follow %s: %w", s, r.state, ErrEnded)
	default:
		err = r.write(s, v)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", r.id, err)
	}
	return nil
}

func rank(s State) int {
	switch s {
	case Starting:
		return 1
	case Running:
		return 2
	case Ended:
		return 3
	}
	return 0
}

func (r *Run) write(s State, v any) error {
	data, err := encodeState(s, v)
	if err != nil {
		return err
	}
	if s == Ended {
		err = r.writeEnd(data)
	} else {
		err = disk.Replace(r.Path(stateFile), data, false)
	}
	if err == nil {
		r.state = s
	}
	return err
}

// writeEnd writes over the reserve and renames it. Deleting the reserve first
// and writing a new file would do on a quiet disk; on a full one another run
// takes the blocks in between.
func (r *Run) writeEnd(data []byte) error {
	reserve := r.Path(reserveFile)
	if r.state != Ended {
		f, err := disk.OpenFile(reserve, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write(data)
			if err == nil {
				err = f.Truncate(int64(len(data)))
			}
			if err == nil {
				err = f.Sync()
			}
			if cerr := f.Close(); err == nil {
				err = cerr
			}
			if err == nil {
				err = os.Rename(reserve, r.Path(stateFile))
			}
			if err == nil {
				return disk.SyncDir(r.dir)
			}
		}
	}
	// The file system copies on write, the report is larger than the reserve,
	// or the reserve is gone: give the blocks back and try as usual.
	os.Remove(reserve)
	return disk.Replace(r.Path(stateFile), data, true)
}

func encodeState(s State, v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	obj := bytes.TrimSpace(b.Bytes())
	var probe struct {
		State json.RawMessage `json:"state"`
	}
	if err := json.Unmarshal(obj, &probe); err != nil || obj[0] != '{' {
		return nil, errors.New("run.json must be a JSON object")
	}
	if probe.State != nil {
		return nil, errors.New(`the member "state" of run.json is the store's own`)
	}
	front := fmt.Sprintf(`{"state":%q`, s)
	if len(bytes.TrimSpace(obj[1:len(obj)-1])) > 0 {
		front += ","
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append([]byte(front), obj[1:]...), "", " "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// header is what the store itself reads of run.json.
type header struct {
	State   State     `json:"state"`
	Started time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at"`
}

func (r *Run) header() (header, error) {
	var h header
	err := r.readState(&h)
	if err == nil && rank(h.State) == 0 {
		err = fmt.Errorf("%s has no state that is known: %q", stateFile, clip(string(h.State)))
	}
	return h, err
}

func (r *Run) readState(v any) error {
	b, err := disk.ReadFile(r.Path(stateFile), maxState)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", stateFile, err)
	}
	return nil
}

// ReadState decodes run.json into v, which need not know the member "state",
// and returns the state.
func (r *Run) ReadState(v any) (State, error) {
	b, err := disk.ReadFile(r.Path(stateFile), maxState)
	if err == nil {
		var h struct {
			State State `json:"state"`
		}
		if err = json.Unmarshal(b, &h); err == nil && v != nil {
			err = json.Unmarshal(b, v)
		}
		if err == nil {
			return h.State, nil
		}
		err = fmt.Errorf("%s: %w", stateFile, err)
	}
	return "", fmt.Errorf("run %s: %w", r.id, err)
}

// WriteFile puts data under a name in the run's directory, mode 0600, all of it
// or nothing. A link of that name is replaced and not followed.
func (r *Run) WriteFile(name string, data []byte) error {
	if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return fmt.Errorf("run %s: %q is not a file name", r.id, clip(name))
	}
	switch name {
	case stateFile, lockFile, reserveFile, journalFile, socketFile:
		return fmt.Errorf("run %s: the file %s is the store's own", r.id, name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := disk.Replace(r.Path(name), data, false); err != nil {
		return fmt.Errorf("run %s: %w", r.id, err)
	}
	return nil
}

// Discard removes the directory of a run that this process holds and that was
// never started: a start that is refused leaves nothing.
func (r *Run) Discard() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lock == nil {
		return fmt.Errorf("run %s: %w", r.id, ErrNotHeld)
	}
	gone := filepath.Join(filepath.Dir(r.dir), goneDir+r.id)
	if err := os.Rename(r.dir, gone); err != nil {
		return err
	}
	if r.journal != nil {
		r.journal.close()
		r.journal = nil
	}
	return errors.Join(os.RemoveAll(gone), r.release())
}
