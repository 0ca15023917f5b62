//go:build !windows

package proctree

import (
	"errors"
	"fmt"
)

// Job is a thing of Windows; here none can be had.
type Job struct{}

var errNoJob = fmt.Errorf("job objects: %w", errors.ErrUnsupported)

// NewJob returns errors.ErrUnsupported.
func NewJob() (*Job, error) { return nil, errNoJob }

// Assign returns errors.ErrUnsupported.
func (*Job) Assign(int) error { return errNoJob }

// Procs returns errors.ErrUnsupported.
func (*Job) Procs() ([]int, error) { return nil, errNoJob }

// Kill returns errors.ErrUnsupported.
func (*Job) Kill() error { return errNoJob }

// Close does nothing.
func (*Job) Close() error { return nil }
