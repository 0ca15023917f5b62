package copilot

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

// reader turns --output-format json into readings.
type reader struct {
	version string
	model   string
	text    string         // the last message
	failure *agent.Failure // of the last request, or of the session
	retries int
	calls   map[string]*agent.Tool // that are open
}

// maxCalls bounds calls.
const maxCalls = 1024

func (r *reader) Read(line agent.Line, emit func(agent.Reading)) {
	b := line.Bytes
	if o := jsonline.Open(b); !o.IsObject() {
		emit(agent.Reading{Kind: agent.KindUnknown, Text: agent.Clip(string(b[:min(len(b), 2048)]))})
		return
	}
	keys := [...]string{"type", "data", "agentId"}
	var v [3][]byte
	jsonline.Find(b, keys[:], v[:])
	typ, data := string(jsonline.Str(v[0])), v[1]
	n := 0
	say := func(x agent.Reading) {
		n++
		if x.SubAgent == "" {
			unmarshal(v[2], &x.SubAgent)
		}
		emit(x)
	}
	switch typ {
	case "user.message":
		r.failure, r.retries = nil, 0
		say(agent.Reading{Kind: agent.KindTurnStarted, Activity: "starting"})
	case "session.tools_updated", "model.call_start":
		r.used(data, say)
		say(agent.Reading{Kind: agent.KindActivity, Activity: map[bool]string{true: "waiting for the model"}[typ == "model.call_start"]})
	case "assistant.reasoning_delta":
		say(agent.Reading{Kind: agent.KindThinking, Activity: "thinking"})
	case "assistant.reasoning":
		var s struct{ Content string }
		unmarshal(data, &s)
		say(agent.Reading{Kind: agent.KindThinking, Text: s.Content, Activity: "thinking"})
	case "assistant.message_start":
		say(agent.Reading{Kind: agent.KindActivity, Activity: "writing"})
	case "assistant.message":
		var s struct{ Content string }
		unmarshal(data, &s)
		r.used(data, say)
		if s.Content != "" {
			r.text = s.Content
			say(agent.Reading{Kind: agent.KindText, Text: s.Content})
		}
	case "tool.execution_start":
		t := tool(str(data, "toolCallId"), str(data, "toolName"), jsonline.Get(data, "arguments"))
		if r.calls == nil || len(r.calls) >= maxCalls {
			r.calls = make(map[string]*agent.Tool)
		}
		r.calls[t.ID] = t
		started := *t
		say(agent.Reading{Kind: agent.KindToolStarted, Tool: &started, Activity: agent.Doing(t)})
	case "tool.execution_complete":
		r.finished(data, say)
	case "model.call_failure", "session.error":
		r.fail(typ, data, say)
	case "assistant.turn_retry":
		r.retries++
		f := r.failure
		if f == nil {
			f = agent.Fail(0, str(data, "reason"))
		}
		say(agent.Reading{Kind: agent.KindRetry, Failure: f, Attempt: r.retries, Activity: "waiting to repeat a failed request"})
	case "session.compaction_start":
		say(agent.Reading{Kind: agent.KindActivity, Activity: "compacting the conversation"})
	case "result":
		r.end(b, say)
	default:
		// There are a hundred more, and most of them are news of the terminal's.
		space, _, _ := strings.Cut(typ, ".")
		switch space {
		case "session", "assistant", "model", "tool", "hook", "permission", "subagent", "skill", "system", "pending_messages", "prompt_cache_break", "mcp", "abort":
			say(agent.Reading{Kind: agent.KindActivity})
		default:
			say(agent.Reading{Kind: agent.KindUnknown})
		}
	}
	if n == 0 {
		say(agent.Reading{Kind: agent.KindActivity})
	}
}

// End does nothing: a turn that was cut has no terminal event.
func (r *reader) End(func(agent.Reading)) {}

// used tells the model when it is another one than was told last.
func (r *reader) used(data []byte, say func(agent.Reading)) {
	if m := str(data, "model"); m != "" && m != r.model {
		r.model = m
		say(agent.Reading{Kind: agent.KindSession, Model: m, Version: r.version})
	}
}

