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
		Models    modelUsage     `json:"modelUsage"`
		Since     modelUsage     `json:"model_usage_since_last_result"`
		Denials   []struct {
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
		r.deny(tool(d.ID, d.Name, d.Input), "")
	}

	// What the process used, sub-agents and side requests included; usage is of
	// this turn alone. modelUsage and total_cost_usd are that in 2.1.197; in
	// 2.1.332 they go on over a resumed session, and what is of this process
	// stands in model_usage_since_last_result, result by result.
	total := s.Models.sum()
	total.CostUSD = float64(s.Cost)
	if s.Since != nil {
		const most = 1 << 60 // no number of results makes one negative
		d, p := s.Since.sum(), &r.process
		p.Input = min(p.Input+d.Input, most)
		p.Output = min(p.Output+d.Output, most)
		p.CacheRead = min(p.CacheRead+d.CacheRead, most)
		p.CacheWrite = min(p.CacheWrite+d.CacheWrite, most)
		p.CostUSD += d.CostUSD
		total = *p
	}
	total.Scope = agent.PerProcess
	// Last: the same line tells that the work is done, and a budget that is
	// crossed by it must not be seen first.
	defer r.emit(agent.Reading{Kind: agent.KindUsage, Usage: &total})

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

// modelUsage is what each model used.
type modelUsage map[string]struct {
	Input      jsonline.Count `json:"inputTokens"`
	Output     jsonline.Count `json:"outputTokens"`
	CacheRead  jsonline.Count `json:"cacheReadInputTokens"`
	CacheWrite jsonline.Count `json:"cacheCreationInputTokens"`
	Cost       jsonline.Money `json:"costUSD"`
}

func (m modelUsage) sum() (u agent.Usage) {
	for _, v := range m {
		u.Input += int64(v.Input)
		u.Output += int64(v.Output)
		u.CacheRead += int64(v.CacheRead)
		u.CacheWrite += int64(v.CacheWrite)
		u.CostUSD += float64(v.Cost)
	}
	return u
}
