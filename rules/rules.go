// Package rules places the user's rules into a file of the repository that a CLI
// reads by itself, for the time of one run, and takes them away again.
//
// The file may be the project's own. It is changed as a whole or not at all, no
// symlink is followed, its mode stays, and what the agent writes into it is
// kept. How it is undone stands in the run's journal before anything is done, so
// that a run which died is tidied up by whoever finishes it.
package rules

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rein-run/rein/store"
)

// Errors of Place, for errors.Is.
var (
	// ErrLink: the file or a folder above it is a symlink. What would be written
	// through it is another file, that other agents may read too.
	ErrLink = errors.New("is a symbolic link")
	// ErrTooLarge: the CLIs read 32 KiB of such a file and drop the rest in
	// silence (codex 0.171.0: project_doc_max_bytes).
	ErrTooLarge = errors.New("is more than the CLIs read of such a file")
	// ErrTracked: git has the file, so that rules in it would be in a commit.
	ErrTracked = errors.New("is tracked by git")
)

// MaxFile is how large the file may be with the rules in it, in bytes.
const MaxFile = 32 << 10

// maxOriginal bounds what is read of a file that is there, in bytes.
const maxOriginal = 1 << 20

// Options of Place.
type Options struct {
	// Journal is that of the run; nil: a crash leaves the rules where they are.
	Journal *store.Journal
	// Exclude is the file info/exclude of the repository's common directory, ""
	// outside of one. Top is the top of the working tree that dir lies in.
	Exclude, Top string
	// Lock keeps other runs from Exclude for a moment; nil: there are none.
	Lock func() (release func(), err error)
	// Tracked says that git has the file, Commits that the run may commit: both
	// together are refused.
	Tracked, Commits bool
}

// Placed are rules in a file. A nil one is none.
type Placed struct {
	undo undo
	n    int // in the journal
	o    Options
	done bool
}

// undo is what the journal keeps: all that Restore needs.
type undo struct {
	Dir   string `json:"dir"`
	File  string `json:"file"` // below Dir, slashes
	Token string `json:"token"`
	Rules string `json:"rules"`
	// Original is what was there, nil where there was no file.
	Original []byte      `json:"original,omitempty"`
	Existed  bool        `json:"existed"`
	Mode     fs.FileMode `json:"mode"`
	ModTime  time.Time   `json:"mtime,omitzero"`
	owner    fs.FileInfo // whose the file is to be; nil: ours
	Made     []string    `json:"made,omitempty"` // folders, the deepest last
	Exclude  string      `json:"exclude,omitempty"`
	Pattern  string      `json:"pattern,omitempty"`
}

// Effect is the kind of the entry in a run's journal.
const Effect = "rules"

