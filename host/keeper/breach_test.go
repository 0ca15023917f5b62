//go:build unix

package keeper

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/rein-run/rein/host/driver"
)

// A client that breaks the protocol is given up, and its command with it.
func TestBreach(t *testing.T) {
	for name, breach := range map[string][]byte{
		"more stdin than granted":  bytes.Repeat(appendFrame(nil, kStdin, make([]byte, chunk)), 8),
		"ack of what was not sent": appendOffset(nil, kAck, driver.Stdout, 1<<40),
		"ack of no stream":         appendFrame(nil, kAck, append([]byte{7}, make([]byte, 8)...)),
		"a second start":           appendFrame(nil, kStart, versionByte, []byte("{}")),
		"a keeper's frame":         appendFrame(nil, kExit, []byte("{}")),
		"noise":                    []byte("hello, is this a shell?\n"),
	} {
		t.Run(name, func(t *testing.T) {
			bothKinds(t, func(t *testing.T, at *keeperAt) {
				spec := prog(t, "sleep")
				spec.Duplex = true
				conn, r := rawStart(t, at, spec)
				leader := leaderOf(t, spec.ID)
				rest := make(chan []byte)
				go func() {
					b, _ := io.ReadAll(r)
					rest <- b
				}()
				conn.Write(breach) // it may be cut off in the middle
				b := <-rest        // until the keeper closes the stream
				at.left(at.gone)
				if alive(leader) {
					t.Error("the command is alive")
				}
				if bytes.IndexByte(b, byte(kExit)) >= 0 && strings.Contains(string(b), `"exited"`) {
					t.Errorf("it was told %q", b)
				}
				if at.spool {
					e, err := ReadExit(at.root + "/" + spec.ID)
					if err != nil || e.Reason != driver.Killed || !strings.Contains(e.Detail, "protocol error") {
						t.Errorf("the exit is %+v, %v", e, err)
					}
				}
			})
		})
	}
}

// rawStart is a client without its manners.
func rawStart(t *testing.T, at *keeperAt, spec *driver.Spec) (io.WriteCloser, *bufio.Reader) {
	t.Helper()
	conn := at.dial()
	if _, err := conn.Write(appendFrame(nil, kStart, versionByte, encode(newStartMsg(spec, &ClientOptions{}, false)))); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if k, p, err := readFrame(r); k != kStarted || err != nil {
		t.Fatalf("%q %s %v", k, p, err)
	}
	return conn, r
}

// A client that acknowledges nothing gets the window and no byte more; when it
// goes, what the keeper holds for it does not keep the keeper.
func TestCutWhileHeld(t *testing.T) {
	in(t, []place{places[0], places[2], places[3]}, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "flood", "0")
		conn, r := rawStart(t, at, spec)
		leader := leaderOf(t, spec.ID)
		got := 0
		for got < window {
			k, p, err := readFrame(r)
			if err != nil {
				t.Fatal(err)
			}
			if k == kData {
				got += len(p) - 9
			}
		}
		if got > window {
			t.Errorf("%d bytes came unacknowledged, the window is %d", got, window)
		}
		conn.Close()
		at.left(at.gone)
		if alive(leader) {
			t.Error("the leader is alive")
		}
	})
}
