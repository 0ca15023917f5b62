package link

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Every test runs in a bubble: time is virtual, and a goroutine that is left
// fails the test.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func read(t *testing.T, c *Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v; want %q", b, err, want)
	}
}

func write(t *testing.T, c *Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

func wantEOF(t *testing.T, c *Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read: %d, %v; want the end", n, err)
	}
}

func wantLost(t *testing.T, err error) *LostError {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) || !errors.Is(err, ErrLost) || errors.Is(err, io.EOF) {
		t.Fatalf("%v, want ErrLost", err)
	}
	return lost
}

// Whoever closes, the other gets all the bytes and then the end.
func TestClose(t *testing.T) {
	for _, who := range []string{"client", "server", "both"} {
		t.Run(who, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				client, server := pair(t, newNetwork(), nil)
				write(t, client, "to the server")
				write(t, server, "to the client")
				read(t, server, "to the server")
				switch who {
				case "client":
					read(t, client, "to the client")
					write(t, client, "last")
					client.Close()
					read(t, server, "last")
					wantEOF(t, server)
					if _, err := server.Write([]byte("x")); err != io.ErrClosedPipe {
						t.Errorf("Write to who has closed: %v", err)
					}
				case "server":
					write(t, server, ", last")
					server.Close()
					read(t, client, "to the client, last")
					wantEOF(t, client)
				case "both":
					server.Close()
					client.Close()
				}
				began := time.Now()
				finished(t, client, server)
				if d := time.Since(began); d > time.Second {
					t.Errorf("the end took %v", d)
				}
				client.Close()
				server.Close()
				if _, err := client.Read(make([]byte, 1)); err != io.ErrClosedPipe {
					t.Errorf("Read after Close: %v", err)
				}
			})
		})
	}
}

// What is written goes right behind the hello: the server reads it before the
// client can have read the server's answer.
func TestNoRoundTripToStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		near, far := net.Pipe()
		c, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) { return near, nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		write(t, c, "start")
		b := make([]byte, helloSize+headSize+5)
		if _, err := io.ReadFull(far, b); err != nil || string(b[len(b)-5:]) != "start" {
			t.Errorf("%q, %v", b, err)
		}
		far.Write(appendRefusal(nil, &refusedError{codeOther, "enough"}))
		if err := c.Wait(t.Context()); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
	})
}

// A transport that is half open is noticed after three pings, and loses nothing.
func TestHalfOpen(t *testing.T) {
	for _, dir := range []string{"both ways", "to the server", "to the client"} {
		t.Run(dir, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNetwork()
				var first *swallow
				n.wrap = func(c net.Conn) io.ReadWriteCloser {
					if first != nil {
						return c
					}
					first = newSwallow(c)
					return first
				}
				client, server := pair(t, n, nil)
				write(t, client, "a")
				read(t, server, "a")
				time.Sleep(10 * time.Hour) // an idle link stays
				if n.dials != 1 {
					t.Fatalf("%d transports while all was well", n.dials)
				}
				first.set(dir != "to the client", dir != "to the server")
				began := time.Now()
				write(t, client, "to the server")
				write(t, server, "to the client")
				read(t, client, "to the client")
				read(t, server, "to the server")
				// The side that hears nothing gives up after 45 s and a look, and
				// the other one hears of it, or hears nothing from then on.
				if d := time.Since(began); d > 130*time.Second {
					t.Errorf("resumed after %v", d)
				}
				if client.Resumes() != 1 || server.Resumes() != 1 {
					t.Errorf("resumed %d and %d times", client.Resumes(), server.Resumes())
				}
				client.Close()
				finished(t, client, server)
			})
		})
	}
}

// swallow is a transport whose bytes vanish, in one direction or both, and which
// does not end.
type swallow struct {
	net.Conn
	out, in chan struct{} // closed: what goes there vanishes
	closed  chan struct{}
}

func newSwallow(c net.Conn) *swallow {
	return &swallow{c, make(chan struct{}), make(chan struct{}), make(chan struct{})}
}

func (s *swallow) set(out, in bool) {
	if out {
		close(s.out)
	}
	if in {
		close(s.in)
	}
}

