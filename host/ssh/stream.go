package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rein-run/rein/host/remote"
)

// stream is one session. Close asks the other side to close; Read and Write
// return when it has, or when the connection is given up.
//
// Its "signal" request is not used for anything: sshd ignores it for root
// ("session signalling requires privilege separation") and reports success.
type stream struct {
	ssh.Channel
	c      *client
	stderr tail
	over   chan struct{} // the other side has closed

	mu   sync.Mutex
	end  string // how the program ended
	code int    // -1: without one, so far
}

// errNotOpened: the command was not given to the server.
var errNotOpened = errors.New("no session could be opened")

// run starts a command line in a session of its own. The session is released
// when the server has closed it, and not before: it counts until then.
func (c *client) run(ctx context.Context, line string) (remote.Stream, error) {
	type opened struct {
		s   *stream
		err error
	}
	done := make(chan opened, 1)
	go func() { // package ssh knows no contexts
		s, err := c.open(line)
		done <- opened{s, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		return o.s, nil
	case <-ctx.Done():
		go func() {
			o := <-done
			switch {
			case o.err != nil:
				c.release(o.err)
			default:
				o.s.Close() // which releases it
			}
		}()
		return nil, &given{context.Cause(ctx)}
	}
}

// given is the error of a caller that no longer waits; the session is not its
// own to release.
type given struct{ error }

func (g *given) Unwrap() error { return g.error }

func (c *client) open(line string) (*stream, error) {
	ch, reqs, err := c.OpenChannel("session", nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotOpened, err)
	}
	s := &stream{Channel: ch, c: c, over: make(chan struct{}), code: -1}
	errs := make(chan struct{})
	go func() {
		defer close(errs)
		_, _ = io.Copy(&s.stderr, ch.Stderr())
	}()
	accepted, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{line}))
	if err == nil && !accepted {
		err = errors.New("the server runs no commands")
	}
	go func() {
		s.listen(reqs)
		<-errs
		if err == nil {
			c.release(nil)
		}
		close(s.over)
	}()
	if err != nil {
		ch.Close()
		return nil, err
	}
	return s, nil
}

// listen hears how the program ends, until the session is closed.
func (s *stream) listen(reqs <-chan *ssh.Request) {
	for req := range reqs {
		end, code := "", -1
		switch req.Type {
		case "exit-status":
			var m struct{ Code uint32 }
			if ssh.Unmarshal(req.Payload, &m) == nil {
				end, code = fmt.Sprintf("exit code %d", m.Code), int(m.Code&0xff)
			}
		case "exit-signal":
			var m struct {
				Signal     string
				Core       bool
				Error, Tag string
			}
			if ssh.Unmarshal(req.Payload, &m) == nil {
				end = "signal " + line(m.Signal)
			}
		}
		if end != "" {
			s.mu.Lock()
			s.end, s.code = end, code
			s.mu.Unlock()
		}
		if req.WantReply {
			_ = req.Reply(false, nil)
		}
	}
}

// await gives the news of the end a moment to arrive.
func (s *stream) await() (end string, code int) {
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-s.over:
	case <-t.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end, s.code
}

// Code is Stream.Code.
func (s *stream) Code() int {
	_, code := s.await()
	return code
}

// Said is Stream.Said.
func (s *stream) Said() string {
	end, _ := s.await()
	if end == "" {
		// A connection that ends closes its sessions first.
		t := time.NewTimer(time.Second)
		defer t.Stop()
		select {
		case <-s.c.dead:
		case <-t.C:
		}
		if why := s.c.broken(); why != "" {
			return why
		}
	}
	said := s.stderr.String()
	switch {
	case end == "":
		return said
	case said == "":
		return end
	}
	return end + ": " + said
}

// tail keeps the end of what was written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// stderrKept is enough for what goes into an error.
const stderrKept = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-stderrKept):]...)
	if over := len(t.b) - stderrKept; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return line(string(t.b))
}

// line makes one line of what the other side said, without what drives a
// terminal.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(s), " ")
}
