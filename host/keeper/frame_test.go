//go:build unix

package keeper

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/rein-run/rein/host/driver"
)

func reader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

func TestFrames(t *testing.T) {
	var b []byte
	b = appendFrame(b, kCloseStdin)
	b = appendOffset(b, kData, driver.Stderr, 1<<40, []byte("bytes"))
	b = appendUint64(b, kCredit, 7)
	big := bytes.Repeat([]byte("x"), 3<<20)
	b = appendFrame(b, kStart, versionByte, big)
	r := reader(b)
	next := func() (kind, []byte) {
		k, p, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		return k, p
	}
	if k, p := next(); k != kCloseStdin || len(p) != 0 {
		t.Errorf("got %q %q", k, p)
	}
	k, p := next()
	s, off, data, err := parseOffset(p)
	if k != kData || s != driver.Stderr || off != 1<<40 || string(data) != "bytes" || err != nil {
		t.Errorf("got %q %v %d %q %v", k, s, off, data, err)
	}
	k, p = next()
	if n, err := parseUint64(p); k != kCredit || n != 7 || err != nil {
		t.Errorf("got %q %d %v", k, n, err)
	}
	if k, p := next(); k != kStart || !bytes.Equal(p[1:], big) {
		t.Errorf("got %q of %d bytes", k, len(p))
	}
	if _, _, err := readFrame(r); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestBadFrames(t *testing.T) {
	head := func(k kind, n uint32) []byte {
		return binary.BigEndian.AppendUint32([]byte{byte(k)}, n)
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"unknown kind":       {head('?', 0), errFrame},
		"too long":           {head(kData, chunk+10), errFrame},
		"far too long":       {head(kStart, 1<<32-1), errFrame},
		"kill with a body":   {append(head(kKill, 5), 1, 2, 3, 4, 5), errFrame},
		"ends in the head":   {head(kData, 5)[:3], io.ErrUnexpectedEOF},
		"ends in the body":   {append(head(kData, 5), 1, 2), io.ErrUnexpectedEOF},
		"ends before a body": {head(kData, 5), io.ErrUnexpectedEOF},
	} {
		if _, _, err := readFrame(reader(c.b)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A length that is a lie costs no memory.
func TestLongFrameThatNeverComes(t *testing.T) {
	b := binary.BigEndian.AppendUint32([]byte{byte(kStart)}, 16<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 16 {
		readFrame(reader(b))
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("16 lies of 16 MiB took %d bytes", got)
	}
}

// What is decoded and encoded again is the same; nothing panics.
func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, kCloseStdin))
	f.Add(appendOffset(nil, kData, driver.Stdout, 0, []byte("x")))
	f.Add(appendUint64(nil, kExtend, 1<<63))
	f.Add(appendFrame(nil, kKill, seqBytes(1)))
	f.Add([]byte("Last login: yesterday\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := reader(b)
		var again []byte
		for {
			k, p, err := readFrame(r)
			if err != nil {
				break
			}
			again = appendFrame(again, k, p)
			if s, off, data, err := parseOffset(p); err == nil && k == kData {
				if x := appendOffset(nil, k, s, off, data); !bytes.Equal(x[5:], p) {
					t.Fatalf("%q became %q", p, x[5:])
				}
			}
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("%q was read as %q", b, again)
		}
	})
}

// The client survives whatever a keeper sends, and ends.
func FuzzClient(f *testing.F) {
	started := appendFrame(nil, kStarted, versionByte, []byte(`{"pid":1}`))
	exit := appendFrame(nil, kExit, []byte(`{"reason":"exited","code":0}`))
	f.Add(appendOffset(nil, kData, driver.Stdout, 0, []byte("x")))
	f.Add(append(appendOffset(nil, kSpooled, driver.Stdout, 9), exit...))
	f.Add(appendFrame(nil, kSample, []byte(`{}`)))
	f.Add(append(appendFrame(nil, kAnswer, seqBytes(0), []byte(`{}`)), exit...))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, server := Pipe()
		go func() { // a keeper that reads everything and answers at random
			go io.Copy(io.Discard, server)
			server.Write(started)
			server.Write(b)
			server.Close()
		}()
		out := newSink()
		p, err := Start(ctxOf(t), client, &driver.Spec{Argv: []string{"x"}}, out, nil)
		if err != nil {
			t.Fatal(err)
		}
		wait(t, p)
	})
}

// The keeper survives whatever a client sends, and starts nothing for it.
func FuzzServe(f *testing.F) {
	f.Add(appendFrame(nil, kLook, versionByte, []byte(`{}`)))
	f.Add(appendFrame(nil, kStart, versionByte, []byte(`{"argv":["L25vLXN1Y2g="]}`)))
	f.Add(appendFrame(nil, kStart, []byte{9}, []byte(`{}`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, p, err := readFrame(reader(b)); err == nil && k == kStart {
			var m startMsg
			if decodeFirst(p, &m) == nil && len(m.Argv) > 0 && !strings.HasPrefix(string(m.Argv[0]), "/no-such") {
				t.Skip("it could be a command")
			}
		}
		client, server := Pipe()
		done := make(chan error, 1)
		go func() { done <- Serve(ctxOf(t), server, nil) }()
		go io.Copy(io.Discard, client)
		client.Write(b)
		client.Close()
		<-done
	})
}

// Strings that are not UTF-8 travel as they are.
func TestSpecOnTheWire(t *testing.T) {
	odd := "\xff\xfe'\"$(x)\n"
	spec := &driver.Spec{
		ID: "id", Argv: []string{odd, ""}, Env: driver.Env{"A": odd}, Unset: []string{odd}, Dir: odd,
	}
	var m startMsg
	if err := json.Unmarshal(encode(newStartMsg(spec, &ClientOptions{}, false)), &m); err != nil {
		t.Fatal(err)
	}
	got := m.spec()
	if got.Argv[0] != odd || got.Argv[1] != "" || got.Env["A"] != odd || got.Unset[0] != odd || got.Dir != odd {
		t.Errorf("%q became %q", spec.Argv, got.Argv)
	}
}

// A peer of another release is refused in words.
func TestVersion(t *testing.T) {
	client, server := Pipe()
	go func() {
		readFrame(bufio.NewReader(server))
		server.Write(appendFrame(nil, kStarted, []byte{version + 1}, []byte(`{}`)))
	}()
	_, err := Start(ctxOf(t), client, &driver.Spec{Argv: []string{"x"}}, newSink(), nil)
	if !errors.Is(err, errFrame) || !strings.Contains(err.Error(), "one release") {
		t.Errorf("Start: %v", err)
	}
}
