package pi

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// reader turns --mode json into readings.
//
// The exit code is 0 whatever happened to the model, so the verdict is the
// stop reason of the last assistant message. Where the turn ends differs:
// 1.6.0 prints agent_settled, and agent_end says with willRetry that it is not
// the end; 0.73.1 has agent_end alone, and when it repeats the request, only
// the next line says so.
type reader struct {
	version string
	model   string
	session string

	last    verdict
	held    bool // an agent_end that may yet be taken back by the next line
	settles bool // agent_settled will come
	// works holds the open calls that have told progress. Both versions tell it
	// at the start of every command, and only when it really starts: a call that
	// fails without was refused, unknown or malformed.
	works map[string]bool
}

// maxWorks bounds works.
const maxWorks = 1024

// verdict is what the last assistant message was.
type verdict struct {
	seen   bool
	reason string // stop, toolUse, length, error, aborted
	text   string
	err    string
}

type content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Thinking string `json:"thinking"`
}

type messageOf struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Model      string          `json:"model"`
	Provider   string          `json:"provider"`
	StopReason string          `json:"stopReason"`
	Error      string          `json:"errorMessage"`
	ResponseID string          `json:"responseId"`
	Time       jsonline.Count  `json:"timestamp"`
	Usage      *struct {
		Input      jsonline.Count `json:"input"`
		Output     jsonline.Count `json:"output"`
		CacheRead  jsonline.Count `json:"cacheRead"`
		CacheWrite jsonline.Count `json:"cacheWrite"`
		Cost       struct {
			Total jsonline.Money `json:"total"`
		} `json:"cost"`
	} `json:"usage"`
}

func (r *reader) Read(line agent.Line, emit func(agent.Reading)) {
	b := line.Bytes
	if o := jsonline.Open(b); !o.IsObject() {
		r.release(emit)
		emit(agent.Reading{Kind: agent.KindUnknown, Text: agent.Clip(string(b[:min(len(b), 2048)]))})
		return
	}
	typ := string(jsonline.Str(jsonline.Get(b, "type")))
	if typ == "auto_retry_start" {
		r.held = false // it was not the end
	} else {
		r.release(emit)
	}
	switch typ {
	case "message_update":
		// In 0.73.1 each holds the whole message, so they grow with its square:
		// one word is looked at.
		x := agent.Reading{Kind: agent.KindActivity}
		switch e := jsonline.Str(jsonline.Get(b, "assistantMessageEvent", "type")); string(e) {
		case "thinking_start", "thinking_delta", "thinking_end":
			x.Kind, x.Activity = agent.KindThinking, "thinking"
		case "text_start":
			x.Activity = "writing"
		}
		emit(x)
	case "session":
		var s struct {
			ID string `json:"id"`
		}
		unmarshal(b, &s)
		r.session = s.ID
		emit(agent.Reading{Kind: agent.KindSession, SessionID: s.ID, Version: r.version})
	case "agent_start":
		r.last = verdict{}
		emit(agent.Reading{Kind: agent.KindTurnStarted, Activity: "starting"})
	case "turn_start":
		emit(agent.Reading{Kind: agent.KindActivity, Activity: "waiting for the model"})
	case "message_start":
		r.messageStart(jsonline.Get(b, "message"), emit)
	case "message_end":
		r.message(jsonline.Get(b, "message"), emit)
	case "tool_execution_start", "tool_execution_end":
		r.tool(typ, b, emit)
	case "tool_execution_update":
		r.update(b)
		emit(agent.Reading{Kind: agent.KindActivity})
	case "agent_end":
		r.agentEnd(b, emit)
	case "agent_settled":
		var s struct{ Aborted bool }
		unmarshal(b, &s)
		if s.Aborted && r.last.reason != "error" {
			r.last.reason = "aborted"
		}
		r.settles = false
		r.end(emit)
	case "auto_retry_start":
		var s struct {
			Attempt jsonline.Count `json:"attempt"`
			Delay   jsonline.Count `json:"delayMs"`
			Error   string         `json:"errorMessage"`
		}
		unmarshal(b, &s)
		emit(agent.Reading{
			Kind: agent.KindRetry, Activity: "waiting to repeat a failed request",
			Failure: agent.Fail(0, s.Error), Attempt: int(s.Attempt), After: time.Duration(min(s.Delay, 1e9)) * time.Millisecond,
		})
	case "turn_end", "auto_retry_end", "queue_update", "response", "entry_appended", "bash_execution_update",
		"thinking_level_changed", "model_changed", "session_info_changed", "compaction_end", "auto_compaction_end", "extension_ui_request":
		emit(agent.Reading{Kind: agent.KindActivity})
	case "compaction_start", "auto_compaction_start":
		emit(agent.Reading{Kind: agent.KindActivity, Activity: "compacting the conversation"})
	case "extension_error":
		var s struct {
			Error string `json:"error"`
		}
		unmarshal(b, &s)
		emit(agent.Reading{Kind: agent.KindError, Failure: &agent.Failure{Class: agent.Other, Text: agent.Clip("extension: " + s.Error)}})
	default:
		emit(agent.Reading{Kind: agent.KindUnknown})
	}
}

// End tells the end that was held back.
func (r *reader) End(emit func(agent.Reading)) {
	r.release(emit)
	if r.settles { // cut between agent_end and agent_settled
		r.settles = false
		r.end(emit)
	}
}

func (r *reader) release(emit func(agent.Reading)) {
	if r.held {
		r.held = false
		r.end(emit)
	}
}

