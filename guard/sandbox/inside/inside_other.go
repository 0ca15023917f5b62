//go:build !linux

package inside

import "errors"

// Main is for Linux, where the sandbox is.
func Main([]string) error { return errors.ErrUnsupported }
