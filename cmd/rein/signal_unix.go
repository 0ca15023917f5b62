//go:build unix

package main

import "golang.org/x/sys/unix"

// signalNumber turns "SIGTERM" into 15, for the 128+N that shells use.
func signalNumber(name string) int { return int(unix.SignalNum(name)) }