// Place puts text into file, a slash path below dir, before what is there; in a
// file of the form .mdc behind it, where its head has to stay. Empty text places
// nothing, and nil is returned. An error leaves everything as it was.
func Place(dir, file, text string, o *Options) (*Placed, error) {
	if text == "" {
		return nil, nil
	}
	if o == nil {
		o = &Options{}
	}
	p := &Placed{o: *o}
	u := &p.undo
	*u = undo{Dir: dir, File: path.Clean(file), Rules: text, Mode: 0o644, Exclude: o.Exclude}
	if !filepath.IsLocal(filepath.FromSlash(u.File)) || u.File == "." {
		return nil, fmt.Errorf("rules: %q is not a file below the directory", file)
	}
	if o.Tracked && o.Commits {
		return nil, fmt.Errorf("%s %w, and a run that may commit would commit the rules in it", u.File, ErrTracked)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := u.look(root); err != nil {
		return nil, err
	}
	for u.Token = rand.Text(); strings.Contains(text, u.Token) || bytes.Contains(u.Original, []byte(u.Token)); {
		u.Token = rand.Text()
	}
	content := u.with(u.Original)
	if n := len(content); n > MaxFile && (len(u.Original) <= MaxFile || len(content)-len(u.Original) > MaxFile) {
		return nil, fmt.Errorf("%s with the rules (%d bytes) %w (%d)", u.File, n, ErrTooLarge, MaxFile)
	}
	if o.Exclude != "" && !o.Tracked {
		u.Pattern = pattern(o.Top, dir, u.File)
	}
	if o.Journal != nil {
		if p.n, err = o.Journal.Add(Effect, u); err != nil {
			return nil, err
		}
	}
	if err := p.make(root, content); err != nil {
		return nil, errors.Join(err, p.Restore())
	}
	return p, nil
}

// make is the side effect.
func (p *Placed) make(root *os.Root, content []byte) error {
	u := &p.undo
	for _, d := range u.Made {
		if err := root.Mkdir(filepath.FromSlash(d), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if u.Pattern != "" {
		if err := p.exclude(addPattern); err != nil {
			return err
		}
	}
	return u.write(root, content)
}

// look reads what is there.
func (u *undo) look(root *os.Root) error {
	dir := path.Dir(u.File)
	for at, parts := "", strings.Split(dir, "/"); dir != "." && len(parts) > 0; parts = parts[1:] {
		at = path.Join(at, parts[0])
		st, err := root.Lstat(filepath.FromSlash(at))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			u.Made = append(u.Made, at)
		case err != nil:
			return err
		case st.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s %w", at, ErrLink)
		case !st.IsDir():
			return fmt.Errorf("%s is not a folder", at)
		}
	}
	b, st, err := u.read(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	u.Original, u.Existed, u.Mode, u.ModTime, u.owner = b, true, st.Mode().Perm(), st.ModTime(), st
	return nil
}

// read reads the file, and nothing through a link.
func (u *undo) read(root *os.Root) ([]byte, fs.FileInfo, error) {
	name := filepath.FromSlash(u.File)
	st, err := root.Lstat(name)
	switch {
	case err != nil:
		return nil, nil, err
	case st.Mode()&fs.ModeSymlink != 0:
		return nil, nil, fmt.Errorf("%s %w", u.File, ErrLink)
	case !st.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%s is not a regular file", u.File)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	// Between the two looks it may have become another.
	if now, err := f.Stat(); err != nil || !os.SameFile(st, now) {
		return nil, nil, fmt.Errorf("%s is being replaced", u.File)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxOriginal+1))
	if err == nil && len(b) > maxOriginal {
		err = fmt.Errorf("%s %w (%d)", u.File, ErrTooLarge, MaxFile)
	}
	return b, st, err
}

// write replaces the file as a whole, with the mode that it had.
func (u *undo) write(root *os.Root, content []byte) error {
	name := filepath.FromSlash(u.File)
	tmp := name + "." + u.Token
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, u.Mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if u.owner != nil {
		give(f, u.owner) // root works in a user's folder; anybody else owns it already
	}
	if err == nil {
		err = f.Chmod(u.Mode) // the umask took some of it
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		root.Remove(tmp)
	}
	return err
}

// Restore takes the rules away: what was there is there again, with what the
// agent has made of it. It may be called again, and on nil. An error says what is
// left and where.
func (p *Placed) Restore() error {
	if p == nil || p.done {
		return nil
	}
	err := errors.Join(p.undo.restore(), p.exclude(dropPattern))
	if err != nil {
		return fmt.Errorf("rules in %s: %w", filepath.Join(p.undo.Dir, filepath.FromSlash(p.undo.File)), err)
	}
	p.done = true
	if p.o.Journal != nil {
		return p.o.Journal.Done(p.n)
	}
	return nil
}

func (u *undo) restore() error {
	root, err := os.OpenRoot(u.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the whole directory is gone
	}
	if err != nil {
		return err
	}
	defer root.Close()
	root.Remove(filepath.FromSlash(u.File) + "." + u.Token) // of a crash
	now, st, err := u.read(root)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the agent took it away, or it was never made
	case err != nil:
		return err
	default:
		rest, found := u.without(now)
		switch {
		case !found: // never made, or the agent wrote the file anew
		case !u.Existed && len(bytes.TrimSpace(rest)) == 0:
			if err := root.Remove(filepath.FromSlash(u.File)); err != nil {
				return err
			}
		default:
			u.owner = st
			u.Mode = st.Mode().Perm() // the agent may have changed it
			if err := u.write(root, rest); err != nil {
				return err
			}
			if u.Existed && bytes.Equal(rest, u.Original) { // nothing for a build to do anew
				root.Chtimes(filepath.FromSlash(u.File), time.Time{}, u.ModTime)
			}
		}
	}
	for i := len(u.Made) - 1; i >= 0; i-- {
		if root.Remove(filepath.FromSlash(u.Made[i])) != nil { // not empty: the agent's
			break
		}
	}
	return nil
}

// Recover restores what a run that died had placed; its journal must be held.
// lock is as Options.Lock.
func Recover(j *store.Journal, lock func(exclude string) (release func(), err error)) error {
	pending, err := j.Pending()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range pending {
		if e.Undo != Effect {
			continue
		}
		p := &Placed{n: e.N, o: Options{Journal: j}}
		if err := json.Unmarshal(e.Args, &p.undo); err != nil {
			errs = append(errs, fmt.Errorf("rules: the journal: %w", err))
			continue
		}
		if lock != nil && p.undo.Exclude != "" {
			p.o.Lock = func() (func(), error) { return lock(p.undo.Exclude) }
		}
		errs = append(errs, p.Restore())
	}
	return errors.Join(errs...)
}
