package qwen

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// reader turns stream-json into readings. The form is claude's, and what it
// says is not: a message of the model is told in several assistant lines, each
// with an id of its own and the tokens in the last one; a request that failed
// is an answer of the model's, and the result a success. Requests that are
// repeated are not told.
type reader struct {
	version string
	began   bool
	open    map[string]agent.Tool // calls without a result
}

const maxOpen = 1024

type words struct {
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Model   string `json:"model"`
	Version string `json:"qwen_code_version"`
	Parent  string `json:"parent_tool_use_id"`
	Message struct {
		ID      string  `json:"id"`
		Model   string  `json:"model"`
		Content content `json:"content"`
		Usage   *usage  `json:"usage"`
	} `json:"message"`
	Event struct {
		Type  string `json:"type"`
		Delta struct {
			Type string `json:"type"`
		} `json:"delta"`
	} `json:"event"`

	IsError  bool           `json:"is_error"`
	Duration jsonline.Count `json:"duration_ms"`
	Result   string         `json:"result"`
	Usage    *usage         `json:"usage"`
	Error    struct {
		Message string `json:"message"`
	} `json:"error"`
	Denials []struct {
		Name  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
}

// usage counts the cache inside the input.
type usage struct {
	Input     jsonline.Count `json:"input_tokens"`
	Output    jsonline.Count `json:"output_tokens"`
	CacheRead jsonline.Count `json:"cache_read_input_tokens"`
}

func (u usage) reading(id, model string, scope agent.Scope) *agent.Usage {
	return &agent.Usage{
		ID: id, Model: model, Scope: scope,
		Input: max(0, int64(u.Input)-int64(u.CacheRead)), Output: int64(u.Output), CacheRead: int64(u.CacheRead),
	}
}

type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	UseID    string          `json:"tool_use_id"`
	IsError  bool            `json:"is_error"`
	Content  json.RawMessage `json:"content"`
}

// content is a list of blocks, or a text alone.
type content []block

func (c *content) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*c = content{{Type: "text", Text: jsonline.Text(b)}}
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(b, &list) != nil {
		return nil
	}
	for _, raw := range list {
		var one block
		var odd *json.UnmarshalTypeError
		if err := json.Unmarshal(raw, &one); err == nil || errors.As(err, &odd) {
			*c = append(*c, one)
		}
	}
	return nil
}

func (r *reader) Read(line agent.Line, emit func(agent.Reading)) {
	b := line.Bytes
	if o := jsonline.Open(b); !o.IsObject() {
		emit(agent.Reading{Kind: agent.KindUnknown, Text: agent.Clip(string(b[:min(len(b), 2048)]))})
		return
	}
	typ := string(jsonline.Str(jsonline.Get(b, "type")))
	switch typ {
	case "system", "assistant", "user", "stream_event", "result":
	default:
		emit(agent.Reading{Kind: agent.KindUnknown})
		return
	}
	var w words
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal(b, &w); err != nil && !errors.As(err, &odd) {
		emit(agent.Reading{Kind: agent.KindUnknown})
		return
	}
	switch typ {
	case "system":
		r.system(&w, emit)
	case "assistant":
		r.assistant(&w, emit)
	case "user":
		r.user(&w, emit)
	case "stream_event":
		emit(agent.Reading{Kind: agent.KindActivity, Activity: doing(w.Event.Delta.Type), SubAgent: w.Parent})
	case "result":
		r.result(&w, emit)
	}
}

// End does nothing: a turn that was cut has no terminal event.
func (r *reader) End(func(agent.Reading)) {}

func doing(delta string) string {
	switch delta {
	case "thinking_delta":
		return "thinking"
	case "text_delta", "input_json_delta":
		return "writing"
	}
	return ""
}

func (r *reader) system(w *words, emit func(agent.Reading)) {
	if w.Subtype != "init" {
		emit(agent.Reading{Kind: agent.KindActivity})
		return
	}
	version := w.Version
	if version == "" {
		version = r.version
	}
	emit(agent.Reading{Kind: agent.KindSession, SessionID: w.Session, Model: w.Model, Version: version})
	r.begin(emit)
}

// begin: nothing in the stream says that a turn begins.
func (r *reader) begin(emit func(agent.Reading)) {
	if !r.began {
		r.began = true
		emit(agent.Reading{Kind: agent.KindTurnStarted, Activity: "waiting for the model"})
	}
}

