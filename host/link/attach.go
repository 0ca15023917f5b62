package link

import (
	"errors"
	"io"
	"net"
	"time"
)

// Attach is the body of the program that a client starts at the far end, once
// per transport: it reads the hello from stdio, reaches the server, and copies
// both ways until either side ends. What reach cannot do is told to the client,
// which then gives up: ErrGone for a server that is not there any more.
func Attach(stdio io.ReadWriter, reach func(*Hello) (net.Conn, error)) error {
	h, err := readHello(stdio)
	var server net.Conn
	if err == nil {
		server, err = reach(h)
	}
	if err != nil {
		no := &refusedError{codeOther, err.Error()}
		if errors.Is(err, ErrGone) {
			no.code = codeGone
		}
		errors.As(err, &no)
		if !errors.Is(err, errFrame) { // to whom is not ours nothing is said
			stdio.Write(appendRefusal(nil, no))
		}
		return err
	}
	defer server.Close()
	if _, err := server.Write(h.append(nil)); err != nil {
		return err
	}
	go func() {
		io.Copy(server, stdio)
		// Not only its writing side: the transport is over as a whole.
		server.Close()
	}()
	return copyOut(stdio, server, 3*h.Ping)
}

// copyOut gives up on a client that takes nothing for patience: this process
// would stay for ever where the daemon above it does not notice a dead line.
func copyOut(w io.Writer, r io.Reader, patience time.Duration) error {
	d, _ := w.(interface{ SetWriteDeadline(time.Time) error })
	b := make([]byte, 64<<10)
	for {
		n, err := r.Read(b)
		if n > 0 {
			if d != nil {
				_ = d.SetWriteDeadline(time.Now().Add(patience)) // files that cannot have one block
			}
			if _, werr := w.Write(b[:n]); werr != nil {
				return werr
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
	}
}
