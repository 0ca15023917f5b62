package link

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

type rw struct {
	io.Reader
	io.Writer
}

// The program at the far end passes the hello on, and all that follows, as they
// are.
func TestAttach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		near, stdio := net.Pipe()
		server, far := net.Pipe()
		h := &Hello{Key: newKey(), Create: true, Ping: time.Second, Lease: time.Minute, epoch: 7, received: 9}
		done := make(chan error, 1)
		go func() {
			done <- Attach(stdio, func(got *Hello) (net.Conn, error) {
				if *got != *h {
					t.Errorf("the hello became another")
				}
				return far, nil
			})
			stdio.Close()
		}()
		go near.Write(h.append(nil))
		got := make([]byte, helloSize)
		if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, h.append(nil)) {
			t.Errorf("%x, %v", got, err)
		}
		go io.WriteString(near, "in")
		go io.WriteString(server, "out")
		b := make([]byte, 3)
		if _, err := io.ReadFull(near, b); err != nil || string(b) != "out" {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := io.ReadFull(server, b[:2]); err != nil || string(b[:2]) != "in" {
			t.Errorf("%q, %v", b, err)
		}
		near.Close() // the transport ends, and so does the way to the server
		if _, err := server.Read(b); err == nil {
			t.Error("the server is not hung up on")
		}
		<-done
		server.Close()
	})
}

// What cannot be done is told to the client; to who does not speak the protocol
// nothing is said.
func TestAttachRefuses(t *testing.T) {
	hello := string((&Hello{Ping: time.Second, Lease: time.Minute}).append(nil))
	for name, c := range map[string]struct {
		hello string
		err   error
		want  error
		text  string
	}{
		"gone":            {hello, ErrGone, ErrGone, "no such link"},
		"another failure": {hello, errors.New("disk full"), ErrRefused, "disk full"},
		"another version": {strings.Replace(hello, "h\x01", "h\x09", 1), nil, ErrRefused, "version 9"},
		"a stranger":      {strings.Repeat("GET / HTTP/1.1", 9), nil, nil, ""},
		"bounds":          {string((&Hello{Ping: time.Nanosecond, Lease: time.Minute}).append(nil)), nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := Attach(rw{strings.NewReader(c.hello), &out}, func(*Hello) (net.Conn, error) { return nil, c.err })
			if err == nil {
				t.Error("no error")
			}
			_, err = readAnswerFrom(&out)
			if c.want == nil {
				if err != io.EOF {
					t.Errorf("it was told %v", err)
				}
				return
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("the client is told %v", err)
			}
		})
	}
}

// The program does not stay for ever where nobody takes what it has to say.
func TestAttachGivesUp(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	server, far := net.Pipe()
	defer server.Close()
	go func() {
		io.ReadFull(server, make([]byte, helloSize))
		for b := make([]byte, 64<<10); ; {
			if _, err := server.Write(b); err != nil {
				return
			}
		}
	}()
	hello := bytes.NewReader((&Hello{Ping: minPing, Lease: time.Minute}).append(nil))
	open, close := io.Pipe() // stdin stays open, as on a line that is dead
	defer close.Close()
	err = Attach(&stdio{io.MultiReader(hello, open), w}, func(*Hello) (net.Conn, error) { return far, nil })
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Attach: %v", err)
	}
}

type stdio struct {
	io.Reader
	w *os.File
}

func (s *stdio) Write(p []byte) (int, error)        { return s.w.Write(p) }
func (s *stdio) SetWriteDeadline(t time.Time) error { return s.w.SetWriteDeadline(t) }
