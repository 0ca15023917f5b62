//go:build linux && real

package hosttest

import (
	"io"
	"testing"
	"time"
)

// TestLinked runs the whole kit over links whose transports all die young.
func TestLinked(t *testing.T) {
	h := linkHarness(t, 20*time.Second, func(c io.ReadWriteCloser) io.ReadWriteCloser { return newBadLine(c, 64<<20, 2*time.Second) })
	h.Patience = 5 * time.Minute
	Run(t, h)
}

// TestLinkedWell does it over links that nobody cuts.
func TestLinkedWell(t *testing.T) {
	h := linkHarness(t, 20*time.Second, nil)
	h.Patience = 5 * time.Minute
	Run(t, h)
}
