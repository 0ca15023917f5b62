package guard

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is; each *Error wraps one.
var (
	ErrGrant       = errors.New("no such denied command")
	ErrUngrantable = errors.New("cannot be granted")
	ErrRule        = errors.New("unusable rule")
	ErrLevel       = errors.New("unusable level")
	ErrPack        = errors.New("unknown rule pack")
)

// Error says what in a Config is wrong and what can be said instead.
type Error struct {
	Err   error  // one of the sentinels
	Value string // what was given
	Hint  string // what to do, one clause
}

func (e *Error) Error() string {
	s := e.Err.Error()
	if e.Value != "" {
		s = fmt.Sprintf("%q: %s", e.Value, s)
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
