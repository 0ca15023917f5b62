package claude

import (
	"encoding/json"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// result handles the terminal line. One process may print several: the one
// that is printed last stands.
func (r *reader) result(line []byte) {
	var s struct {
		Subtype   string         `json:"subtype"`
		IsError   bool           `json:"is_error"`
		Result    string         `json:"result"`
		Errors    []string       `json:"errors"`
		SessionID string         `json:"session_id"`
		Terminal  string         `json:"terminal_reason"`
		Status    jsonline.Count `json:"api_error_status"`
		Cost      jsonline.Money `json:"total_cost_usd"`
		Usage     *usage         `json:"usage"`
		Models    map[string]struct {
			Input      jsonline.Count `json:"inputTokens"`
			Output     jsonline.Count `json:"outputTokens"`
			CacheRead  jsonline.Count `json:"cacheReadInputTokens"`
			CacheWrite jsonline.Count `json:"cacheCreationInputTokens"`
		} `json:"modelUsage"`
		Denials []struct {
			Name  string          `json:"tool_name"`
			ID    string          `json:"tool_use_id"`
			Input json.RawMessage `json:"tool_input"`
		} `json:"permission_denials"`
	}
	if !unmarshal(line, &s) {
		r.emit(agent.Reading{Kind: agent.KindUnknown})
		return
	}
	if r.session == "" && s.SessionID != "" && !s.IsError {
		r.session = s.SessionID
		r.emit(agent.Reading{Kind: agent.KindSession, SessionID: s.SessionID, Version: r.version})
	}
	// 2.1.197 tells denials only here; 2.1.332 told them when they happened.
	for _, d := range s.Denials[:min(len(s.Denials), maxKept)] {
		r.deny(tool(block{ID: d.ID, Name: d.Name, Input: d.Input}), "")
	}

	// modelUsage and the cost are cumulative over the process, sub-agents and
	// side requests included; usage is of this turn alone.
	total := agent.Usage{Scope: agent.PerProcess, CostUSD: float64(s.Cost)}
	for _, m := range s.Models {
		total.Input += int64(m.Input)
		total.Output += int64(m.Output)
		total.CacheRead += int64(m.CacheRead)
		total.CacheWrite += int64(m.CacheWrite)
	}
	r.emit(agent.Reading{Kind: agent.KindUsage, Usage: &total})

	end := agent.Reading{Kind: agent.KindTurnEnded, OK: !s.IsError && s.Subtype == "success", SessionID: s.SessionID}
	if s.Usage != nil {
		end.Usage = s.Usage.reading("", "", agent.PerTurn)
	}
	if end.OK {
		end.Text = s.Result
		r.emit(end)
		return
	}
	text := s.Result
	if text == "" {
		text = strings.Join(s.Errors, "; ")
	}
	f := agent.Fail(int(s.Status), text)
	switch {
	case s.Subtype == "error_max_turns", s.Subtype == "error_max_budget_usd", s.Terminal == "max_turns", s.Terminal == "budget_exhausted":
		f.Class = agent.Limit
	case strings.HasPrefix(s.Terminal, "aborted"):
		f.Class, f.Text = agent.Cancelled, "interrupted"
	case s.Terminal == "prompt_too_long":
		f.Class = agent.Other
	case f.Class == agent.Other && r.failure != nil:
		f.Class = r.failure.Class // the result does not repeat what kind it was
	}
	if f.Text == "" {
		f.Text = agent.Clip(strings.TrimSpace(s.Subtype + " " + s.Terminal))
	}
	end.Failure = f
	r.emit(end)
}