func gone(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (s *swallow) Write(p []byte) (int, error) {
	if gone(s.out) {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *swallow) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if gone(s.in) && err == nil {
		// The bytes vanish until somebody here gives up.
		io.Copy(io.Discard, s.Conn)
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Close does not reach the other side of a line that is half open.
func (s *swallow) Close() error {
	if gone(s.closed) {
		return nil
	}
	close(s.closed)
	if gone(s.out) && gone(s.in) {
		// The kernel of the other side finds out much later.
		time.AfterFunc(time.Hour, func() { s.Conn.Close() })
		return nil
	}
	return s.Conn.Close()
}

// The lease is over: both ends say so, how long it was, and how far they got.
func TestLease(t *testing.T) {
	for _, how := range []string{"cut", "stalled"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNetwork()
				var line *swallow
				n.wrap = func(c net.Conn) io.ReadWriteCloser {
					line = newSwallow(c)
					return line
				}
				client, server := pair(t, n, &Options{Lease: 90 * time.Second})
				write(t, client, "12345")
				read(t, server, "12345")
				write(t, server, "123")
				write(t, server, "4567")
				synctest.Wait()
				if how == "cut" {
					n.cut(true)
				} else {
					n.mu.Lock()
					n.down = true
					n.mu.Unlock()
					line.set(true, true)
				}
				read(t, client, "12345")
				time.Sleep(10 * time.Minute)
				read(t, client, "67") // what had come is not lost with the link
				_, err := client.Read(make([]byte, 1))
				lost := wantLost(t, err)
				if lost.Down < 90*time.Second || lost.Down > 100*time.Second || lost.Received != 7 || !lost.Up {
					t.Errorf("%+v", lost)
				}
				if how == "cut" && !errors.Is(err, errDown) {
					t.Errorf("the error hides why no transport could be made: %v", err)
				}
				_, err = server.Read(make([]byte, 1))
				lost = wantLost(t, err)
				if lost.Received != 5 || !strings.Contains(lost.Error(), "5 bytes received") {
					t.Errorf("%v", lost)
				}
				if _, err := server.Write([]byte("x")); !errors.Is(err, ErrLost) {
					t.Errorf("Write on a lost link: %v", err)
				}
				for _, c := range []*Conn{client, server} {
					if err := c.Wait(t.Context()); !errors.Is(err, ErrLost) {
						t.Errorf("Wait: %v", err)
					}
				}
			})
		})
	}
}

// An acknowledgement that was lost with its transport is made up for: else a full
// buffer would stay full, with nobody there to read what makes room.
func TestLostAck(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		t.Run(who, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNetwork()
				var line *swallow
				n.wrap = func(c net.Conn) io.ReadWriteCloser {
					if line != nil {
						return c
					}
					line = newSwallow(c)
					return line
				}
				client, server := pair(t, n, nil)
				from, to := client, server
				if who == "server" {
					from, to = server, client
				}
				write(t, from, "a")
				read(t, to, "a")
				data := strings.Repeat("d", defaultBuffer-1) // with "a" it is full
				go io.WriteString(from, data)
				synctest.Wait()
				line.set(who == "server", who == "client") // acks vanish from here on
				read(t, to, data)
				write(t, from, "more")
				read(t, to, "more")
				client.Close()
				finished(t, client, server)
			})
		})
	}
}

// While the link is down Write takes what the buffer holds and then blocks; it
// goes on when the link does.
func TestHeldBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		client, server := pair(t, n, &Options{Buffer: minBuffer})
		write(t, client, "a")
		read(t, server, "a")
		synctest.Wait()
		n.cut(true)
		data := bytes.Repeat([]byte("0123456789"), 300<<10/10)
		wrote := make(chan error, 1)
		go func() {
			_, err := client.Write(data)
			wrote <- err
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-wrote:
			t.Fatalf("Write returned %v with %d bytes in a buffer of %d", err, len(data), minBuffer)
		default:
		}
		client.mu.Lock()
		if held := client.out.end - client.out.base; held > minBuffer {
			t.Errorf("%d bytes in a buffer of %d", held, minBuffer)
		}
		client.mu.Unlock()
		n.up()
		read(t, server, string(data))
		if err := <-wrote; err != nil {
			t.Error(err)
		}
		client.Close()
		finished(t, client, server)
	})
}

// Close makes a blocked Write and a blocked Read return.
func TestCloseUnblocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		client, server := pair(t, n, &Options{Buffer: minBuffer})
		errs := make(chan error, 2)
		go func() {
			_, err := client.Write(make([]byte, 1<<20)) // nobody reads it
			errs <- err
		}()
		go func() {
			_, err := client.Read(make([]byte, 1))
			errs <- err
		}()
		synctest.Wait()
		client.Close()
		for range 2 {
			if err := <-errs; err != io.ErrClosedPipe {
				t.Error(err)
			}
		}
		server.Close()
		finished(t, client, server)
	})
}

