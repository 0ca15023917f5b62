// Package fakemodel is a model server on loopback that answers from a script,
// so that the real agent CLIs run real tool calls with no account and no
// network.
//
// It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and
// Google's generateContent, streamed and whole, and keeps its own account of
// what it was asked and of the tokens it told.
package fakemodel

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// Script says what the server answers. The zero value answers "done" to
// everything. The JSON form is the one of the recordings' script files.
type Script struct {
	Turns []Turn `json:"turns"`
	// Routes have their own turns: a request whose body matches one is
	// answered by it. This is how one server serves many agents.
	Routes []Route `json:"routes,omitempty"`
	// SideMatch is a regular expression over the body of requests that the CLI
	// makes beside the conversation (titles and such): they are answered by
	// Side and use up no turn. So does a request that offers no tools, unless
	// CountAll.
	SideMatch string `json:"side_match,omitempty"`
	Side      *Turn  `json:"side,omitempty"`
	CountAll  bool   `json:"count_all,omitempty"`
}

// Route is a list of turns for the requests whose body matches.
type Route struct {
	Match string `json:"match"` // regular expression
	Turns []Turn `json:"turns"`
}

// Turn is the answer to one model request.
type Turn struct {
	Thinking string `json:"thinking,omitempty"`
	Text     string `json:"text,omitempty"`
	Tools    []Call `json:"tools,omitempty"`
	Stop     string `json:"stop,omitempty"` // Anthropic's word; "" is end_turn or tool_use

	// Tokens that the answer tells. In is what that API calls input: OpenAI
	// counts the cache in it, Anthropic does not. 0 for In and Out: 100 and 50.
	In         int64 `json:"in,omitempty"`
	Out        int64 `json:"out,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`

	WaitMillis  int `json:"wait_ms,omitempty"`  // before the headers
	ChunkMillis int `json:"chunk_ms,omitempty"` // between the events of the stream

	// Status other than 0 and 200 is an error answer; Body replaces the one
	// that the API would have.
	Status     int               `json:"status,omitempty"`
	ErrType    string            `json:"err_type,omitempty"`
	ErrMessage string            `json:"err_message,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Body       string            `json:"body,omitempty"`

	// Hang waits until the client goes away, Drop cuts the connection: at
	// "headers", at the "start" of the stream, or in its "mid"dle, which is
	// after the first piece of content.
	Hang string `json:"hang,omitempty"`
	Drop string `json:"drop,omitempty"`
	// StreamErr is the message of an error event in the middle of the stream.
	StreamErr string `json:"stream_err,omitempty"`

	// Repeat is how many requests it answers: 0 and 1 are one, -1 all.
	Repeat int `json:"repeat,omitempty"`
}

// Call is one tool call.
type Call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input,omitempty"`
	// Namespace is where the tool stands, Responses only: codex has the tools of
	// an MCP server in "mcp__SERVER".
	Namespace string `json:"namespace,omitempty"`
	// Custom is the input of a custom (free text) tool, Responses only.
	Custom string `json:"custom,omitempty"`
}

// Tool makes a Call; input is anything that encodes to a JSON object.
func Tool(name string, input any) Call {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err) // the caller's literal is no JSON
	}
	return Call{Name: name, Input: b}
}

// Usage is tokens as Rein counts them: Input without the cache.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
}

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite}
}

func (t Turn) tokens() Turn {
	if t.In == 0 && t.Out == 0 {
		t.In, t.Out = 100, 50
	}
	return t
}

// cursor hands out the turns of one list.
type cursor struct {
	turns    []Turn
	at, used int
}

// next returns the turn for one more request, and its index; -1 when the list
// is used up.
func (c *cursor) next() (Turn, int) {
	for c.at < len(c.turns) {
		t := c.turns[c.at]
		if t.Repeat < 0 || c.used < max(t.Repeat, 1) {
			c.used++
			return t, c.at
		}
		c.at++
		c.used = 0
	}
	return Turn{Text: "done"}, -1
}

// compiled is a Script ready to answer.
type compiled struct {
	script Script
	side   *regexp.Regexp
	routes []*regexp.Regexp
	turns  []*cursor // of the routes, then the script's own
}

func compile(s Script) (*compiled, error) {
	c := &compiled{script: s}
	var err error
	if s.SideMatch != "" {
		if c.side, err = regexp.Compile(s.SideMatch); err != nil {
			return nil, fmt.Errorf("side_match: %w", err)
		}
	}
	for _, r := range s.Routes {
		re, err := regexp.Compile(r.Match)
		if err != nil {
			return nil, fmt.Errorf("route: %w", err)
		}
		c.routes = append(c.routes, re)
		c.turns = append(c.turns, &cursor{turns: r.Turns})
	}
	c.turns = append(c.turns, &cursor{turns: s.Turns})
	return c, nil
}

// pick chooses the turn for a request. The caller holds the server's lock.
func (c *compiled) pick(body []byte, tools bool) (t Turn, index int, side bool) {
	if c.side != nil && c.side.Match(body) || !tools && !c.script.CountAll {
		if c.script.Side != nil {
			return *c.script.Side, -1, true
		}
		return Turn{Text: "ok"}, -1, true
	}
	for i, re := range c.routes {
		if re.Match(body) {
			t, index = c.turns[i].next()
			return t, index, false
		}
	}
	t, index = c.turns[len(c.turns)-1].next()
	return t, index, false
}
