package keeper

import "golang.org/x/sys/unix"

func dup2(from, to int) error { return unix.Dup3(from, to, 0) }

// closeOnExec keeps descriptors that were inherited by mistake from the
// command. Kernels before 5.11 cannot; what the parent leaks is leaked there.
func closeOnExec() { _ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) }
