package driver

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed: the command is over, or its stdin was closed.
	ErrClosed = errors.New("stdin is closed")
	// ErrBusy: the queue in front of stdin is full; nothing was taken.
	ErrBusy = errors.New("the command does not read its stdin: queue full, nothing taken")
	// ErrNotFound is matched by every *NotFoundError.
	ErrNotFound = errors.New("executable not found")
	// ErrNoDir is matched when the working directory does not exist there.
	ErrNoDir = errors.New("directory does not exist")
	// ErrArgument is matched when the environment cannot take the arguments or
	// variables: too long for it, or with a NUL byte. Refused before the start.
	ErrArgument = errors.New("unusable argument or variable")
	// ErrContainment is matched when the tree would be held by less than was
	// required.
	ErrContainment = errors.New("containment is not available")
)

// NotFoundError says which name was not found, and where it was looked for.
type NotFoundError struct {
	Name string
	Path string // the PATH that was searched; "" when Name holds a slash
	Why  string // "", or what was wrong with the file that is there
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Why != "":
		return fmt.Sprintf("%s: %s", e.Name, e.Why)
	case e.Path == "":
		return fmt.Sprintf("%s: no such file", e.Name)
	}
	return fmt.Sprintf("%s: not found in PATH (%s)", e.Name, e.Path)
}

func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }
