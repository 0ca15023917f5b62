package link

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestIncoming(t *testing.T) {
	var in incoming
	var m memory
	add := func(off uint64, s string) bool {
		t.Helper()
		fresh, err := in.add(off, []byte(s), &m)
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}
	if !add(0, "abc") || add(0, "abc") || add(1, "b") || !add(2, "cde") {
		t.Error("what is new, and what is not, is mixed up")
	}
	b := make([]byte, 10)
	if n := in.take(b, &m); string(b[:n]) != "abcde" {
		t.Errorf("%q", b[:n])
	}
	if _, err := in.add(6, []byte("g"), &m); !errors.Is(err, errFrame) {
		t.Errorf("a gap: %v", err)
	}
	for {
		if _, err := in.add(in.received, make([]byte, maxData), &m); err != nil {
			break
		}
		if in.received > 2*maxBuffer {
			t.Fatal("no bound")
		}
	}
	in.drop()
	in.fin = true
	if _, err := in.add(in.received, []byte("x"), &m); !errors.Is(err, errFrame) {
		t.Errorf("behind the end: %v", err)
	}
}

func TestOutgoing(t *testing.T) {
	var o outgoing
	var m memory
	for _, s := range []string{"abc", "def", "ghi"} {
		o.add([]byte(s), 100, &m)
		o.chunks[len(o.chunks)-1].seal()
	}
	o.sent = 6
	for received, want := range map[uint64]uint64{0: 0, 2: 0, 3: 1, 5: 1, 6: 2} {
		if n, err := o.seek(received); err != nil || n != want {
			t.Errorf("seek(%d) is %d, %v; want %d", received, n, err, want)
		}
	}
	if _, err := o.seek(7); !errors.Is(err, errFrame) {
		t.Errorf("more than was sent: %v", err)
	}
	if err := o.ack(7, &m); !errors.Is(err, errFrame) {
		t.Errorf("more than was sent: %v", err)
	}
	if err := o.ack(4, &m); err != nil || o.first != 1 || len(o.chunks) != 2 {
		t.Errorf("%v, %d chunks from %d", err, len(o.chunks), o.first)
	}
	if err := o.ack(1, &m); err != nil || o.base != 4 {
		t.Errorf("an old one: %v, %d", err, o.base)
	}
	if _, err := o.seek(3); !errors.Is(err, errFrame) {
		t.Errorf("less than was acknowledged: %v", err)
	}
	// Small writes that were not sent yet share a frame, of any size up to the
	// largest.
	o = outgoing{}
	for range 1000 {
		for p := []byte(strings.Repeat("x", 1000)); len(p) > 0; {
			p = p[o.add(p, len(p), &m):]
		}
	}
	if len(o.chunks) != (1000_000+maxData-1)/maxData || o.end != 1000_000 {
		t.Errorf("%d chunks, %d bytes", len(o.chunks), o.end)
	}
}

func TestReadHead(t *testing.T) {
	var buf [headSize]byte
	for _, h := range []head{{kData, 5, maxData}, {kAck, 1 << 62, 0}, {kPing, 0, 0}, {kFin, 7, 0}, {kFinAck, 0, 0}} {
		if got, err := readHead(bytes.NewReader(h.append(nil)), &buf); err != nil || got != h {
			t.Errorf("%+v became %+v, %v", h, got, err)
		}
	}
	for _, h := range []head{{kData, 0, 0}, {kData, 0, maxData + 1}, {kAck, 0, 1}, {kAck, 1<<62 + 1, 0}, {'?', 0, 0}} {
		if _, err := readHead(bytes.NewReader(h.append(nil)), &buf); !errors.Is(err, errFrame) {
			t.Errorf("%+v: %v", h, err)
		}
	}
}
