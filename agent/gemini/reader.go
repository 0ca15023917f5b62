package gemini

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// reader turns stream-json into readings. The stream has no thoughts, and no
// word of requests that are repeated: the pieces of an answer that broke off
// stand before those of the second try, with nothing between.
type reader struct {
	version string
	text    []byte                // of the answer, as far as it has come
	answer  string                // last whole text
	open    map[string]agent.Tool // calls without a result
	failure *agent.Failure        // of an error line in this turn
}

const (
	maxText = 1 << 20
	maxOpen = 1024
)

type words struct {
	Session  string          `json:"session_id"`
	Model    string          `json:"model"`
	Role     string          `json:"role"`
	Content  string          `json:"content"`
	ToolName string          `json:"tool_name"`
	ToolID   string          `json:"tool_id"`
	Params   json.RawMessage `json:"parameters"`
	Status   string          `json:"status"`
	Output   string          `json:"output"`
	Severity string          `json:"severity"`
	Message  string          `json:"message"`
	Error    *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats struct {
		counts
		Models map[string]counts `json:"models"`
	} `json:"stats"`
}

// counts are tokens: input with what came from the cache, output without the
// thoughts, which are in the total alone.
type counts struct {
	Total  jsonline.Count `json:"total_tokens"`
	Input  jsonline.Count `json:"input_tokens"`
	Output jsonline.Count `json:"output_tokens"`
	Cached jsonline.Count `json:"cached"`
}

func (c counts) usage(model string, scope agent.Scope) *agent.Usage {
	return &agent.Usage{
		Model: model, Scope: scope,
		Input: max(0, int64(c.Input)-int64(c.Cached)), CacheRead: int64(c.Cached),
		Output: max(int64(c.Output), int64(c.Total)-int64(c.Input)),
	}
}

