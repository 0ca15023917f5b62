package claude

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// reader turns stream-json into readings.
//
// Only assistant lines tell what was said: the deltas of a message whose
// stream broke are never taken back (2.1.197 falls back to a request without
// streaming and leaves them dangling). Only message_delta and result tell the
// true tokens: the usage in assistant lines is the placeholder of
// message_start. Only is_error tells success: subtype is "success" for a wrong
// key.
type reader struct {
	version string
	session string
	model   string // that the session runs, as last told

	// messages holds the model request that streams now, by the tool call of
	// the sub-agent it belongs to ("" is the main one).
	messages map[string]*message
	process  agent.Usage // sum of what the results told, each for itself
	tasks    tasks
	denied   map[string]bool // tool calls that were told already
	failure  *agent.Failure  // of the last synthetic message

	results []toolResult // of this line
	out     func(agent.Reading)
	n       int // readings of this line
}

type message struct {
	id, model string
	usage     usage
}

// Bounds of what is kept between lines: a real session comes nowhere near.
const maxKept = 1024

// head is what a line is looked at for before anything is decoded, in one
// pass: type is not always the first member (a result of 2.1.332 begins with
// duration_api_ms).
type head struct {
	typ, subtype, message, parent, messageID []byte
	event                                    event
}

// event is one of the model's stream.
type event struct {
	typ, message, usage  []byte
	deltaType, blockType []byte
}

func (h *head) read(o *jsonline.Object, r *reader) {
	for {
		k, ok := o.Key()
		if !ok {
			return
		}
		switch string(k) {
		case "event":
			if in, ok := o.Enter(); ok {
				h.event.read(&in)
				o.Leave(&in)
				continue
			}
		case "message":
			if in, ok := o.Enter(); ok && jsonline.Is(h.typ, "user") {
				r.results = toolResults(&in, r.results)
				o.Leave(&in)
				continue
			}
		}
		v, ok := o.Value()
		if !ok {
			return
		}
		switch string(k) {
		case "type":
			h.typ = v
		case "subtype":
			h.subtype = v
		case "message":
			h.message = v
		case "parent_tool_use_id":
			h.parent = v
		case "api_message_id":
			h.messageID = v
		}
	}
}

func (e *event) read(o *jsonline.Object) {
	for {
		k, ok := o.Key()
		if !ok {
			return
		}
		if in, ok := o.Enter(); ok && (string(k) == "delta" || string(k) == "content_block") {
			for {
				name, v, ok := in.Next()
				if !ok {
					break
				}
				if string(name) == "type" && string(k) == "delta" {
					e.deltaType = v
				} else if string(name) == "type" {
					e.blockType = v
				}
			}
			o.Leave(&in)
			continue
		}
		v, ok := o.Value()
		if !ok {
			return
		}
		switch string(k) {
		case "type":
			e.typ = v
		case "message":
			e.message = v
		case "usage":
			e.usage = v
		}
	}
}

func (r *reader) Read(line agent.Line, emit func(agent.Reading)) {
	r.out, r.n, r.results = emit, 0, r.results[:0]
	defer func() { r.out = nil }()

	o := jsonline.Open(line.Bytes)
	if !o.IsObject() {
		r.plain(line)
		return
	}
	var h head
	h.read(&o, r)
	switch string(jsonline.Str(h.typ)) {
	case "stream_event":
		r.stream(h)
	case "assistant":
		r.assistant(line.Bytes, h)
	case "user":
		r.user(h)
	case "system":
		r.system(line.Bytes, string(jsonline.Str(h.subtype)))
	case "result":
		r.result(line.Bytes)
	case "rate_limit_event":
		r.rateLimit(line.Bytes)
	case "control_request", "control_response", "control_cancel_request", "command_lifecycle",
		"keep_alive", "tool_progress", "tool_use_summary", "auth_status", "prompt_suggestion":
		r.emit(agent.Reading{Kind: agent.KindActivity})
	default:
		r.emit(agent.Reading{Kind: agent.KindUnknown})
	}
	if r.n == 0 {
		r.emit(agent.Reading{Kind: agent.KindActivity})
	}
}

