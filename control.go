package rein

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rein-run/rein/internal/redact"
	"github.com/rein-run/rein/store"
)

// The control socket in the run's directory is how another terminal reaches a
// run. The supervisor listens on it, not the keeper: the supervisor knows the
// clocks and the causes, and it is on this machine whatever the host is. When
// it is gone the keeper has ended the agent, and there is nothing to control.
//
// The protocol is one JSON object each way. A request is at most 64 KiB, and a
// connection that says nothing for 10 s is closed.

type request struct {
	Verb  string        `json:"verb"` // stop, extend, state, spans, spent
	By    string        `json:"by,omitempty"`
	Kill  bool          `json:"kill,omitempty"` // stop: without the grace
	Clock string        `json:"clock,omitempty"`
	Add   time.Duration `json:"add,omitempty"`

	File string `json:"file,omitempty"` // spans: transcript or stderr
	From int64  `json:"from,omitempty"`
	To   int64  `json:"to,omitempty"`

	Nested *Nested `json:"nested,omitempty"` // spent
}

type answer struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	State *State `json:"state,omitempty"`

	Spans []redact.Span `json:"spans,omitempty"`
	UpTo  int64         `json:"up_to,omitempty"`
}

const (
	maxRequest   = 64 << 10
	maxAnswer    = 1 << 20
	controlBound = 10 * time.Second
)

// control serves the socket until it is closed.
type control struct {
	l     net.Listener
	conns sync.WaitGroup
}

func listenControl(dir *store.Run, answer func(request) answer) (*control, error) {
	l, err := dir.Listen()
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	c := &control{l: l}
	c.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.conns.Go(func() { serveControl(conn, answer) })
		}
	})
	return c, nil
}

// Close ends the listener and waits for the answers that are under way; each
// is bounded by controlBound.
func (c *control) Close() error {
	err := c.l.Close()
	c.conns.Wait()
	return err
}

func serveControl(conn net.Conn, answer func(request) answer) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(controlBound))
	var req request
	if err := json.NewDecoder(io.LimitReader(bufio.NewReader(conn), maxRequest)).Decode(&req); err != nil {
		return
	}
	json.NewEncoder(conn).Encode(answer(req))
}

// control answers for a run that is under way.
func (r *Run) control(req request) answer {
	fail := func(err error) answer {
		if err != nil {
			return answer{Error: err.Error()}
		}
		return answer{OK: true}
	}
	switch req.Verb {
	case "stop":
		by := cmp.Or(req.By, CancelStop)
		r.Cancel(by)
		if req.Kill {
			r.Cancel(by)
		}
		return fail(nil)
	case "extend":
		return fail(r.Extend(req.Clock, req.Add))
	case "state":
		st := r.State()
		return answer{OK: true, State: &st}
	case "spans":
		spans, upTo, err := r.spans(req.File, req.From, req.To)
		if err != nil {
			return fail(err)
		}
		return answer{OK: true, Spans: spans, UpTo: upTo}
	case "spent":
		if req.Nested == nil {
			return answer{Error: "nobody has spent anything"}
		}
		return fail(r.noteNested(*req.Nested))
	}
	return answer{Error: fmt.Sprintf("unknown request %q", req.Verb)}
}

// ErrNotLive says that nobody supervises the run any more.
var ErrNotLive = errors.New("the run is not under way")

// Remote reaches a run that another process supervises.
type Remote struct{ dir *store.Run }

// Attach finds a live run in the store by its id or a unique beginning of it.
func Attach(s *store.Store, id string) (*Remote, error) {
	dir, err := s.Get(id)
	if err != nil {
		return nil, err
	}
	if !s.Live(dir.ID()) {
		return nil, fmt.Errorf("%s: %w", dir.ID(), ErrNotLive)
	}
	return &Remote{dir}, nil
}

// Stop asks the run to end; with kill it does not wait for the grace.
func (m *Remote) Stop(ctx context.Context, kill bool) error {
	_, err := m.ask(ctx, request{Verb: "stop", Kill: kill})
	return err
}

// Extend gives a clock of the run more time.
func (m *Remote) Extend(ctx context.Context, clock string, add time.Duration) error {
	_, err := m.ask(ctx, request{Verb: "extend", Clock: clock, Add: add})
	return err
}

// State asks how the run is doing.
func (m *Remote) State(ctx context.Context) (*State, error) {
	a, err := m.ask(ctx, request{Verb: "state"})
	return a.State, err
}

// spans asks where the values of secrets stand in a piece of a file of the run,
// and up to where that is known.
func (m *Remote) spans(ctx context.Context, file string, from, to int64) ([]redact.Span, int64, error) {
	a, err := m.ask(ctx, request{Verb: "spans", File: file, From: from, To: to})
	return a.Spans, a.UpTo, err
}

func (m *Remote) ask(ctx context.Context, req request) (answer, error) {
	var ans answer
	ctx, cancel := context.WithTimeout(ctx, controlBound)
	defer cancel()
	conn, err := m.dir.Dial(ctx)
	if err != nil {
		return ans, fmt.Errorf("%s: %w: %w", m.dir.ID(), ErrNotLive, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return ans, err
	}
	if err := json.NewDecoder(io.LimitReader(conn, maxAnswer)).Decode(&ans); err != nil {
		return ans, err
	}
	if !ans.OK {
		return ans, errors.New(ans.Error)
	}
	return ans, nil
}
