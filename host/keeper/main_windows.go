package keeper

import (
	"io"
	"os"
	"syscall"
)

func stopSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func takeStream(stdin, stdout *os.File) (io.ReadWriteCloser, error) {
	return &stdio{stdin, stdout}, nil
}
