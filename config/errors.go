package config

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/rein-run/rein/internal/typo"
)

// Error is a value or a key that cannot be used, and where it stands.
type Error struct {
	Origin Origin
	Key    string // "" when the file as a whole is meant
	Msg    string // what is wrong and what to do
	Err    error  // what Msg was made of, or nil
}

func (e *Error) Unwrap() error { return e.Err }

func (e *Error) Error() string {
	if e.Origin.Source == Default {
		return e.Msg
	}
	if e.Origin.Source == Flag { // --total: total: …
		return e.Origin.Name + ": " + strings.TrimPrefix(e.Msg, e.Key+": ")
	}
	return e.Origin.String() + ": " + e.Msg
}

// given is a value that somebody gave, before it is understood.
type given struct {
	text      string
	key       string // dotted
	from      Origin
	workingIn string
	home      string
	userFile  string // named in refusals
}

func (v given) errorf(format string, args ...any) error {
	return &Error{Origin: v.from, Key: v.key, Msg: fmt.Sprintf(format, args...)}
}

// refuse says that a project's file may not set this.
func (v given) refuse() error {
	return v.errorf("%s cannot be set by a project, whose file came with a clone: move it to %s", v.key, v.userFileName())
}

func (v given) userFileName() string {
	if v.userFile == "" {
		return "your own configuration file"
	}
	return v.userFile
}

// show quotes what a file says so that it can be printed: short, and without
// control characters.
func show(s string) string { return `"` + printable(s) + `"` }

func printable(s string) string {
	const most = 40
	r := []rune(s)
	if len(r) > most {
		r = append(r[:most-1], '…')
	}
	for i, c := range r {
		if !unicode.IsPrint(c) {
			r[i] = '?'
		}
	}
	return string(r)
}

// nearest is ": did you mean X?" for a name that is close to one of those, and
// else the list of them.
func nearest(name string, known []string) string {
	if best := closest(name, known); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ": there are " + strings.Join(known, ", ")
}

// closest is the known name that was probably meant, "" for none.
func closest(name string, known []string) string {
	if name == "" {
		return ""
	}
	best, least := "", 3*64
	plain := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, k := range known {
		// of two that are as close, the one that begins alike: totl is total
		if d := 64*typo.Distance(plain, k) - common(plain, k); d < least && d <= 2*64 {
			best, least = k, d
		}
	}
	return best
}

func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b), 63) && a[n] == b[n] {
		n++
	}
	return n
}
