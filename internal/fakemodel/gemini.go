package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// gemini is Google's Generative Language API: generateContent, and
// streamGenerateContent as server-sent events.
type gemini struct{}

func (gemini) name() string { return "gemini" }

// asked takes the model and the form of the answer from the path, where this
// API has them: /v1beta/models/MODEL:METHOD.
func (gemini) asked(r *http.Request) (model string, stream, ok bool) {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	return model, method == "streamGenerateContent", method == "streamGenerateContent" || method == "generateContent"
}

// told: the cache is inside the input, and thoughts beside the output.
func (gemini) told(a *answer) Usage {
	return Usage{Input: a.In - a.CacheRead, Output: a.Out + a.Reasoning, CacheRead: a.CacheRead}
}

func (gemini) stop(a *answer) string {
	switch a.Stop {
	case "":
		return "STOP"
	case "max_tokens":
		return "MAX_TOKENS"
	case "refusal":
		return "SAFETY"
	}
	return a.Stop
}

func (gemini) usage(a *answer) object {
	return object{
		"promptTokenCount": a.In, "candidatesTokenCount": a.Out, "totalTokenCount": a.In + a.Out + a.Reasoning,
		"cachedContentTokenCount": a.CacheRead, "thoughtsTokenCount": a.Reasoning,
	}
}

// chunk is an answer, or a piece of one. Tokens and the reason to stop come
// with the last.
func (d gemini) chunk(a *answer, last bool, parts ...object) object {
	c := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	o := object{"candidates": []object{c}, "modelVersion": a.Model, "responseId": fmt.Sprintf("fake%06d", a.N)}
	if last {
		c["finishReason"] = d.stop(a)
		o["usageMetadata"] = d.usage(a)
	}
	return o
}

func (gemini) calls(a *answer) (parts []object) {
	for i, c := range a.Tools {
		parts = append(parts, object{"functionCall": object{
			"id": fmt.Sprintf("fake%06d_%d", a.N, i), "name": c.Name, "args": json.RawMessage(c.input()),
		}})
	}
	return parts
}

func (d gemini) whole(a *answer) any {
	var parts []object
	if a.Thinking != "" {
		parts = append(parts, object{"text": a.Thinking, "thought": true})
	}
	if a.Text != "" {
		parts = append(parts, object{"text": a.Text})
	}
	return d.chunk(a, true, append(parts, d.calls(a)...)...)
}

func (d gemini) frames(a *answer) (frames []frame) {
	add := func(parts ...object) { frames = append(frames, frame{data: d.chunk(a, false, parts...)}) }
	if a.Thinking != "" {
		for _, p := range pieces(a.Thinking) {
			add(object{"text": p, "thought": true})
		}
	}
	if a.Text != "" {
		for _, p := range pieces(a.Text) {
			add(object{"text": p})
		}
	}
	if calls := d.calls(a); calls != nil {
		add(calls...)
	}
	told := d.told(a)
	frames = append(frames, frame{data: d.chunk(a, true, object{"text": ""}), told: &told})
	frames[0].mid = true
	return frames
}

var geminiStatus = map[string]string{
	"invalid_request_error": "INVALID_ARGUMENT", "authentication_error": "UNAUTHENTICATED", "permission_error": "PERMISSION_DENIED",
	"not_found_error": "NOT_FOUND", "rate_limit_error": "RESOURCE_EXHAUSTED", "overloaded_error": "UNAVAILABLE", "api_error": "INTERNAL",
}

var geminiCode = map[string]int{
	"INVALID_ARGUMENT": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503, "INTERNAL": 500,
}

func (gemini) fail(typ, message string) any {
	status := typ
	if s := geminiStatus[typ]; s != "" {
		status = s
	}
	return object{"error": object{"code": geminiCode[status], "message": message, "status": status}}
}

func (d gemini) streamError(message string) frame {
	return frame{data: d.fail("overloaded_error", message)}
}
