package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/rein-run/rein/internal/disk"
)

// Journal lists the side effects of a run that must be undone, also by another
// process after a crash. It is a file of JSON lines that only grows.
type Journal struct {
	path string

	mu   sync.Mutex
	f    *os.File
	last int // highest number given
}

// Effect is one side effect that was not undone yet.
type Effect struct {
	N    int             `json:"n"`    // its number in the journal, from 1
	Undo string          `json:"undo"` // the kind of the undoing
	Args json.RawMessage `json:"args,omitempty"`
}

// entry is one line: an effect, or that one was undone.
type entry struct {
	Effect
	Done int `json:"done,omitempty"`
}

const maxJournal = 16 << 20

// Journal opens the journal of the run, which must be held; Close of the run
// closes it. It is the same one each time.
func (r *Run) Journal() (*Journal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lock == nil {
		return nil, fmt.Errorf("run %s: journal: %w", r.id, ErrNotHeld)
	}
	if r.journal == nil {
		j, err := openJournal(r.Path(journalFile))
		if err != nil {
			return nil, fmt.Errorf("run %s: journal: %w", r.id, err)
		}
		r.journal = j
	}
	return r.journal, nil
}

func openJournal(path string) (*Journal, error) {
	j := &Journal{path: path}
	_, torn, err := j.read()
	if err != nil {
		return nil, err
	}
	if j.f, err = disk.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	if torn {
		// End what a crash left, or the next line becomes a part of it.
		if _, err = j.f.Write([]byte{'\n'}); err != nil {
			j.f.Close()
			return nil, err
		}
	}
	return j, nil
}

// Add writes down how a side effect is undone and returns when that is on the
// disk: only then the side effect may be made. undo is a kind that whoever
// undoes understands, args marshals to JSON. Undoing must do no harm when the
// side effect was not made: Rein may die between the two.
func (j *Journal) Add(undo string, args any) (int, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	if undo == "" {
		return 0, errors.New("journal: a side effect without a way to undo it")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.last + 1
	if err := j.append(entry{Effect: Effect{N: n, Undo: undo, Args: raw}}); err != nil {
		return 0, err
	}
	j.last = n
	return n, nil
}

// Done writes down that a side effect was undone.
func (j *Journal) Done(n int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(entry{Done: n})
}

func (j *Journal) append(e entry) error {
	b, err := json.Marshal(e)
	if err == nil {
		var n int
		if n, err = j.f.Write(append(b, '\n')); err != nil && n > 0 {
			// Half a line is no line: end it where the next one begins.
			j.f.Write([]byte{'\n'})
		}
	}
	if err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Pending gives what is still to be undone, the latest first: the order of
// undoing. Half a line, which a crash leaves, is skipped: Add did not return,
// and its side effect was never made.
func (j *Journal) Pending() ([]Effect, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	es, _, err := j.read()
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return es, nil
}

// read also says whether the last line has no end.
func (j *Journal) read() (pending []Effect, torn bool, err error) {
	b, err := disk.ReadFile(j.path, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for line := range bytes.Lines(b) {
		var e entry
		torn = line[len(line)-1] != '\n'
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if e.Done > 0 {
			pending = slices.DeleteFunc(pending, func(p Effect) bool { return p.N == e.Done })
		} else if e.N > 0 && e.Undo != "" {
			pending = append(pending, e.Effect)
			j.last = max(j.last, e.N)
		}
	}
	slices.Reverse(pending)
	return pending, torn, nil
}

func (j *Journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.f.Close()
}
