//go:build !linux

package inside

import "errors"

// MinABI is for Linux, where the sandbox is.
const MinABI = 4

// Main is for Linux, where the sandbox is.
func Main([]string) error { return errors.ErrUnsupported }

// ABI is 0: there is no Landlock here.
func ABI() int { return 0 }
