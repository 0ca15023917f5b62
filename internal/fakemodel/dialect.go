package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// dialect is one API's way to say an answer.
type dialect interface {
	name() string
	frames(*answer) []frame
	whole(*answer) any
	told(*answer) Usage
	fail(typ, message string) any
	streamError(message string) frame
}

// answer is a turn on its way to a client.
type answer struct {
	Turn
	N     int // number of the request
	Model string
}

// frame is one server-sent event.
type frame struct {
	event string // "": data only
	data  any
	raw   string // instead of data
	mid   bool   // after it is the middle of the stream: one piece of content was sent
	told  *Usage // what the stream has told so far
}

func (f frame) text() string {
	if f.raw != "" {
		return f.raw
	}
	b, err := json.Marshal(f.data)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// middle marks the first frame that carries content, or else the last but one.
func middle(frames []frame, isContent func(frame) bool) []frame {
	for i := range frames {
		if isContent(frames[i]) {
			frames[i].mid = true
			return frames
		}
	}
	if n := len(frames); n > 1 {
		frames[n-2].mid = true
	}
	return frames
}

// pieces cuts text as a model streams it: in runes, a dozen at a time.
func pieces(text string) (out []string) {
	const size = 12
	runes := []rune(text)
	for len(runes) > size {
		out = append(out, string(runes[:size]))
		runes = runes[size:]
	}
	return append(out, string(runes))
}

func (c Call) input() string {
	if len(c.Input) == 0 {
		return "{}"
	}
	return string(c.Input)
}

// openAI is what OpenAI's APIs tell: the cache is inside the input.
func (a *answer) openAI() Usage {
	return Usage{Input: a.In - a.CacheRead - a.CacheWrite, Output: a.Out, CacheRead: a.CacheRead, CacheWrite: a.CacheWrite}
}

// failure is the type and the message of an error status.
func (t Turn) failure() (typ, message string) {
	typ, message = t.ErrType, t.ErrMessage
	if typ == "" {
		typ = map[int]string{
			400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
			429: "rate_limit_error", 529: "overloaded_error",
		}[t.Status]
	}
	if typ == "" {
		typ = "api_error"
	}
	if message == "" {
		message = strings.TrimSpace(fmt.Sprintf("fake error %d %s", t.Status, http.StatusText(t.Status)))
	}
	return typ, message
}

func itoa(n int) string { return strconv.Itoa(n) }
