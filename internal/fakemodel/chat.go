package fakemodel

import "fmt"

// chat is OpenAI's Chat Completions API.
type chat struct{}

func (chat) name() string { return "chat" }

func (chat) told(a *answer) Usage { return a.openAI() }

func (chat) stop(a *answer) string {
	switch {
	case a.Stop == "max_tokens":
		return "length"
	case a.Stop == "refusal":
		return "content_filter"
	case a.Stop != "":
		return a.Stop
	case len(a.Tools) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (chat) usage(a *answer) object {
	return object{
		"prompt_tokens": a.In, "completion_tokens": a.Out, "total_tokens": a.In + a.Out,
		"prompt_tokens_details":     object{"cached_tokens": a.CacheRead},
		"completion_tokens_details": object{"reasoning_tokens": a.Reasoning},
	}
}

func (chat) head(a *answer, kind string) object {
	return object{"id": fmt.Sprintf("chatcmpl-fake%06d", a.N), "object": kind, "created": 1, "model": a.Model}
}

func (chat) calls(a *answer) (out []object) {
	for i, c := range a.Tools {
		out = append(out, object{
			"index": i, "id": fmt.Sprintf("call_fake%06d_%d", a.N, i), "type": "function",
			"function": object{"name": c.Name, "arguments": c.input()},
		})
	}
	return out
}

func (d chat) whole(a *answer) any {
	m := object{"role": "assistant", "content": a.Text}
	if calls := d.calls(a); calls != nil {
		m["tool_calls"] = calls
	}
	return d.head(a, "chat.completion").with("choices", []object{{"index": 0, "message": m, "finish_reason": d.stop(a)}}, "usage", d.usage(a))
}

func (d chat) frames(a *answer) []frame {
	var frames []frame
	add := func(delta object, finish any) {
		frames = append(frames, frame{data: d.head(a, "chat.completion.chunk").with(
			"choices", []object{{"index": 0, "delta": delta, "finish_reason": finish}}, "usage", nil)})
	}
	add(object{"role": "assistant", "content": ""}, nil)
	content := len(frames)
	if a.Thinking != "" {
		for _, p := range pieces(a.Thinking) {
			add(object{"reasoning_content": p}, nil)
		}
	}
	if a.Text != "" {
		for _, p := range pieces(a.Text) {
			add(object{"content": p}, nil)
		}
	}
	if calls := d.calls(a); calls != nil {
		add(object{"tool_calls": calls}, nil)
	}
	add(object{}, d.stop(a))
	told := d.told(a)
	frames = append(frames,
		frame{data: d.head(a, "chat.completion.chunk").with("choices", []object{}, "usage", d.usage(a)), told: &told},
		frame{raw: "[DONE]"})
	frames[content].mid = true
	return frames
}

func (chat) fail(typ, message string) any { return responses{}.fail(typ, message) }

func (d chat) streamError(message string) frame {
	return frame{data: d.fail("overloaded_error", message)}
}
