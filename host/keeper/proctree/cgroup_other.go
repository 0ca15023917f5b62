//go:build !linux

package proctree

import (
	"errors"
	"fmt"
)

// Cgroup is a thing of Linux; here none can be had.
type Cgroup struct{}

var errNoCgroup = fmt.Errorf("cgroups: %w", errors.ErrUnsupported)

// NewCgroup returns errors.ErrUnsupported.
func NewCgroup(string) (*Cgroup, error) { return nil, errNoCgroup }

// OpenCgroup returns errors.ErrUnsupported.
func OpenCgroup(string) (*Cgroup, error) { return nil, errNoCgroup }

// Path is "".
func (*Cgroup) Path() string { return "" }

// FD is -1.
func (*Cgroup) FD() int { return -1 }

// Procs returns errors.ErrUnsupported.
func (*Cgroup) Procs() ([]int, error) { return nil, errNoCgroup }

// Kill returns errors.ErrUnsupported.
func (*Cgroup) Kill() error { return errNoCgroup }

// Remove returns errors.ErrUnsupported.
func (*Cgroup) Remove() error { return errNoCgroup }

// Close does nothing.
func (*Cgroup) Close() error { return nil }
