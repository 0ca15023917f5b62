package agent

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is; each *Error wraps one.
var (
	ErrUnknown     = errors.New("unknown agent")
	ErrMode        = errors.New("unsupported permission mode")
	ErrSession     = errors.New("unsupported session token")
	ErrModel       = errors.New("model of another family")
	ErrPrompt      = errors.New("unusable prompt")
	ErrArgument    = errors.New("unusable argument")
	ErrUnsupported = errors.New("not supported by this agent")
)

// Error says what an agent cannot do and what can be done instead.
type Error struct {
	Agent string
	Err   error  // one of the sentinels
	Value string // what was asked
	Hint  string // what to do, one clause
}

func (e *Error) Error() string {
	s := e.Err.Error()
	if e.Value != "" {
		s += fmt.Sprintf(" %q", e.Value)
	}
	if e.Agent != "" {
		s = e.Agent + ": " + s
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
