package local

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// socketPair: a keeper process needs a stream that can be inherited, which
// Windows makes of two pipes.
func socketPair() (ours io.ReadWriteCloser, theirs *os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}

func ownSession() *syscall.SysProcAttr { return nil }
