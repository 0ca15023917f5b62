//go:build !linux

package keeper

import (
	"os"
	"time"
)

// source is the end of a pipe that we read.
type source struct{ f *os.File }

func newSource(f *os.File) (*source, error) { return &source{f}, nil }

func (s *source) read(p []byte) (int, error) { return s.f.Read(p) }

// interrupt ends a read that is under way, and every later one.
func (s *source) interrupt() { _ = s.f.SetReadDeadline(time.Now()) }

// files are what close closes.
func (s *source) files() []*os.File { return []*os.File{s.f} }

// close is called when nobody reads any more.
func (s *source) close() { closeAll(s.files()) }

// nap waits for a moment in which a flood fills a part of the pipe.
func nap() { time.Sleep(300 * time.Microsecond) }