func (r *reader) End(func(agent.Reading)) {}

func (r *reader) emit(x agent.Reading) {
	r.n++
	r.out(x)
}

// plain is a line that is no JSON object: a warning that some library wrote to
// stdout.
func (r *reader) plain(line agent.Line) {
	b := line.Bytes
	r.emit(agent.Reading{Kind: agent.KindUnknown, Text: agent.Clip(string(b[:min(len(b), 2048)]))})
}

// unmarshal decodes into v and says whether the line was JSON. A member of
// another type than expected is left out, the others stand.
func unmarshal(b []byte, v any) bool {
	var odd *json.UnmarshalTypeError
	err := json.Unmarshal(b, v)
	return err == nil || errors.As(err, &odd)
}

// usage is Anthropic's. The pointers tell a field that is missing from a zero.
type usage struct {
	Input      *jsonline.Count `json:"input_tokens"`
	Output     *jsonline.Count `json:"output_tokens"`
	CacheRead  *jsonline.Count `json:"cache_read_input_tokens"`
	CacheWrite *jsonline.Count `json:"cache_creation_input_tokens"`
}

// merge lays what u2 tells over u: message_delta repeats only some fields.
func (u *usage) merge(u2 usage) {
	for _, f := range []struct{ dst, src **jsonline.Count }{
		{&u.Input, &u2.Input}, {&u.Output, &u2.Output}, {&u.CacheRead, &u2.CacheRead}, {&u.CacheWrite, &u2.CacheWrite},
	} {
		if *f.src != nil {
			*f.dst = *f.src
		}
	}
}

func (u usage) reading(id, model string, scope agent.Scope) *agent.Usage {
	v := func(p *jsonline.Count) int64 {
		if p == nil {
			return 0
		}
		return int64(*p)
	}
	return &agent.Usage{
		ID: id, Model: model, Scope: scope,
		Input: v(u.Input), Output: v(u.Output), CacheRead: v(u.CacheRead), CacheWrite: v(u.CacheWrite),
	}
}

// stream handles the raw events of the model's stream: 49 of 50 lines, so
// nothing is decoded of a delta.
func (r *reader) stream(h head) {
	switch string(jsonline.Str(h.event.typ)) {
	case "message_start":
		var m struct {
			ID, Model string
			Usage     usage
		}
		if !unmarshal(h.event.message, &m) {
			return
		}
		parent := str(h.parent)
		if len(r.messages) >= maxKept {
			clear(r.messages)
		}
		if r.messages == nil {
			r.messages = make(map[string]*message)
		}
		r.messages[parent] = &message{id: m.ID, model: m.Model, usage: m.Usage}
		r.usedModel(m.Model, parent)
		// A placeholder for the output, but the input is true, and it is all
		// there will ever be when the stream is cut.
		r.emit(agent.Reading{Kind: agent.KindUsage, Usage: m.Usage.reading(m.ID, m.Model, agent.PerRequest), SubAgent: parent})
	case "message_delta":
		parent := str(h.parent)
		m := r.messages[parent]
		id := str(h.messageID)
		if m == nil || id != "" && id != m.id {
			m = &message{id: id}
		}
		var u usage
		if !unmarshal(h.event.usage, &u) {
			return
		}
		m.usage.merge(u)
		r.emit(agent.Reading{Kind: agent.KindUsage, Usage: m.usage.reading(m.id, m.model, agent.PerRequest), SubAgent: parent})
	case "content_block_start":
		switch string(jsonline.Str(h.event.blockType)) {
		case "thinking", "redacted_thinking":
			r.emit(agent.Reading{Kind: agent.KindThinking, Activity: "thinking", SubAgent: str(h.parent)})
		case "text":
			r.emit(agent.Reading{Kind: agent.KindActivity, Activity: "writing", SubAgent: str(h.parent)})
		}
	case "content_block_delta":
		if jsonline.Is(h.event.deltaType, "thinking_delta") {
			r.emit(agent.Reading{Kind: agent.KindThinking, SubAgent: str(h.parent)})
		}
	}
}

