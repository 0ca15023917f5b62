//go:build !linux

package keeper

import "net"

// mayAsk leaves it to the modes of the directory (0700) and the socket (0600).
func mayAsk(net.Conn, []int) error { return nil }
