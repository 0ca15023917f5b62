package fakemodel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Server is the running model server. Its methods may be called concurrently.
type Server struct {
	url  string
	http *http.Server
	busy sync.WaitGroup // handlers

	mu       sync.Mutex
	closed   bool
	script   *compiled
	aside    *regexp.Regexp
	requests []*Request
}

// Request is the server's account of one request.
type Request struct {
	N      int         // from 1
	API    string      // messages, responses, chat, gemini
	Path   string      // with the query
	Header http.Header // as it came
	Body   []byte
	Model  string
	Stream bool
	Turn   int  // index into the turns; -1: side request, or they were used up
	Side   bool // made beside the conversation
	Status int  // answered; 0 when the connection was cut before
	// Told is what the answer told in tokens, as far as it went.
	Told Usage
	// Whole says that the answer was sent to its end.
	Whole bool
}

// maxBody is the largest request that is read: the CLIs send the whole
// conversation with every request.
const maxBody = 64 << 20

// New starts a server on a free port of 127.0.0.1. It runs until Close.
func New(s Script) (*Server, error) {
	c, err := compile(s)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &Server{url: "http://" + l.Addr().String(), script: c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", srv.models)
	mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{"input_tokens": 100})
	})
	for path, d := range map[string]dialect{
		"POST /v1/messages": messages{}, "POST /v1/responses": responses{}, "POST /v1/chat/completions": chat{},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { srv.answer(w, r, d, "", false) })
	}
	mux.HandleFunc("POST /v1beta/models/{call}", func(w http.ResponseWriter, r *http.Request) {
		model, stream, ok := gemini{}.asked(r)
		if !ok {
			http.NotFound(w, r)
			return
		}
		srv.answer(w, r, gemini{}, model, stream)
	})
	mux.HandleFunc("HEAD /{$}", func(http.ResponseWriter, *http.Request) {}) // claude 2.1.197 asks first
	srv.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Minute,
	}
	srv.busy.Go(func() { srv.http.Serve(l) })
	return srv, nil
}

// URL is the address without a path: "http://127.0.0.1:41234".
func (s *Server) URL() string { return s.url }

// Close ends all requests, the hanging ones too, and returns when nothing of
// the server runs any more.
func (s *Server) Close() {
	s.locked(func() { s.closed = true })
	s.http.Close() // a closed connection ends its request's context
	s.busy.Wait()
}

// enter counts a handler in; false when the server is closing.
func (s *Server) enter() (ok bool) {
	s.locked(func() {
		if ok = !s.closed; ok {
			s.busy.Add(1)
		}
	})
	return ok
}

// Load replaces the script; requests that are being answered are not changed.
func (s *Server) Load(script Script) error {
	c, err := compile(script)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.script = c
	s.mu.Unlock()
	return nil
}

// Aside names, by a regular expression over the body, the requests that a CLI
// makes for itself and tells nobody of, such as one for the session's title. They
// are answered with "ok", whatever the script says, and are in no account.
func (s *Server) Aside(match *regexp.Regexp) { s.locked(func() { s.aside = match }) }

// Requests returns the account so far, in the order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// Told is what all answers told together.
func (s *Server) Told() (u Usage) {
	for _, r := range s.Requests() {
		u = u.plus(r.Told)
	}
	return u
}

type object map[string]any

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	var list []object
	for _, id := range []string{ChatModel, ResponsesModel} {
		list = append(list, object{"id": id, "object": "model", "created": 1, "owned_by": "fake", "type": "model", "display_name": id})
	}
	writeJSON(w, http.StatusOK, object{"object": "list", "data": list, "has_more": false})
}