func str(v []byte) string { return string(jsonline.Str(v)) }

// usedModel tells the model that really answers when it is another one than
// was told last: a fall-back, a switch.
func (r *reader) usedModel(model, parent string) {
	if parent != "" || model == "" || model == synthetic || base(model) == base(r.model) {
		return
	}
	r.model = model
	r.emit(agent.Reading{Kind: agent.KindSession, SessionID: r.session, Model: model, Version: r.version})
}

// base takes the "[1m]" off: init tells the window, messages do not.
func base(model string) string {
	b, _, _ := strings.Cut(model, "[")
	return b
}

// toolResult is one result in a user line.
type toolResult struct{ id, isError, content []byte }

// toolResults collects the results in a user message. Their content may be
// megabytes of output: it is walked over, not decoded.
func toolResults(message *jsonline.Object, into []toolResult) []toolResult {
	for {
		k, ok := message.Key()
		if !ok {
			return into
		}
		list, ok := message.Enter()
		if !ok || string(k) != "content" || list.IsObject() {
			if _, ok := message.Value(); !ok {
				return into
			}
			continue
		}
		for len(into) < maxKept {
			if _, ok := list.Key(); !ok {
				break
			}
			block, ok := list.Enter()
			if !ok {
				if _, ok := list.Value(); !ok {
					break
				}
				continue
			}
			var t toolResult
			result := false
			for {
				k, v, ok := block.Next()
				if !ok {
					break
				}
				switch string(k) {
				case "type":
					result = jsonline.Is(v, "tool_result")
				case "tool_use_id":
					t.id = v
				case "is_error":
					t.isError = v
				case "content":
					t.content = v
				}
			}
			list.Leave(&block)
			if result {
				into = append(into, t)
			}
		}
		message.Leave(&list)
	}
}

func (r *reader) user(h head) {
	if h.message != nil { // type stood behind it
		o := jsonline.Open(h.message)
		r.results = toolResults(&o, r.results)
	}
	for _, res := range r.results {
		t := &agent.Tool{ID: str(res.id), Failed: string(res.isError) == "true"}
		if t.Failed {
			t.Exit = exitCode(res.content)
			t.NotRun = notRun(res.content)
		}
		r.emit(agent.Reading{Kind: agent.KindToolFinished, Tool: t, SubAgent: str(h.parent)})
	}
	clear(r.results) // they hold on to the line
}

// notRun says that the text of a failed result is the CLI's own: "no such tool",
// wrong input, "Blocked: standalone sleep", or that of a hook. A command cannot
// forge it: what that prints stands behind "Exit code N".
func notRun(content []byte) bool {
	for _, word := range []string{`"<tool_use_error>`, `"PreToolUse:`} {
		if strings.HasPrefix(string(content[:min(len(content), len(word))]), word) {
			return true
		}
	}
	return false
}

// exitCode reads the "Exit code N" that a failed command's result begins with.
func exitCode(content []byte) *int {
	const word = `"Exit code `
	s := string(content[:min(len(content), len(word)+4)])
	if !strings.HasPrefix(s, word) {
		return nil
	}
	n, digits := 0, 0
	for _, c := range s[len(word):] {
		if c < '0' || c > '9' {
			break
		}
		n, digits = 10*n+int(c-'0'), digits+1
	}
	if digits == 0 {
		return nil
	}
	return &n
}

func (r *reader) rateLimit(line []byte) {
	var e struct {
		Info struct {
			Status   string         `json:"status"`
			ResetsAt jsonline.Count `json:"resetsAt"`
			Type     string         `json:"rateLimitType"`
		} `json:"rate_limit_info"`
	}
	if !unmarshal(line, &e) || e.Info.Status != "rejected" {
		return
	}
	f := &agent.Failure{Class: agent.RateLimit, Text: agent.Clip("rate limit reached: " + e.Info.Type)}
	if e.Info.ResetsAt > 0 {
		f.Until = agent.ResetAt(int64(e.Info.ResetsAt))
	}
	r.emit(agent.Reading{Kind: agent.KindError, Failure: f})
}