func (r *reader) finished(data []byte, say func(agent.Reading)) {
	var s struct {
		ID      string `json:"toolCallId"`
		Success bool   `json:"success"`
		Shell   struct {
			Exit *int `json:"exitCode"`
		} `json:"shellExecution"`
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	unmarshal(data, &s)
	t := &agent.Tool{ID: s.ID}
	if call := r.calls[s.ID]; call != nil {
		*t = *call
		delete(r.calls, s.ID)
	}
	t.Exit = s.Shell.Exit
	t.Failed = !s.Success || t.Exit != nil && *t.Exit != 0
	if !s.Success {
		t.NotRun = s.Error.Code == "denied" || notThere().MatchString(s.Error.Message)
		if t.NotRun && s.Error.Code == "denied" && !strings.HasPrefix(s.Error.Message, "Denied by preToolUse hook") {
			say(agent.Reading{Kind: agent.KindDenied, Tool: t, Text: agent.Clip(s.Error.Message)})
		}
	}
	say(agent.Reading{Kind: agent.KindToolFinished, Tool: t})
}

// notThere is the CLI's own word for a tool that it does not have, for arguments
// that do not fit (`"command": Required`), and for expansions in a command that it
// will not have, whatever is allowed.
var notThere = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^Tool '[^']*' does not exist|^Command blocked: |^"[A-Za-z_]{1,60}": `)
})

// fail: a request that failed may be repeated; session.error is the end of it,
// and a result follows.
func (r *reader) fail(typ string, data []byte, say func(agent.Reading)) {
	var s struct {
		Type    string         `json:"errorType"`
		Message string         `json:"message"`
		Request string         `json:"errorMessage"`
		Status  jsonline.Count `json:"statusCode"`
		Kind    string         `json:"failureKind"`
	}
	unmarshal(data, &s)
	text := s.Message
	if typ == "model.call_failure" {
		text = s.Request
		var o struct{ Message string }
		var quoted string
		switch {
		case json.Unmarshal([]byte(text), &quoted) == nil:
			text = quoted
		case json.Unmarshal([]byte(text), &o) == nil && o.Message != "":
			text = o.Message
		}
	}
	f := agent.Fail(int(s.Status), text)
	switch {
	case f.Class != agent.Other:
	case s.Type == "authentication":
		f.Class = agent.Auth
	case s.Kind == "transport":
		f.Class = agent.Network
	}
	if typ == "session.error" {
		if r.failure != nil && f.Class == agent.Other {
			f.Class = r.failure.Class
		}
		if r.failure != nil && r.failure.Text != "" && !strings.Contains(f.Text, r.failure.Text) {
			f.Text = agent.Clip(r.failure.Text + ": " + f.Text) // the provider's own words come first
		}
		say(agent.Reading{Kind: agent.KindError, Failure: f})
	}
	r.failure = f
}

func (r *reader) end(b []byte, say func(agent.Reading)) {
	var s struct {
		Session string `json:"sessionId"`
		Exit    int    `json:"exitCode"`
	}
	if !unmarshal(b, &s) {
		say(agent.Reading{Kind: agent.KindUnknown})
		return
	}
	say(agent.Reading{Kind: agent.KindSession, SessionID: s.Session, Model: r.model, Version: r.version})
	x := agent.Reading{Kind: agent.KindTurnEnded, SessionID: s.Session, OK: s.Exit == 0}
	switch {
	case x.OK:
		x.Text = r.text
	case r.failure != nil:
		x.Failure = r.failure
	default:
		x.Failure = &agent.Failure{Class: agent.Other, Text: "the turn ended with exit code " + strconv.Itoa(s.Exit)}
	}
	say(x)
}

// tool fills in what is known of a tool's arguments.
func tool(id, name string, args []byte) *agent.Tool {
	t := &agent.Tool{ID: id, Name: name}
	var in struct {
		Command string `json:"command"`
		Path    string `json:"path"`
	}
	unmarshal(args, &in)
	switch name {
	case "bash", "powershell":
		t.Command = in.Command
	case "view", "create", "edit", "str_replace_editor":
		if in.Path != "" {
			t.Files = []string{in.Path}
		}
		t.Writes = name != "view"
	case "task":
		t.Spawns = true
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
