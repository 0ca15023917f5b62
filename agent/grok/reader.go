package grok

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// reader turns streaming-json into readings.
//
// The other stream that the CLI has (streaming-messages-json) names session and
// model in its first line, but holds the tokens of a request and its text back
// until the tools that it called are done: what a run used that is stopped
// meanwhile would not be known.
type reader struct {
	version string
	began   bool
	text    strings.Builder        // pieces of the text that is being written
	last    string                 // the text before
	failure *agent.Failure         // of an error that no end has followed yet
	calls   map[string]*agent.Tool // that are open
}

// maxCalls bounds calls.
const maxCalls = 1024

// maxText bounds what is kept of one text.
const maxText = 4 << 20

func (r *reader) Read(line agent.Line, emit func(agent.Reading)) {
	b := line.Bytes
	if o := jsonline.Open(b); !o.IsObject() {
		emit(agent.Reading{Kind: agent.KindUnknown, Text: agent.Clip(string(b[:min(len(b), 2048)]))})
		return
	}
	typ := string(jsonline.Str(jsonline.Get(b, "type")))
	switch typ {
	case "text", "available_commands": // the second stands between two pieces
	default:
		r.flush(emit)
	}
	switch typ {
	case "available_commands":
		if !r.begin(emit) {
			emit(agent.Reading{Kind: agent.KindActivity})
		}
	case "text":
		r.begin(emit)
		x := agent.Reading{Kind: agent.KindActivity}
		if r.text.Len() == 0 {
			x.Activity = "writing"
		}
		var piece string
		unmarshal(jsonline.Get(b, "data"), &piece)
		if r.text.Len() < maxText {
			r.text.WriteString(piece)
		}
		emit(x)
	case "thought":
		emit(agent.Reading{Kind: agent.KindThinking, Activity: "thinking"})
	case "tool_call":
		r.begin(emit)
		t := tool(str(b, "toolCallId"), str(b, "toolName"), jsonline.Get(b, "rawInput"))
		if r.calls == nil || len(r.calls) >= maxCalls {
			r.calls = make(map[string]*agent.Tool)
		}
		r.calls[t.ID] = t
		emit(agent.Reading{Kind: agent.KindToolStarted, Tool: t, Activity: agent.Doing(t)})
	case "tool_call_update":
		r.update(b, emit)
	case "usage":
		var u usage
		unmarshal(jsonline.Get(b, "usage"), &u)
		emit(agent.Reading{Kind: agent.KindUsage, Usage: u.reading(agent.PerRequest)})
	case "end":
		r.end(b, emit)
	case "error":
		var s struct {
			Message string `json:"message"`
		}
		unmarshal(b, &s)
		r.failure = failed(s.Message)
		emit(agent.Reading{Kind: agent.KindError, Failure: r.failure})
	case "max_turns_reached":
		// The end that follows says "cancelled".
		r.failure = &agent.Failure{Class: agent.Limit, Text: "the maximum number of turns is reached"}
		emit(agent.Reading{Kind: agent.KindError, Failure: r.failure})
	case "plan":
		emit(agent.Reading{Kind: agent.KindActivity, Activity: "planning"})
	default:
		if strings.HasPrefix(typ, "auto_compact") {
			emit(agent.Reading{Kind: agent.KindActivity, Activity: "compacting the conversation"})
			return
		}
		emit(agent.Reading{Kind: agent.KindUnknown})
	}
}

// End: a request that failed for good has an error line and no end.
func (r *reader) End(emit func(agent.Reading)) {
	r.flush(emit)
	if r.failure != nil {
		emit(agent.Reading{Kind: agent.KindTurnEnded, Failure: r.failure})
		r.failure = nil
	}
}

// begin tells the start, once: the first line comes before the model answers.
func (r *reader) begin(emit func(agent.Reading)) bool {
	if r.began {
		return false
	}
	r.began = true
	emit(agent.Reading{Kind: agent.KindTurnStarted, Version: r.version, Activity: "waiting for the model"})
	return true
}

