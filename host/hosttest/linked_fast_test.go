//go:build linux && !real

package hosttest

import (
	"io"
	"testing"
	"time"
)

// TestLinkedSmoke is a glance: the whole kit runs over links behind the tag
// real.
func TestLinkedSmoke(t *testing.T) {
	h := linkHarness(t, time.Minute, func(c io.ReadWriteCloser) io.ReadWriteCloser { return newBadLine(c, 4<<20, time.Second) })
	for _, name := range []string{"Start/ArgvVerbatim", "Output/BothStreams", "Input/Echo", "End/KillIsIdempotent"} {
		for _, c := range allCases() {
			if c.name == name {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					runCase(t, &h, c)
				})
			}
		}
	}
}