// answer does one model request. Model and stream are those of the path, where
// the API has them there.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, d dialect, model string, stream bool) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.busy.Done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeJSON(w, http.StatusRequestEntityTooLarge, d.fail("request_too_large", err.Error()))
		return
	}
	var in struct {
		Model  string            `json:"model"`
		Stream bool              `json:"stream"`
		Tools  []json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		writeJSON(w, http.StatusBadRequest, d.fail("invalid_request_error", "the body is no JSON: "+err.Error()))
		return
	}
	if model != "" {
		in.Model, in.Stream = model, stream
	}
	req := &Request{
		API: d.name(), Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: body, Model: in.Model, Stream: in.Stream,
	}
	s.mu.Lock()
	turn := Turn{Text: "ok"}
	if s.aside == nil || !s.aside.Match(body) {
		turn, req.Turn, req.Side = s.script.pick(body, len(in.Tools) > 0)
		req.N = len(s.requests) + 1
		s.requests = append(s.requests, req)
	}
	s.mu.Unlock()

	a := &answer{Turn: turn.tokens(), N: req.N, Model: in.Model}
	sleep(r.Context(), turn.WaitMillis)
	s.cut(r.Context(), turn, "headers")
	w.Header().Set("Request-Id", "req_"+itoa(req.N))
	for k, v := range turn.Headers {
		w.Header().Set(k, v)
	}
	whole := true
	switch {
	case turn.Status != 0 && turn.Status != http.StatusOK:
		s.locked(func() { req.Status = turn.Status })
		if turn.Body != "" {
			w.WriteHeader(turn.Status)
			io.WriteString(w, turn.Body)
		} else {
			typ, msg := turn.failure()
			writeJSON(w, turn.Status, d.fail(typ, msg))
		}
	case in.Stream:
		s.locked(func() { req.Status = http.StatusOK })
		whole = s.stream(w, r, d, a, req)
	default:
		// An answer that is not streamed has no middle: it hangs or is cut at its start.
		s.cut(r.Context(), turn, "start")
		s.cut(r.Context(), turn, "mid")
		s.locked(func() { req.Status, req.Told = http.StatusOK, d.told(a) })
		writeJSON(w, http.StatusOK, d.whole(a))
	}
	s.locked(func() { req.Whole = whole })
}

// stream writes the events, as far as the turn lets it; it reports whether that
// was to the end.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, d dialect, a *answer, req *Request) bool {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	send := func(f frame) {
		text := "data: " + f.text() + "\n\n"
		if f.event != "" {
			text = "event: " + f.event + "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil || flush.Flush() != nil {
			panic(http.ErrAbortHandler) // the client went away
		}
	}
	started := false
	for _, f := range d.frames(a) {
		send(f)
		if f.told != nil {
			s.locked(func() { req.Told = *f.told })
		}
		if !started {
			started = true
			s.cut(r.Context(), a.Turn, "start")
		}
		if f.mid {
			if a.StreamErr != "" {
				send(d.streamError(a.StreamErr))
				return false
			}
			s.cut(r.Context(), a.Turn, "mid")
		}
		sleep(r.Context(), a.ChunkMillis)
	}
	return true
}

// cut hangs or drops the connection when the turn says so for this place.
func (s *Server) cut(ctx context.Context, t Turn, place string) {
	if t.Hang == place {
		<-ctx.Done() // the client gave up, or Close
		panic(http.ErrAbortHandler)
	}
	if t.Drop == place {
		panic(http.ErrAbortHandler)
	}
}

// locked runs f, which changes the account.
func (s *Server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func sleep(ctx context.Context, ms int) {
	if ms <= 0 {
		return
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
	case <-ctx.Done():
	}
}

// Wait returns when at least n requests have arrived, or ctx ends.
func (s *Server) Wait(ctx context.Context, n int) error {
	for {
		if len(s.Requests()) >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), errors.New("fakemodel: too few requests"))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Bodies returns the bodies of the conversation's requests, without the side
// ones.
func (s *Server) Bodies() [][]byte {
	var out [][]byte
	for _, r := range s.Requests() {
		if !r.Side {
			out = append(out, slices.Clone(r.Body))
		}
	}
	return out
}