// A client that closes while the link is down comes back to say so; what it had
// written arrives.
func TestCloseWhileDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		client, server := pair(t, n, nil)
		write(t, client, "a")
		read(t, server, "a")
		n.cut(true)
		write(t, client, "while it was down")
		client.Close()
		time.Sleep(5 * time.Second)
		n.up()
		read(t, server, "while it was down")
		wantEOF(t, server)
		finished(t, client, server)
	})
}

// A client that has closed does not try for ever; the server's lease is over by
// itself.
func TestCloseAndNoWayBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		client, server := pair(t, n, nil)
		write(t, client, "a")
		read(t, server, "a")
		n.cut(true)
		began := time.Now()
		client.Close()
		wantLost(t, client.Wait(t.Context()))
		if d := time.Since(began); d > linger+defaultPing {
			t.Errorf("tried for %v", d)
		}
		wantLost(t, server.Wait(t.Context()))
		if d := time.Since(began); d < defaultLease-time.Second || d > defaultLease+defaultPing {
			t.Errorf("the server waited %v", d)
		}
	})
}

// The last words of the stream are lost on the way, whichever they are: nobody
// waits for ever, and nobody is told of a loss that there was not.
func TestCutAtTheVeryEnd(t *testing.T) {
	for _, who := range []string{"server", "client"} {
		for cut := range 50 {
			bubble(t, func(t *testing.T) {
				n := newNetwork()
				left := 0
				n.wrap = func(c net.Conn) io.ReadWriteCloser {
					if left++; left > 1 {
						return c
					}
					return &budget{Conn: c, n: helloSize + 1000, m: 14 + cut} // 14: a welcome
				}
				if cut%2 == 0 {
					n.wrap = func(c net.Conn) io.ReadWriteCloser {
						if left++; left > 1 {
							return c
						}
						return &budget{Conn: c, n: helloSize + cut, m: 1000}
					}
				}
				client, server := pair(t, n, nil)
				first, second := client, server
				if who == "server" {
					first, second = server, client
				}
				write(t, first, "the end")
				first.Close()
				read(t, second, "the end")
				wantEOF(t, second)
				second.Close()
				finished(t, client, server)
			})
		}
	}
}

// budget is a transport that ends after so many bytes.
type budget struct {
	net.Conn
	n, m int // to be written, to be read
}

func (b *budget) Write(p []byte) (int, error) {
	if len(p) >= b.n {
		n, _ := b.Conn.Write(p[:b.n])
		b.Conn.Close()
		return n, errors.New("cut")
	}
	b.n -= len(p)
	return b.Conn.Write(p)
}

func (b *budget) Read(p []byte) (int, error) {
	if b.m == 0 {
		b.Conn.Close()
		return 0, io.EOF
	}
	n, err := b.Conn.Read(p[:min(len(p), b.m)])
	b.m -= n
	return n, err
}

// Nobody else takes the stream: not with another key, not with the hello of an
// earlier transport.
func TestRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		client, server := pair(t, n, nil)
		write(t, client, "a")
		read(t, server, "a")
		knock := func(h *Hello) error {
			t.Helper()
			near, far := net.Pipe()
			n.queue <- far
			defer near.Close()
			if _, err := near.Write(h.append(nil)); err != nil {
				t.Fatal(err)
			}
			var no *refusedError
			_, err := readAnswerFrom(near)
			if !errors.As(err, &no) {
				t.Fatalf("not refused: %v", err)
			}
			return err
		}
		h := &Hello{Key: newKey(), Ping: time.Second, Lease: time.Minute, epoch: 99}
		if err := knock(h); !strings.Contains(err.Error(), "somebody else") {
			t.Error(err)
		}
		h.Key, h.epoch = client.key, 1 // a late transport that comes back
		if err := knock(h); !stale(err) {
			t.Error(err)
		}
		h.epoch, h.received = 99, 1000
		if err := knock(h); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
		write(t, client, "b") // and nothing of it disturbs the link
		read(t, server, "b")
		if n.dials != 1 {
			t.Errorf("%d transports", n.dials)
		}
		client.Close()
		finished(t, client, server)
	})
}

// A stranger who says nothing is hung up on.
func TestSilentStranger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		client, server := pair(t, n, nil)
		near, far := net.Pipe()
		n.queue <- far
		began := time.Now()
		if _, err := near.Read(make([]byte, 1)); err == nil || time.Since(began) > helloTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		client.Close()
		finished(t, client, server)
	})
}