func (r *reader) assistant(w *words, emit func(agent.Reading)) {
	r.begin(emit)
	n := 0
	for _, b := range w.Message.Content {
		x := agent.Reading{SubAgent: w.Parent}
		switch b.Type {
		case "text":
			x.Kind, x.Text, x.Activity = agent.KindText, b.Text, "writing"
		case "thinking":
			x.Kind, x.Text, x.Activity = agent.KindThinking, b.Thinking, "thinking"
		case "tool_use":
			x.Kind, x.Tool = agent.KindToolStarted, tool(b.ID, b.Name, b.Input)
			x.Activity = agent.Doing(x.Tool)
			if r.open == nil || len(r.open) >= maxOpen {
				r.open = make(map[string]agent.Tool)
			}
			r.open[b.ID] = *x.Tool
		default:
			continue
		}
		n++
		emit(x)
	}
	u := w.Message.Usage
	if u != nil && (u.Input > 0 || u.Output > 0) {
		n++
		emit(agent.Reading{Kind: agent.KindUsage, Model: w.Message.Model, Usage: u.reading(w.Message.ID, w.Message.Model, agent.PerRequest), SubAgent: w.Parent})
	}
	if n == 0 {
		emit(agent.Reading{Kind: agent.KindActivity, SubAgent: w.Parent})
	}
}

func (r *reader) user(w *words, emit func(agent.Reading)) {
	n := 0
	for _, b := range w.Message.Content {
		if b.Type != "tool_result" {
			continue
		}
		t, ok := r.open[b.UseID]
		if !ok {
			t = agent.Tool{ID: b.UseID}
		}
		delete(r.open, b.UseID)
		// A command that ends with another code than 0 is no error here.
		t.Failed = b.IsError
		t.NotRun = b.IsError && notRun(jsonline.Text(b.Content))
		n++
		emit(agent.Reading{Kind: agent.KindToolFinished, Tool: &t, SubAgent: w.Parent})
	}
	if n == 0 {
		emit(agent.Reading{Kind: agent.KindActivity, SubAgent: w.Parent})
	}
}

// notRun knows the CLI's own words for a call that it did not make.
func notRun(text string) bool {
	return strings.HasPrefix(text, `Qwen Code requires permission to use "`) && strings.Contains(text, "permission was declined") ||
		strings.HasPrefix(text, `Tool "`) && strings.Contains(text, "not found in registry. Tools must use the exact names")
}

func (r *reader) result(w *words, emit func(agent.Reading)) {
	for _, d := range w.Denials[:min(len(w.Denials), maxOpen)] {
		emit(agent.Reading{Kind: agent.KindDenied, Tool: tool(d.ID, d.Name, d.Input), Activity: "refused: " + agent.Clip(d.Name)})
	}
	if w.IsError && w.Duration == 0 {
		// A sub-agent's failure is told by a result of its own, without a word
		// whose it is; that of the run has taken time.
		emit(agent.Reading{Kind: agent.KindError, Failure: agent.Fail(0, w.Error.Message)})
		return
	}
	r.began = false
	end := agent.Reading{Kind: agent.KindTurnEnded, OK: !w.IsError && w.Subtype == "success"}
	if w.Usage != nil {
		// With the side requests, such as the one that looks for what to remember.
		end.Usage = w.Usage.reading("", "", agent.PerTurn)
	}
	if words, ok := apiError(w.Result); ok {
		end.OK, end.Failure = false, failure(words)
	} else if !end.OK {
		end.Failure = failure(w.Error.Message)
	} else {
		end.Text = w.Result
	}
	emit(end)
}

// apiError takes "[API Error: 401 …]" apart: the CLI's answer when the model
// gave none. It may have cost tokens (a stream without a text); a model that
// answers with nothing but these words is taken for a failure.
func apiError(s string) (words string, ok bool) {
	if words, ok = strings.CutPrefix(s, "[API Error: "); ok {
		words, ok = strings.CutSuffix(strings.TrimSpace(words), "]")
	}
	return words, ok
}

func failure(text string) *agent.Failure {
	if text == "" {
		text = "the agent reported a failure"
	}
	f := agent.Fail(0, text)
	switch {
	case strings.Contains(text, "max session turns"):
		f.Class = agent.Limit
	case strings.HasPrefix(text, "Operation cancelled"):
		f.Class = agent.Cancelled
	case text == "terminated", strings.Contains(text, "(cause: terminated)"): // its HTTP client's word for a connection that was cut
		f.Class = agent.Network
	}
	return f
}
