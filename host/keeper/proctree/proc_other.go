//go:build !linux && !darwin && !windows

package proctree

import (
	"errors"
	"fmt"
	"syscall"
)

const (
	stopSignal  = syscall.Signal(0)
	contSignal  = syscall.Signal(0)
	ppidIsStale = true
)

var errOther = fmt.Errorf("process trees on this system: %w", errors.ErrUnsupported)

// Read returns errors.ErrUnsupported.
func Read(int) (Proc, error) { return Proc{}, errOther }

// BootID is "".
func BootID() string { return "" }

// Ticks is 0.
func Ticks() uint64 { return 0 }

// SetSubreaper returns errors.ErrUnsupported.
func SetSubreaper() error { return errOther }

// Descendants returns errors.ErrUnsupported.
func Descendants(int) ([]Proc, error) { return nil, errOther }

// Marked returns errors.ErrUnsupported.
func Marked(string) ([]Proc, error) { return nil, errOther }

// Signal returns errors.ErrUnsupported.
func Signal(p Proc, sig syscall.Signal) error { return signalError(p, sig, errOther) }

// Reap returns errors.ErrUnsupported.
func Reap(...int) (int, error) { return 0, errOther }

func walk(int, map[int]bool) ([]Proc, bool, error) { return nil, false, errOther }
func table() ([]Proc, error)                       { return nil, errOther }
func marked(Proc, string) bool                     { return false }
func reap(int) bool                                { return false }
func waitedCPU() float64                           { return 0 }