func (r *reader) flush(emit func(agent.Reading)) {
	if r.text.Len() == 0 {
		return
	}
	r.last = r.text.String()
	r.text.Reset()
	emit(agent.Reading{Kind: agent.KindText, Text: r.last})
}

// update is news of a tool call. A call that ran and is over has a rawOutput; to
// one that was refused, unknown or malformed the CLI gives the answer itself, in
// content alone.
func (r *reader) update(b []byte, emit func(agent.Reading)) {
	keys := [...]string{"toolCallId", "status", "content", "rawOutput"}
	var v [4][]byte
	jsonline.Find(b, keys[:], v[:])
	t := &agent.Tool{}
	unmarshal(v[0], &t.ID)
	switch string(jsonline.Str(v[1])) {
	case "completed", "failed":
	default:
		emit(agent.Reading{Kind: agent.KindActivity})
		return
	}
	if call := r.calls[t.ID]; call != nil {
		*t = *call
		delete(r.calls, t.ID)
	}
	t.Failed = jsonline.Is(v[1], "failed")
	if jsonline.Is(jsonline.Get(v[3], "type"), "Bash") {
		var code int
		if unmarshal(jsonline.Get(v[3], "exit_code"), &code) {
			t.Exit = &code
			t.Failed = t.Failed || code != 0
		}
	}
	if why := said(v[2]); t.Failed && (len(v[3]) == 0 || string(v[3]) == "null") && byItself(why) {
		t.NotRun = true
		if !strings.HasPrefix(why, "Failed to parse") {
			emit(agent.Reading{Kind: agent.KindDenied, Tool: t, Text: agent.Clip(why)})
		}
	}
	emit(agent.Reading{Kind: agent.KindToolFinished, Tool: t})
}

// byItself says that the text is the CLI's own for a call that it did not run.
func byItself(text string) bool {
	for _, word := range []string{"Hook denied: ", "Failed to parse arguments for tool `", "User cancelled the execution for tool `"} {
		if strings.HasPrefix(text, word) {
			return true
		}
	}
	return strings.HasPrefix(text, "Tool `") && strings.Contains(text, "` was not executed: ")
}

// said is the beginning of the first text of a call's content.
func said(content []byte) string {
	list := jsonline.Open(content)
	if len(content) == 0 || list.IsObject() {
		return ""
	}
	if _, ok := list.Key(); !ok {
		return ""
	}
	first, ok := list.Value()
	if !ok {
		return ""
	}
	return jsonline.Text(jsonline.Get(first, "content", "text"))
}

// end is the last line. Its usage is that of all requests of the turn, those of
// sub-agents included.
func (r *reader) end(b []byte, emit func(agent.Reading)) {
	var s struct {
		Reason  string         `json:"stopReason"`
		Session string         `json:"sessionId"`
		Usage   *usage         `json:"usage"`
		Cost    jsonline.Money `json:"total_cost_usd"`
		Models  map[string]struct {
			Calls jsonline.Count `json:"modelCalls"`
		} `json:"modelUsage"`
	}
	if !unmarshal(b, &s) {
		emit(agent.Reading{Kind: agent.KindUnknown})
		return
	}
	model, most := "", jsonline.Count(-1)
	for name, m := range s.Models {
		if m.Calls > most || m.Calls == most && name < model {
			model, most = name, m.Calls
		}
	}
	emit(agent.Reading{Kind: agent.KindSession, SessionID: s.Session, Model: model, Version: r.version})
	x := agent.Reading{Kind: agent.KindTurnEnded, SessionID: s.Session, Text: r.last}
	if s.Usage != nil {
		x.Usage = s.Usage.reading(agent.PerTurn)
		x.Usage.Model, x.Usage.CostUSD = model, float64(s.Cost)
	}
	switch {
	case s.Reason == "cancelled" && r.failure == nil:
		x.Failure = &agent.Failure{Class: agent.Cancelled, Text: "interrupted"}
	case s.Reason == "max_turn_requests":
		x.Failure = &agent.Failure{Class: agent.Limit, Text: "the maximum number of turns is reached"}
	case s.Reason == "end_turn", s.Reason == "max_tokens":
		x.OK = true
	case r.failure != nil:
		x.Failure = r.failure
	default:
		x.Failure = &agent.Failure{Class: agent.Other, Text: agent.Clip("the turn ended with " + s.Reason)}
	}
	if !x.OK {
		x.Text = ""
	}
	r.failure, r.last = nil, ""
	emit(x)
}

