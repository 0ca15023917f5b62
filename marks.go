package rein

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/rein-run/rein/internal/disk"
	"github.com/rein-run/rein/internal/redact"
	"github.com/rein-run/rein/store"
)

// Only the process that supervises a run knows the values of its secrets, and
// no value, nor a hash that a short one could be guessed from, is ever written
// to disk. What others need in order to show the run without them is where they
// stand: the supervisor is asked while it lives, and leaves the places behind
// when it ends.

const (
	commandFile = "command.json"
	marksFile   = "redacted.json"
	marksSchema = "rein.redacted/1"

	maxMarks = 1 << 16 // per file; what comes behind them is withheld as a whole
	maxSpans = 500     // per answer
	maxPiece = 1 << 20 // bytes that are looked at at once: more than any variable holds
)

// marks says where secrets stand in the files of a run that is over.
type marks struct {
	Schema     string        `json:"schema"`
	Transcript []redact.Span `json:"transcript"`
	Stderr     []redact.Span `json:"stderr"`
}

func (m *marks) of(file string) []redact.Span {
	if file == "stderr" {
		return m.Stderr
	}
	return m.Transcript
}

// writeMarks leaves the places of the secrets that red knows. It reads the
// files once, and writes nothing where there are no secrets.
func writeMarks(dir *store.Run, red *redact.Redactor) error {
	if len(red.Names()) == 0 {
		return nil
	}
	m := marks{Schema: marksSchema}
	var err error
	if m.Transcript, err = allSpans(dir.Path("transcript"), red); err != nil {
		return err
	}
	if m.Stderr, err = allSpans(dir.Path("stderr"), red); err != nil {
		return err
	}
	return writeJSON(dir, marksFile, m)
}

func readMarks(dir *store.Run) (*marks, error) {
	b, err := disk.ReadFile(dir.Path(marksFile), 64<<20)
	if err != nil {
		return nil, err
	}
	m := &marks{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("run %s: %s: %w", dir.ID(), marksFile, err)
	}
	return m, nil
}

// allSpans looks through a whole file; one that is not there holds nothing.
func allSpans(path string, red *redact.Redactor) ([]redact.Span, error) {
	all := []redact.Span{}
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	for at := int64(0); at < size; {
		to := min(at+maxPiece, size)
		spans, upTo, err := spansIn(f, red, at, to, to == size)
		if err != nil {
			return nil, err
		}
		if all = append(all, spans...); len(all) > maxMarks {
			from := all[maxMarks].At
			return append(all[:maxMarks], redact.Span{At: from, Len: size - from, Name: "withheld: too many secrets"}), nil
		}
		if upTo <= at {
			return nil, fmt.Errorf("%s: a secret longer than %d bytes", path, maxPiece)
		}
		at = upTo
	}
	return all, nil
}

// spansIn gives the spans that reach into [from, to) of a file, and up to where
// they are known; see redact.Redactor.Find.
func spansIn(f io.ReaderAt, red *redact.Redactor, from, to int64, last bool) ([]redact.Span, int64, error) {
	// A value may have begun before from: whoever looks at the last lines of a
	// file begins anywhere.
	start := max(0, from-int64(red.Longest()))
	b := make([]byte, to-start)
	n, err := f.ReadAt(b, start)
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	spans, decided := red.Find(b[:n], start, last)
	for len(spans) > 0 && spans[0].End() <= from {
		spans = spans[1:]
	}
	return spans, max(from, start+int64(decided)), nil
}

// spans answers a viewer in another process.
func (r *Run) spans(file string, from, to int64) ([]redact.Span, int64, error) {
	if file != "transcript" && file != "stderr" {
		return nil, 0, fmt.Errorf("no file %q", clip(file, 40))
	}
	if from < 0 || to < from {
		return nil, 0, fmt.Errorf("no piece of a file: %d to %d", from, to)
	}
	f, err := disk.Open(r.dir.Path(file))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	spans, upTo, err := spansIn(f, r.p.redact, from, min(to, from+maxPiece), false)
	if len(spans) > maxSpans {
		upTo = spans[maxSpans].At
		spans = spans[:maxSpans]
	}
	return spans, upTo, err
}
