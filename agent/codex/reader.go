package codex

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

// reader turns exec --json into readings. The stream has no deltas and does
// not tell the model.
type reader struct {
	version string
	answer  string          // the last message of the agent in this turn
	open    map[string]bool // items that began and did not end
}

// maxOpen bounds open: a command that yielded to the background never ends.
const maxOpen = 1024

type item struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Text     string `json:"text"`
	Message  string `json:"message"`
	Command  string `json:"command"`
	ExitCode *int   `json:"exit_code"`
	Status   string `json:"status"`
	Server   string `json:"server"`
	Tool     string `json:"tool"`
	Query    string `json:"query"`
	Changes  []struct {
		Path string `json:"path"`
	} `json:"changes"`
}

// words are the members that a line may hold beside its type.
type words struct {
	Thread  string `json:"thread_id"`
	Message string `json:"message"`
	Item    item   `json:"item"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage *struct {
		Input      jsonline.Count `json:"input_tokens"`
		Cached     jsonline.Count `json:"cached_input_tokens"`
		CacheWrite jsonline.Count `json:"cache_write_input_tokens"`
		Output     jsonline.Count `json:"output_tokens"`
	} `json:"usage"`
}

func (r *reader) Read(line agent.Line, emit func(agent.Reading)) {
	b := line.Bytes
	if o := jsonline.Open(b); !o.IsObject() {
		emit(agent.Reading{Kind: agent.KindUnknown, Text: agent.Clip(string(b[:min(len(b), 2048)]))})
		return
	}
	typ := string(jsonline.Str(jsonline.Get(b, "type")))
	switch typ {
	case "thread.started", "turn.started", "turn.completed", "turn.failed", "error", "item.started", "item.updated", "item.completed":
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
	case "thread.started":
		emit(agent.Reading{Kind: agent.KindSession, SessionID: w.Thread, Version: r.version})
	case "turn.started":
		r.answer = ""
		emit(agent.Reading{Kind: agent.KindTurnStarted, Activity: "waiting for the model"})
	case "turn.completed":
		emit(agent.Reading{Kind: agent.KindTurnEnded, OK: true, Text: r.answer, Usage: w.usage()})
	case "turn.failed":
		emit(agent.Reading{Kind: agent.KindTurnEnded, Failure: agent.Fail(0, w.Error.Message), Usage: w.usage()})
	case "error":
		emit(failed(w.Message))
	default:
		r.item(strings.TrimPrefix(typ, "item."), &w.Item, emit)
	}
}

// End does nothing: a turn that was cut has no terminal event.
func (r *reader) End(func(agent.Reading)) {}

// usage is cumulative over the thread, also across resume: a run that added
// 300 input tokens to a thread of 100 reports 400. Cached tokens are counted
// inside input_tokens.
func (w *words) usage() *agent.Usage {
	if w.Usage == nil {
		return nil
	}
	u := &agent.Usage{
		Scope: agent.PerThread,
		Input: int64(w.Usage.Input), Output: int64(w.Usage.Output),
		CacheRead: int64(w.Usage.Cached), CacheWrite: int64(w.Usage.CacheWrite),
	}
	u.Input = max(0, u.Input-u.CacheRead-u.CacheWrite)
	return u
}

// failed reads an error line. It is not terminal: with "Reconnecting... 1/5"
// codex repeats the request by itself, and often succeeds.
func failed(msg string) agent.Reading {
	if m := reconnecting().FindStringSubmatch(msg); m != nil {
		n, _ := strconv.Atoi(m[1])
		return agent.Reading{
			Kind: agent.KindRetry, Activity: "waiting to repeat a failed request",
			Failure: agent.Fail(0, m[2]), Attempt: n,
		}
	}
	return agent.Reading{Kind: agent.KindError, Failure: agent.Fail(0, msg)}
}

var reconnecting = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^Reconnecting\.\.\. (\d{1,4})/\d+ ?\(?(.*?)\)?$`)
})

func (r *reader) item(phase string, it *item, emit func(agent.Reading)) {
	switch it.Type {
	case "agent_message":
		if phase != "completed" {
			emit(agent.Reading{Kind: agent.KindActivity, Activity: "writing"})
			return
		}
		r.answer = it.Text
		emit(agent.Reading{Kind: agent.KindText, Text: it.Text, Activity: "writing"})
	case "reasoning":
		emit(agent.Reading{Kind: agent.KindThinking, Text: it.Text, Activity: "thinking"})
	case "error":
		if harmless(it.Message) {
			emit(agent.Reading{Kind: agent.KindActivity})
			return
		}
		emit(failed(it.Message))
	case "todo_list":
		emit(agent.Reading{Kind: agent.KindActivity, Activity: "planning"})
	case "command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call", "image_view":
		r.tool(phase, it, emit)
	default:
		emit(agent.Reading{Kind: agent.KindUnknown})
	}
}

// harmless items of type error are printed in runs that succeed: for every
// model that the CLI does not know, for every setting that it does not, and two
// for the flag with which the gate's hook is run (gate.go).
func harmless(msg string) bool {
	return strings.HasPrefix(msg, "Model metadata for ") ||
		strings.HasPrefix(msg, "`"+trustFlag+"` is enabled") ||
		strings.HasPrefix(msg, "Codex is ignoring ") && strings.Contains(msg, "configuration setting")
}

func (r *reader) tool(phase string, it *item, emit func(agent.Reading)) {
	t := &agent.Tool{ID: it.ID, Name: it.Type}
	switch it.Type {
	case "command_execution":
		t.Command = it.Command
	case "file_change":
		t.Writes = true
		for _, c := range it.Changes {
			t.Files = append(t.Files, c.Path)
		}
	case "mcp_tool_call":
		t.Name = strings.Trim(it.Server+"."+it.Tool, ".")
	case "collab_tool_call":
		t.Name, t.Spawns = it.Tool, it.Tool == "spawn_agent"
	}
	doing := agent.Doing(t)
	if it.Type == "web_search" {
		doing = "searching the web"
	}
	started := agent.Reading{Kind: agent.KindToolStarted, Tool: t, Activity: doing}
	switch phase {
	case "started":
		if r.open == nil || len(r.open) >= maxOpen {
			r.open = make(map[string]bool)
		}
		r.open[it.ID] = true
		emit(started)
	case "updated":
		emit(agent.Reading{Kind: agent.KindActivity, Activity: doing})
	default:
		// Not every tool is announced (web_search): a call that is only seen
		// when it is over must count all the same.
		if !r.open[it.ID] {
			emit(started)
		}
		delete(r.open, it.ID)
		end := *t
		end.Exit = it.ExitCode
		end.Failed = it.Status == "failed" || it.Status == "declined"
		if it.Status == "declined" {
			emit(agent.Reading{Kind: agent.KindDenied, Tool: &end, Activity: "refused: " + end.Name})
		}
		emit(agent.Reading{Kind: agent.KindToolFinished, Tool: &end})
	}
}