// failed makes a Failure of an error's text: `Internal error: "Unauthorized
// (401) from http://…: authentication_error: bad key\n\n  Model: …"`.
func failed(text string) *agent.Failure {
	what := strings.TrimPrefix(text, "Internal error: ")
	var s string
	var o struct {
		Message string         `json:"message"`
		Status  jsonline.Count `json:"http_status"`
	}
	switch {
	case json.Unmarshal([]byte(what), &s) == nil:
		what = s
	case json.Unmarshal([]byte(what), &o) == nil && o.Message != "":
		what = o.Message
	}
	what, _, _ = strings.Cut(what, "\n\n  Model:") // and what follows is no news
	if m := statusWord().FindStringSubmatch(what); m != nil && o.Status == 0 {
		n, _ := strconv.Atoi(m[1])
		o.Status = jsonline.Count(n)
	}
	f := agent.Fail(int(o.Status), what)
	if f.Class == agent.Other && strings.HasPrefix(what, "rate_limit") {
		f.Class = agent.RateLimit
	}
	return f
}

// statusWord begins `Unauthorized (401) from …`.
var statusWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z ]{1,40} \(([45]\d\d)\)`) })

// usage is told without the cache in the input.
type usage struct {
	Input      jsonline.Count `json:"input_tokens"`
	Output     jsonline.Count `json:"output_tokens"`
	CacheRead  jsonline.Count `json:"cache_read_input_tokens"`
	CacheWrite jsonline.Count `json:"cache_creation_input_tokens"`
}

func (u usage) reading(scope agent.Scope) *agent.Usage {
	return &agent.Usage{
		Scope: scope, Input: int64(u.Input), Output: int64(u.Output), CacheRead: int64(u.CacheRead), CacheWrite: int64(u.CacheWrite),
	}
}

// tool fills in what is known of a tool's input.
func tool(id, name string, input []byte) *agent.Tool {
	t := &agent.Tool{ID: id, Name: name}
	var in struct {
		Command string `json:"command"`
		File    string `json:"file_path"`
		Target  string `json:"target_file"`
		Dir     string `json:"target_directory"`
		Path    string `json:"path"`
		Tool    string `json:"tool_name"`
	}
	unmarshal(input, &in)
	switch name {
	case "run_terminal_command", "run_terminal_cmd", "monitor":
		t.Command = in.Command
	case "read_file", "list_dir", "grep", "write", "search_replace":
		for _, f := range []string{in.File, in.Target, in.Dir, in.Path} {
			if f != "" {
				t.Files = []string{f}
				break
			}
		}
		t.Writes = name == "write" || name == "search_replace"
	case "spawn_subagent":
		t.Spawns = true
	case "use_tool": // of an MCP server
		if in.Tool != "" {
			t.Name = in.Tool
		}
	}
	return t
}

func str(b []byte, key string) (s string) {
	unmarshal(jsonline.Get(b, key), &s)
	return s
}

// unmarshal decodes into v and says whether b was JSON. A member of another
// type than expected is left out, the others stand.
func unmarshal(b []byte, v any) bool {
	var odd *json.UnmarshalTypeError
	err := json.Unmarshal(b, v)
	return err == nil || errors.As(err, &odd)
}
