package link

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// Whatever comes first, at either end, costs bounded memory and no panic; a
// hello that is read is the one that was written.
func FuzzFirstWords(f *testing.F) {
	f.Add((&Hello{Key: newKey(), Create: true, Ping: time.Second, Lease: time.Minute, epoch: 3, received: 4}).append(nil))
	f.Add(appendWelcome([]byte("Welcome!\n"), 5))
	f.Add(appendRefusal(nil, &refusedError{codeGone, "gone"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := readHello(bytes.NewReader(b)); err == nil && !bytes.Equal(h.append(nil)[6:], b[6:helloSize]) {
			t.Errorf("%x was read as %x", b[:helloSize], h.append(nil))
		}
		if _, noise, err := readAnswer(bufio.NewReader(bytes.NewReader(b))); len(noise) > 200 || err != nil && len(err.Error()) > 2*maxReason {
			t.Errorf("%d bytes of noise, %v", len(noise), err)
		}
	})
}

// Whatever comes behind a valid hello, the server holds no more than it may, and
// delivers nothing that is not in order.
func FuzzFrames(f *testing.F) {
	f.Add(append(head{kData, 0, 3}.append(nil), "abc"...))
	f.Add(append(head{kAck, 0, 0}.append(nil), head{kFin, 0, 0}.append(nil)...))
	f.Add(head{kData, 1 << 60, 10}.append(nil))
	f.Add(head{kData, 0, 1 << 30}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := newNetwork()
		c := Serve(n, Key{}, nil)
		near, far := net.Pipe()
		n.queue <- far
		go io.Copy(io.Discard, near)
		near.Write((&Hello{Ping: time.Second, Lease: time.Minute, epoch: 1}).append(nil))
		near.Write(b)
		near.Close()
		c.mu.Lock()
		for c.w != nil || !c.up {
			c.mu.Unlock()
			time.Sleep(10 * time.Microsecond)
			c.mu.Lock()
			if c.over {
				break
			}
		}
		if held := c.in.received - c.in.read; held > maxBuffer || held > uint64(len(b)) {
			t.Errorf("%d bytes are held of %d", held, len(b))
		}
		c.lose(errDown)
		c.mu.Unlock()
		<-c.done
	})
}