func (r *reader) Read(line agent.Line, emit func(agent.Reading)) {
	b := line.Bytes
	if o := jsonline.Open(b); !o.IsObject() {
		emit(agent.Reading{Kind: agent.KindUnknown, Text: agent.Clip(string(b[:min(len(b), 2048)]))})
		return
	}
	typ := string(jsonline.Str(jsonline.Get(b, "type")))
	switch typ {
	case "init", "message", "tool_use", "tool_result", "error", "result":
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
	if typ != "message" || w.Role != "assistant" {
		r.whole(emit)
	}
	switch typ {
	case "init":
		emit(agent.Reading{Kind: agent.KindSession, SessionID: w.Session, Model: w.Model, Version: r.version})
	case "message":
		r.message(&w, emit)
	case "tool_use":
		r.started(&w, emit)
	case "tool_result":
		r.finished(&w, emit)
	case "error":
		r.failure = agent.Fail(0, w.Message)
		if strings.HasPrefix(w.Message, "Maximum session turns") {
			r.failure.Class = agent.Limit
		}
		emit(agent.Reading{Kind: agent.KindError, Failure: r.failure})
	case "result":
		r.result(&w, emit)
	}
}

// End tells the text of an answer that was cut off.
func (r *reader) End(emit func(agent.Reading)) { r.whole(emit) }

func (r *reader) message(w *words, emit func(agent.Reading)) {
	switch w.Role {
	case "user":
		r.answer, r.failure = "", nil
		emit(agent.Reading{Kind: agent.KindTurnStarted, Activity: "waiting for the model"})
	case "assistant":
		if len(r.text) < maxText {
			r.text = append(r.text, w.Content...)
		}
		emit(agent.Reading{Kind: agent.KindActivity, Activity: "writing"})
	default:
		emit(agent.Reading{Kind: agent.KindUnknown})
	}
}

// whole tells the text that came in pieces.
func (r *reader) whole(emit func(agent.Reading)) {
	if len(r.text) == 0 {
		return
	}
	r.answer, r.text = string(r.text), nil
	emit(agent.Reading{Kind: agent.KindText, Text: r.answer, Activity: "writing"})
}

func (r *reader) started(w *words, emit func(agent.Reading)) {
	r.answer = "" // what is said before a call is no answer
	t := agent.Tool{ID: w.ToolID, Name: w.ToolName}
	arguments(&t, w.Params)
	if r.open == nil || len(r.open) >= maxOpen {
		r.open = make(map[string]agent.Tool)
	}
	r.open[t.ID] = t
	emit(agent.Reading{Kind: agent.KindToolStarted, Tool: &t, Activity: agent.Doing(&t)})
}

func (r *reader) finished(w *words, emit func(agent.Reading)) {
	t, ok := r.open[w.ToolID]
	if !ok {
		t = agent.Tool{ID: w.ToolID, Name: w.ToolName}
	}
	delete(r.open, w.ToolID)
	t.Failed = w.Status == "error"
	if m := exitCode().FindStringSubmatch(w.Output); m != nil && t.Command != "" {
		n, _ := strconv.Atoi(m[1])
		t.Exit, t.Failed = &n, n != 0
	}
	if e := w.Error; e != nil {
		switch e.Type {
		case "policy_violation": // a hook's or a rule's no
			t.NotRun = true
			emit(agent.Reading{Kind: agent.KindDenied, Tool: &t, Activity: "refused: " + t.Name})
		case "tool_not_registered", "invalid_tool_params":
			t.NotRun = true
		}
	}
	end := t
	emit(agent.Reading{Kind: agent.KindToolFinished, Tool: &end})
}

// The output of a command that failed and printed nothing: with output the code
// is not told.
var exitCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Command exited with code: (\d{1,3})$`) })

func (r *reader) result(w *words, emit func(agent.Reading)) {
	main := ""
	for _, name := range slices.Sorted(maps.Keys(w.Stats.Models)) {
		if m := w.Stats.Models[name]; m.Total > 0 && (main == "" || m.Total > w.Stats.Models[main].Total) {
			main = name
		}
	}
	end := agent.Reading{Kind: agent.KindTurnEnded, OK: w.Status == "success", Model: main, Usage: w.Stats.usage(main, agent.PerProcess)}
	if end.OK {
		end.Text = r.answer
	} else {
		end.Failure = r.failed(w)
	}
	emit(end)
	// Each at its own price, when there were several: the one that was asked
	// for, the small one that chooses it, the one that took its place.
	if n := len(w.Stats.Models); n > 1 && n <= maxModels {
		for _, name := range slices.Sorted(maps.Keys(w.Stats.Models)) {
			u := w.Stats.Models[name].usage(name, agent.PerRequest)
			u.ID = name
			emit(agent.Reading{Kind: agent.KindUsage, Usage: u})
		}
	}
}

const maxModels = 64

// failed is the failure of a result. Some have no words of their own: those
// stood in an error line before.
func (r *reader) failed(w *words) *agent.Failure {
	if w.Error == nil {
		if r.failure != nil {
			return r.failure
		}
		return &agent.Failure{Class: agent.Other, Text: "the agent reported a failure"}
	}
	status, text := apiError(w.Error.Message)
	if status == 0 && strings.Contains(text, "exhausted your ") {
		// "You have exhausted your capacity on this model. Your quota will reset
		// after 5h.": the CLI's words for a 429 (0.61.0, from its source).
		status = 429
	}
	f := agent.Fail(status, text)
	if strings.HasPrefix(text, "API key not valid") { // the API's answer is a 400
		f.Class = agent.Auth
	}
	switch w.Error.Type {
	case "FatalTurnLimitedError":
		f.Class = agent.Limit
	case "FatalCancellationError":
		f.Class = agent.Cancelled
	case "FatalAuthenticationError":
		f.Class = agent.Auth
	}
	if text == "terminated" { // the words of its HTTP client for a connection that was cut
		f.Class = agent.Network
	}
	return f
}

// apiError takes "[API Error: {"error":{"code":401,"message":…}}]" apart.
func apiError(s string) (status int, text string) {
	in, ok := strings.CutPrefix(s, "[API Error: ")
	if !ok {
		return 0, s
	}
	in = strings.TrimSuffix(in, "]")
	var e struct {
		Error struct {
			Code    jsonline.Count `json:"code"`
			Message string         `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(in), &e) == nil && e.Error.Message != "" {
		return int(min(e.Error.Code, 999)), e.Error.Message
	}
	return 0, in
}
