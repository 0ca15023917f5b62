//go:build !linux

package disktest

import "testing"

// Small skips: a small file system can be mounted on Linux only.
func Small(t *testing.T, _ int, _ func(dir string)) {
	t.Skip("a small file system can be mounted on Linux only")
}
