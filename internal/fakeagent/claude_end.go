package fakeagent

import (
	"slices"
	"time"
)

// What claude 2.1.332 writes when something failed, and at the end.

// claudeErrors are the words of api_retry and of a synthetic message.
var claudeErrors = map[int]string{401: "authentication_failed", 429: "rate_limit", 529: "overloaded", 500: "server_error", 400: "invalid_request"}

var claudeTypes = map[int]string{401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 529: "overloaded_error", 500: "api_error", 400: "invalid_request_error"}

func (w *claude) retry(s Step, attempt int) {
	if attempt == 1 {
		w.request()
	}
	// 0.5, 1, 2, 4 … s are announced, whatever is really waited here.
	w.system("api_retry", object{
		"attempt", attempt, "max_retries", 10, "retry_delay_ms", 500 << (attempt - 1), "error_status", s.Status,
		"error", firstOf(claudeErrors[s.Status], "unknown"),
	})
}

func (w *claude) failText(s Step) string {
	switch {
	case s.Text != "":
		return s.Text
	case s.Status == 401:
		return "Invalid API key · Fix external API key"
	case s.Status == 429:
		return "API Error: Request rejected (429) · fake error 429"
	}
	return "API Error: " + firstOf(claudeErrors[s.Status], "unknown")
}

func (w *claude) result(s Step) int {
	failed := s.Error || s.Status != 0 || s.Subtype != ""
	subtype, reason := firstOf(s.Subtype, "success"), "completed"
	text := firstOf(s.Text, w.answer)
	stop := firstOf(w.lastStop, "end_turn")
	if s.Status != 0 {
		text, reason, stop = w.failText(s), "api_error", "stop_sequence"
		w.synthetic(s, text)
	}
	u := claudeResultUsage(w.usage)
	line := object{
		"duration_api_ms", time.Since(w.started).Milliseconds(), "stop_reason", stop, "session_id", w.id,
		"total_cost_usd", claudeCost(w.used), "usage", u, "modelUsage", w.modelUsage(w.used),
		"permission_denials", append([]object{}, w.denials...), "terminal_reason", reason, "fast_mode_state", "off",
		"safety_stops", 0, "is_error", failed, "num_turns", max(w.turns, 1), "subtype", subtype,
	}
	switch {
	case s.Status != 0:
		line = append(line, "api_error_status", s.Status, "api_error_type", firstOf(claudeTypes[s.Status], "api_error"), "result", text)
	case s.Subtype != "" && s.Subtype != "success": // these have no result, but errors
		line = append(line, "errors", []string{firstOf(s.Text, s.Subtype)})
	default:
		line = append(line, "api_error_status", nil, "result", text)
	}
	line = append(line, "ttft_ms", 20, "type", "result", "duration_ms", time.Since(w.started).Milliseconds(), "uuid", newUUID(),
		"begun_message_ids", append([]string{}, w.begunIDs...), "queued_turn_count", 0, "result_index", w.results)
	if w.results > 0 {
		line = append(line, "origin", object{"kind", "task-notification"})
	}
	w.out.line(append(line, "model_usage_since_last_result", w.modelUsage(w.usage)))
	w.results++
	w.usage, w.turns, w.begunIDs = Usage{}, 0, nil
	if failed {
		return 1
	}
	return 0
}

// synthetic is the assistant line that stands for a failed request.
func (w *claude) synthetic(s Step, text string) {
	u := claudeResultUsage(Usage{})
	w.out.line(object{
		"type", "assistant", "message",
		object{
			"diagnostics", nil, "id", newUUID(), "container", nil, "model", "<synthetic>", "role", "assistant",
			"stop_details", nil, "stop_reason", "stop_sequence", "stop_sequence", "", "type", "message", "usage", u,
			"content",
			[]object{{"type", "text", "text", text}},
			"context_management", nil,
		},
		"parent_tool_use_id", nil, "session_id", w.id, "uuid", newUUID(), "timestamp", timestamp(),
		"error", firstOf(claudeErrors[s.Status], "unknown"), "request_id", "req_fake", "is_api_error_message", true,
		"api_error_status", s.Status, "api_error_type", firstOf(claudeTypes[s.Status], "api_error"),
	})
}

func claudeResultUsage(u Usage) object {
	return object{
		"input_tokens", u.In, "cache_creation_input_tokens", u.CacheWrite, "cache_read_input_tokens", u.CacheRead,
		"output_tokens", u.Out, "output_tokens_details",
		object{"thinking_tokens", 0},
		"server_tool_use",
		object{"web_search_requests", 0, "web_fetch_requests", 0},
		"service_tier", "standard",
		"cache_creation",
		object{"ephemeral_1h_input_tokens", 0, "ephemeral_5m_input_tokens", 0},
		"inference_geo", "", "iterations",
		[]int{},
		"speed", "standard", "fallback_credit", nil,
	}
}

func (w *claude) modelUsage(u Usage) object {
	if u == (Usage{}) {
		return object{}
	}
	return object{w.model(), object{
		"inputTokens", u.In, "outputTokens", u.Out, "cacheReadInputTokens", u.CacheRead, "cacheCreationInputTokens", u.CacheWrite,
		"webSearchRequests", 0, "costUSD", claudeCost(u), "contextWindow", 1000000, "maxOutputTokens", 128000, "thinkingTokens", 0,
		"canonicalModel", w.model(), "provider", "firstParty", "costBasis", "list",
	}}
}

// claudeCost follows the price list that the recorded numbers follow, in
// dollars a million: 4 in, 20 out, 0.2 cache read, 5 cache write.
func claudeCost(u Usage) float64 {
	return float64(40*u.In+200*u.Out+2*u.CacheRead+50*u.CacheWrite) / 1e7
}

func (w *claude) interrupted() int {
	text := "[Request interrupted by user]"
	w.out.line(object{
		"type", "user", "message",
		object{"role", "user", "content", []object{{"type", "text", "text", text}}},
		"parent_tool_use_id", nil, "session_id", w.id, "uuid", newUUID(), "timestamp", timestamp(),
	})
	w.result(Step{Subtype: "error_during_execution", Text: text})
	return 0
}

// filler is an assistant line of the size: with usage a whole message, without
// a text delta.
func (w *claude) filler(size int, usage *Usage, n int) []byte {
	mark := []byte("@pad@")
	var line []byte
	if usage != nil {
		id := serial("msg_fill", n)
		line = marshal(object{
			"type", "assistant", "message",
			object{
				"content",
				[]object{{"text", string(mark), "type", "text"}},
				"id", id, "model", w.model(), "role", "assistant",
				"stop_reason", nil, "stop_sequence", nil, "type", "message", "usage", claudeUsage(*usage, usage.Out),
			},
			"parent_tool_use_id", nil, "session_id", w.id, "uuid", newUUID(), "request_id", serial("req_fill", n),
		})
	} else {
		line = marshal(object{
			"type", "stream_event", "event",
			object{
				"delta", object{"text", string(mark), "type", "text_delta"}, "index", 0, "type", "content_block_delta",
			},
			"session_id", w.id, "parent_tool_use_id", nil, "uuid", newUUID(), "api_message_id", serial("msg_fill", n),
		})
	}
	return padTo(slices.Concat(line, []byte("\n")), mark, size)
}
