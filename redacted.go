package rein

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/rein-run/rein/internal/disk"
	"github.com/rein-run/rein/internal/redact"
	"github.com/rein-run/rein/store"
)

// ErrSecretsUnknown says that values of secrets cannot be redacted because
// nobody knows them any more.
var ErrSecretsUnknown = errors.New("its secrets are not known any more")

// SecretsError names the secrets of a run that nobody knows any more: its rein
// was killed, and their values with it. It matches ErrSecretsUnknown.
type SecretsError struct {
	ID    string
	Names []string
}

func (e *SecretsError) Error() string {
	return fmt.Sprintf("run %s lost its rein, and with it the value of %s: it cannot be redacted any more",
		e.ID, strings.Join(e.Names, ", "))
}

// Is matches ErrSecretsUnknown.
func (e *SecretsError) Is(target error) bool { return target == ErrSecretsUnknown }

// Redacted reads a file of a run, "transcript" or "stderr", with the values of
// the run's secrets replaced by the names of their variables, in whichever
// process that is: a live run is asked where they stand, one that is over left
// it written down. from is the file from its offset at on: an open file, or a
// transcript.Follow. It is closed with the reader, also on an error.
//
// ctx bounds the reading. The error of Read matches ErrSecretsUnknown when the
// run was lost and this process's environment does not have its secrets. While
// the run lives, an end of the file that could be half a value is held back.
func Redacted(ctx context.Context, s *store.Store, run *store.Run, file string, at int64, from io.ReadCloser) (io.ReadCloser, error) {
	names, err := secrets(run)
	if err != nil {
		from.Close()
		return nil, err
	}
	if len(names) == 0 {
		return from, nil
	}
	return &redacted{from: from, at: at, chunk: make([]byte, 256<<10), source: source{
		ctx: ctx, store: s, run: run, file: file, names: names,
	}}, nil
}

// UnknownSecrets are the names of the secrets of a run that was lost which this
// process's environment does not have either: its report may show their values.
func UnknownSecrets(run *store.Run) ([]string, error) {
	names, err := secrets(run)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	if _, err := readMarks(run); err == nil {
		return nil, nil
	}
	known := ownRedactor().Names()
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(known, n) }), nil
}

// secrets are the names of the variables whose values are redacted. A run
// without a record of its command has started nothing.
func secrets(run *store.Run) ([]string, error) {
	b, err := disk.ReadFile(run.Path(commandFile), 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var c struct {
		Secrets []string `json:"secrets"`
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %s: %w", run.ID(), commandFile, err)
	}
	return c.Secrets, nil
}

// ownRedactor knows the secrets of this process's environment, which the agents
// that are started from it inherit.
func ownRedactor() *redact.Redactor {
	var names []string
	for _, a := range Agents().All() {
		names = append(names, a.Capabilities("").Credentials...)
	}
	return redact.New(environ(), names...)
}

type redacted struct {
	source
	from  io.ReadCloser
	chunk []byte
	raw   []byte // read from from, not decided yet
	at    int64  // offset of raw in the file
	mark  int64  // end of the last span that was shown
	out   []byte // to be given
	err   error  // of from
}

func (v *redacted) Read(p []byte) (int, error) {
	for len(v.out) == 0 {
		if v.err == nil {
			var n int
			n, v.err = v.from.Read(v.chunk)
			v.raw = append(v.raw, v.chunk[:n]...)
		}
		if v.err != nil && (v.err != io.EOF || len(v.raw) == 0) {
			return 0, v.err
		}
		if len(v.raw) == 0 {
			continue
		}
		spans, upTo, live, err := v.spans(v.at, v.at+int64(len(v.raw)), v.err == io.EOF)
		if err != nil {
			return 0, err
		}
		if upTo <= v.at && v.err == io.EOF {
			if live { // half a value, perhaps
				return 0, io.EOF
			}
			return 0, io.ErrNoProgress
		}
		v.show(spans, upTo)
	}
	n := copy(p, v.out)
	v.out = v.out[n:]
	return n, nil
}

// show moves what is decided from raw to out.
func (v *redacted) show(spans []redact.Span, upTo int64) {
	upTo = min(max(upTo, v.at), v.at+int64(len(v.raw)))
	for _, s := range spans {
		if s.At >= upTo {
			break
		}
		if s.At > v.at {
			v.out = append(v.out, v.raw[:s.At-v.at]...)
		}
		if s.At >= v.mark { // the rest of one that was shown needs no second name
			v.out = append(v.out, redact.Mark(s.Name)...)
		}
		v.skip(min(max(s.End(), v.at), upTo))
		v.mark = s.End()
	}
	if v.at < upTo {
		v.out = append(v.out, v.raw[:upTo-v.at]...)
		v.skip(upTo)
	}
}

func (v *redacted) skip(to int64) {
	if to > v.at {
		v.raw = v.raw[to-v.at:]
		v.at = to
	}
}

func (v *redacted) Close() error { return v.from.Close() }

// source knows where the secrets of a run stand.
type source struct {
	ctx   context.Context
	store *store.Store
	run   *store.Run
	file  string
	names []string

	fixed []redact.Span // of a run that is over
	over  bool
	own   *redact.Redactor // for a run that was lost
}

func (s *source) spans(from, to int64, last bool) (_ []redact.Span, upTo int64, live bool, err error) {
	if !s.over && s.store.Live(s.run.ID()) {
		spans, upTo, err := (&Remote{s.run}).spans(s.ctx, s.file, from, to)
		if err == nil || !errors.Is(err, ErrNotLive) {
			return spans, upTo, true, err
		}
		// It makes its report and does not listen any more.
		if err := s.wait(); err != nil {
			return nil, 0, true, err
		}
	}
	if err := s.settle(); err != nil {
		return nil, 0, false, err
	}
	if s.own == nil {
		i := sort.Search(len(s.fixed), func(i int) bool { return s.fixed[i].End() > from })
		return s.fixed[i:], to, false, nil
	}
	f, err := disk.Open(s.run.Path(s.file))
	if err != nil {
		return nil, 0, false, err
	}
	defer f.Close()
	spans, upTo, err := spansIn(f, s.own, from, to, last)
	return spans, upTo, false, err
}

// wait waits until nobody holds the run. A supervisor that makes its report is
// bounded in that, and a dead one holds nothing.
func (s *source) wait() error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for s.store.Live(s.run.ID()) {
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-t.C:
		}
	}
	return nil
}

// settle looks, once, what the run left.
func (s *source) settle() error {
	if s.over {
		return nil
	}
	m, err := readMarks(s.run)
	switch {
	case err == nil:
		s.fixed, s.over = m.of(s.file), true
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	unknown, err := UnknownSecrets(s.run)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return &SecretsError{ID: s.run.ID(), Names: unknown}
	}
	s.own, s.over = ownRedactor(), true
	return nil
}
