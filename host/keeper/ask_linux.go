package keeper

import (
	"errors"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rein-run/rein/host/keeper/proctree"
)

var errStranger = errors.New("only a program of this run may ask")

// mayAsk checks that the peer is a process of this user and, when top is not
// nil, that it descends from one of top. The parents are followed from below, a
// few reads: members that lost theirs come back to the keeper, which is a
// subreaper. It keeps a process of another run, or of the user, from being
// counted in this one; what the agent starts may ask whatever it likes.
func mayAsk(conn net.Conn, top []int) error {
	var from *unix.Ucred
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err == nil {
		var gerr error
		err = raw.Control(func(fd uintptr) { from, gerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
		err = errors.Join(err, gerr)
	}
	if err != nil {
		return err
	}
	if int(from.Uid) != os.Geteuid() {
		return errStranger
	}
	if top == nil {
		return nil
	}
	for pid, n := int(from.Pid), 0; pid > 0 && n < 1024; n++ {
		if slices.Contains(top, pid) {
			return nil
		}
		p, err := proctree.Read(pid)
		if err != nil || p.PPID == pid {
			break
		}
		pid = p.PPID
	}
	return errStranger
}