// A program that is not there is no cut: it is said at once, with what it said.
func TestNobodyThere(t *testing.T) {
	final := fmt.Errorf("exit status 127: %w", ErrFinal)
	for name, c := range map[string]struct {
		connect func(try int) (io.ReadWriteCloser, error)
		want    string
		tries   int
	}{
		"hangs up": {func(int) (io.ReadWriteCloser, error) { return answers(""), nil }, "hung up", maxMute},
		"prints":   {func(int) (io.ReadWriteCloser, error) { return answers("sh: no such program\n"), nil }, "no such program", maxMute},
		"final":    {func(int) (io.ReadWriteCloser, error) { return &ending{answers(""), final}, nil }, "exit status 127", 1},
		"final connect": {func(try int) (io.ReadWriteCloser, error) {
			if try == 1 {
				return answers(""), nil
			}
			return nil, final
		}, "exit status 127", 2},
		"gone": {func(int) (io.ReadWriteCloser, error) {
			return answers(string(appendRefusal(nil, &refusedError{codeGone, "no such link"}))), nil
		}, "no such link", 1},
		"another version": {func(int) (io.ReadWriteCloser, error) {
			return answers(string(answerMagic[:]) + "\x07\x00and so on"), nil
		}, "version 7", 1},
		"floods": {func(int) (io.ReadWriteCloser, error) {
			return answers(strings.Repeat("y\n", maxNoise)), nil
		}, "no answer in", maxMute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				began, try := time.Now(), 0
				conn, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) {
					try++
					return c.connect(try)
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, err = conn.Read(make([]byte, 1))
				if lost := wantLost(t, err); lost.Up || !strings.Contains(lost.Error(), c.want) || !strings.Contains(lost.Error(), "never came up") {
					t.Error(err)
				}
				if d := time.Since(began); d > 5*time.Second || try > c.tries {
					t.Errorf("said after %v and %d tries, want %d", d, try, c.tries)
				}
				if err := conn.Wait(t.Context()); err == nil {
					t.Error("Wait says that all is well")
				}
			})
		})
	}
	t.Run("the first connect", func(t *testing.T) {
		if _, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) { return nil, errDown }, nil); err != errDown {
			t.Error(err)
		}
	})
}

// answers is a transport whose other end says s and hangs up.
func answers(s string) net.Conn {
	near, far := net.Pipe()
	go io.Copy(io.Discard, far)
	go func() {
		io.WriteString(far, s)
		far.Close()
	}()
	return near
}

type ending struct {
	net.Conn
	err error
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if err != nil {
		err = e.err
	}
	return n, err
}

// What a login shell prints before the program runs is skipped.
func TestNoiseBeforeTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		n.wrap = func(c net.Conn) io.ReadWriteCloser {
			noise := "Welcome to \xfe\xfer\xferlOS!\n\x00"
			return struct {
				io.Reader
				io.WriteCloser
			}{io.MultiReader(strings.NewReader(noise), c), c}
		}
		client, server := pair(t, n, nil)
		write(t, server, "clean")
		read(t, client, "clean")
		client.Close()
		finished(t, client, server)
	})
}

// A peer that breaks the protocol again and again is not ours.
func TestBreaches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		n.wrap = func(c net.Conn) io.ReadWriteCloser {
			answer := 14 // of a welcome
			return struct {
				io.Reader
				io.WriteCloser
			}{io.MultiReader(io.LimitReader(c, int64(answer)), strings.NewReader(strings.Repeat("garbage", 100))), c}
		}
		client, server := pair(t, n, nil)
		_, err := client.Read(make([]byte, 1))
		wantLost(t, err)
		if !errors.Is(err, errFrame) || n.dials != maxBreaches {
			t.Errorf("%d transports: %v", n.dials, err)
		}
		wantLost(t, server.Wait(t.Context()))
		client.Wait(t.Context())
	})
}

// The key is in no printed form of anything.
func TestKeyDoesNotPrint(t *testing.T) {
	k := Key([]byte("0123456789abcdef"))
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		for _, v := range []any{k, &k, Hello{Key: k}, &Hello{Key: k}} {
			s := fmt.Sprintf(format, v)
			if strings.Contains(s, "0123") || strings.Contains(s, "3031") || strings.Contains(s, "48 49") || strings.Contains(s, "0x30") {
				t.Errorf("%s of %T: %s", format, v, s)
			}
		}
	}
}

func readAnswerFrom(r io.Reader) (uint64, error) {
	n, _, err := readAnswer(bufio.NewReader(r))
	return n, err
}
