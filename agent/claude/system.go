package claude

import (
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// system handles the lines in which the CLI speaks of itself.
func (r *reader) system(line []byte, subtype string) {
	var s struct {
		SessionID string `json:"session_id"`
		Model     string `json:"model"`
		Version   string `json:"claude_code_version"`
		Status    string `json:"status"`

		Attempt     jsonline.Count `json:"attempt"`
		RetryDelay  jsonline.Count `json:"retry_delay_ms"`
		ErrorStatus jsonline.Count `json:"error_status"`
		Error       string         `json:"error"`

		ToolName  string `json:"tool_name"`
		ToolUseID string `json:"tool_use_id"`
		Message   string `json:"message"`
		Content   string `json:"content"`

		TaskID       string `json:"task_id"`
		Backgrounded *bool  `json:"is_backgrounded"`
		Patch        struct {
			Status string `json:"status"`
		} `json:"patch"`
		Tasks []struct {
			ID string `json:"task_id"`
		} `json:"tasks"`
	}
	if !unmarshal(line, &s) {
		r.emit(agent.Reading{Kind: agent.KindUnknown})
		return
	}
	switch subtype {
	case "init":
		r.session, r.model, r.version = s.SessionID, s.Model, s.Version
		r.emit(agent.Reading{Kind: agent.KindSession, SessionID: s.SessionID, Model: s.Model, Version: s.Version})
		// It is printed again at the start of every turn: also of the one that
		// 2.1.332 begins by itself when a background task has ended.
		r.failure = nil
		r.emit(agent.Reading{Kind: agent.KindTurnStarted, Activity: "starting"})
	case "status":
		x := agent.Reading{Kind: agent.KindActivity}
		if s.Status == "requesting" {
			x.Activity = "waiting for the model"
		} else if s.Status == "compacting" {
			x.Activity = "compacting the conversation"
		}
		r.emit(x)
	case "thinking_tokens":
		r.emit(agent.Reading{Kind: agent.KindThinking, Activity: "thinking"})
	case "api_retry":
		f := fail(int(s.ErrorStatus), s.Error, "")
		if f.Class == agent.Other && s.ErrorStatus == 0 {
			f.Class = agent.Network // "unknown" without a status: the stream broke
		}
		r.emit(agent.Reading{
			Kind: agent.KindRetry, Activity: "waiting to repeat a failed request", Failure: f,
			Attempt: int(s.Attempt), After: time.Duration(min(s.RetryDelay, 1e9)) * time.Millisecond,
		})
	case "permission_denied":
		r.deny(&agent.Tool{ID: s.ToolUseID, Name: s.ToolName}, s.Message)
	case "background_tasks_changed":
		ids := make([]string, 0, min(len(s.Tasks), maxKept))
		for _, t := range s.Tasks[:min(len(s.Tasks), maxKept)] {
			ids = append(ids, t.ID)
		}
		r.tasks.set(ids)
		r.emit(agent.Reading{Kind: agent.KindTasks, Tasks: r.tasks.open()})
	case "task_started":
		// A sub-agent in the foreground is a task too, and a tool call is open
		// for it.
		if s.Backgrounded == nil || *s.Backgrounded {
			r.tasks.add(s.TaskID)
		}
		r.emit(agent.Reading{Kind: agent.KindTasks, Tasks: r.tasks.open()})
	case "task_updated", "task_notification":
		if over(s.Status) || over(s.Patch.Status) {
			r.tasks.remove(s.TaskID)
		}
		r.emit(agent.Reading{Kind: agent.KindTasks, Tasks: r.tasks.open()})
	case "task_progress", "informational", "compact_boundary", "hook_started", "hook_progress", "hook_response",
		"session_state_changed", "local_command_output", "files_persisted", "elicitation_complete":
		r.emit(agent.Reading{Kind: agent.KindActivity})
	case "model_refusal_no_fallback":
		r.emit(agent.Reading{Kind: agent.KindError, Failure: &agent.Failure{Class: agent.Other, Text: "the model refused"}})
	default:
		r.emit(agent.Reading{Kind: agent.KindUnknown})
	}
}

func over(status string) bool {
	switch status {
	case "completed", "failed", "killed", "stopped", "cancelled":
		return true
	}
	return false
}

func (r *reader) deny(t *agent.Tool, why string) {
	if t.ID != "" {
		if r.denied[t.ID] {
			return
		}
		if r.denied == nil || len(r.denied) >= maxKept {
			r.denied = make(map[string]bool)
		}
		r.denied[t.ID] = true
	}
	r.emit(agent.Reading{Kind: agent.KindDenied, Tool: t, Text: agent.Clip(why), Activity: "refused: " + t.Name})
}

// fail makes a Failure of the CLI's own word for it, the status and the text.
func fail(status int, word, text string) *agent.Failure {
	if text == "" {
		text = word
	}
	f := agent.Fail(status, text)
	if f.Class == agent.Other {
		switch word {
		case "authentication_failed", "oauth_org_not_allowed":
			f.Class = agent.Auth
		case "billing_error":
			f.Class = agent.Billing
		case "rate_limit":
			f.Class = agent.RateLimit
		case "overloaded", "server_error":
			f.Class = agent.Overloaded
		}
	}
	return f
}

// tasks are the background tasks that are open. 2.1.332 keeps the process
// alive for them after the result, without limit.
type tasks struct {
	ids map[string]bool
	// told: background_tasks_changed was seen, which is the whole list every
	// time; task_started (all that 2.1.197 has) would count the same again.
	told bool
}

func (t *tasks) open() int { return len(t.ids) }

func (t *tasks) add(id string) {
	if t.told || len(t.ids) >= maxKept {
		return
	}
	if t.ids == nil {
		t.ids = make(map[string]bool)
	}
	t.ids[id] = true
}

func (t *tasks) remove(id string) {
	if !t.told {
		delete(t.ids, id)
	}
}

func (t *tasks) set(ids []string) {
	t.told = true
	t.ids = make(map[string]bool, len(ids))
	for _, id := range ids {
		t.ids[id] = true
	}
}