func (r *reader) agentEnd(b []byte, emit func(agent.Reading)) {
	retry := jsonline.Get(b, "willRetry")
	switch {
	case string(retry) == "true":
		r.settles = false
	case retry != nil:
		r.settles = true
	case r.last.reason == "error":
		r.held = true
		emit(agent.Reading{Kind: agent.KindActivity})
		return
	default:
		r.end(emit)
		return
	}
	emit(agent.Reading{Kind: agent.KindActivity})
}

func (r *reader) end(emit func(agent.Reading)) {
	v := r.last
	x := agent.Reading{Kind: agent.KindTurnEnded, SessionID: r.session}
	switch {
	case !v.seen:
		x.Failure = &agent.Failure{Class: agent.Other, Text: "the model gave no answer"}
	case v.reason == "aborted":
		x.Failure = &agent.Failure{Class: agent.Cancelled, Text: "interrupted"}
	case v.reason == "error":
		x.Failure = agent.Fail(0, v.err)
	default:
		x.OK, x.Text = true, v.text
	}
	emit(x)
}

// messageStart tells what the request took in, where the API says so before it
// answers (Anthropic's; the others tell zeros here). It is all there will be when
// the stream is cut, and the earliest a budget can know.
func (r *reader) messageStart(b []byte, emit func(agent.Reading)) {
	var m messageOf
	if string(jsonline.Str(jsonline.Get(b, "role"))) == "assistant" && unmarshal(b, &m) && m.Usage != nil && m.Usage.Input+m.Usage.CacheRead+m.Usage.CacheWrite > 0 {
		emit(agent.Reading{Kind: agent.KindUsage, Usage: m.usage()})
		return
	}
	emit(agent.Reading{Kind: agent.KindActivity})
}

// usage is one request's. Its name is the time of the message: it is the same
// at its start and its end, where the id of the response is known only later.
func (m *messageOf) usage() *agent.Usage {
	u, id := m.Usage, m.ResponseID
	if m.Time > 0 {
		id = strconv.FormatInt(int64(m.Time), 10)
	}
	return &agent.Usage{
		ID: id, Model: m.Model, Scope: agent.PerRequest, CostUSD: float64(u.Cost.Total),
		Input: int64(u.Input), Output: int64(u.Output), CacheRead: int64(u.CacheRead), CacheWrite: int64(u.CacheWrite),
	}
}

// message handles what is whole: the deltas before it are not needed.
func (r *reader) message(b []byte, emit func(agent.Reading)) {
	if role := string(jsonline.Str(jsonline.Get(b, "role"))); role != "assistant" {
		emit(agent.Reading{Kind: agent.KindActivity})
		return
	}
	var m messageOf
	if !unmarshal(b, &m) {
		emit(agent.Reading{Kind: agent.KindUnknown})
		return
	}
	if m.Model != "" && m.Model != r.model {
		r.model = m.Model
		emit(agent.Reading{Kind: agent.KindSession, SessionID: r.session, Model: m.Model, Version: r.version})
	}
	var blocks []content
	unmarshal(m.Content, &blocks)
	r.last = verdict{seen: true, reason: m.StopReason, err: m.Error}
	for _, c := range blocks {
		switch c.Type {
		case "text":
			r.last.text += c.Text
			emit(agent.Reading{Kind: agent.KindText, Text: c.Text, Activity: "writing"})
		case "thinking":
			emit(agent.Reading{Kind: agent.KindThinking, Text: c.Thinking, Activity: "thinking"})
		}
	}
	if m.StopReason == "error" {
		emit(agent.Reading{Kind: agent.KindError, Failure: agent.Fail(0, m.Error)})
	}
	if m.Usage != nil {
		emit(agent.Reading{Kind: agent.KindUsage, Usage: m.usage()})
	}
	if len(blocks) == 0 && m.Usage == nil {
		emit(agent.Reading{Kind: agent.KindActivity})
	}
}

func (r *reader) update(b []byte) {
	if r.works == nil || len(r.works) >= maxWorks {
		r.works = make(map[string]bool)
	}
	r.works[string(jsonline.Str(jsonline.Get(b, "toolCallId")))] = true
}

func (r *reader) tool(typ string, b []byte, emit func(agent.Reading)) {
	keys := [...]string{"toolCallId", "toolName", "args", "isError"}
	var v [4][]byte
	jsonline.Find(b, keys[:], v[:])
	t := &agent.Tool{}
	unmarshal(v[0], &t.ID)
	unmarshal(v[1], &t.Name)
	if typ == "tool_execution_end" {
		t.Failed = string(v[3]) == "true"
		t.NotRun = t.Failed && !r.works[t.ID]
		delete(r.works, t.ID)
		emit(agent.Reading{Kind: agent.KindToolFinished, Tool: t})
		return
	}
	arguments(t, v[2])
	emit(agent.Reading{Kind: agent.KindToolStarted, Tool: t, Activity: agent.Doing(t)})
}

// arguments fills in what is known of a tool's input.
func arguments(t *agent.Tool, args []byte) {
	var in struct {
		Command string `json:"command"`
		Path    string `json:"path"`
		File    string `json:"file_path"`
	}
	unmarshal(args, &in)
	if in.Path == "" {
		in.Path = in.File
	}
	switch t.Name {
	case "bash", "powershell":
		t.Command = in.Command
	case "read", "edit", "write", "grep", "find", "ls":
		if in.Path != "" {
			t.Files = []string{in.Path}
		}
		t.Writes = t.Name == "edit" || t.Name == "write"
	}
}

// unmarshal decodes into v and says whether b was JSON. A member of another
// type than expected is left out, the others stand.
func unmarshal(b []byte, v any) bool {
	var odd *json.UnmarshalTypeError
	err := json.Unmarshal(b, v)
	return err == nil || errors.As(err, &odd)
}
