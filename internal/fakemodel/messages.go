package fakemodel

import (
	"encoding/json"
	"fmt"
)

// messages is Anthropic's Messages API.
type messages struct{}

func (messages) name() string { return "messages" }

func (messages) told(a *answer) Usage {
	return Usage{Input: a.In, Output: a.Out, CacheRead: a.CacheRead, CacheWrite: a.CacheWrite}
}

func (messages) id(a *answer) string { return fmt.Sprintf("msg_fake%06d", a.N) }

func (messages) usage(a *answer, out int64) object {
	return object{
		"input_tokens": a.In, "output_tokens": out, "cache_read_input_tokens": a.CacheRead,
		"cache_creation_input_tokens": a.CacheWrite, "service_tier": "standard",
	}
}

func (messages) stop(a *answer) string {
	switch {
	case a.Stop != "":
		return a.Stop
	case len(a.Tools) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (d messages) message(a *answer, content []object, stop any, out int64) object {
	return object{
		"id": d.id(a), "type": "message", "role": "assistant", "model": a.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": d.usage(a, out),
	}
}

func (d messages) blocks(a *answer) (out []object) {
	if a.Thinking != "" {
		out = append(out, object{"type": "thinking", "thinking": a.Thinking, "signature": "ZmFrZQ=="})
	}
	if a.Text != "" || len(a.Tools) == 0 {
		out = append(out, object{"type": "text", "text": a.Text})
	}
	for i, c := range a.Tools {
		out = append(out, object{"type": "tool_use", "id": fmt.Sprintf("toolu_fake%06d_%d", a.N, i), "name": c.Name, "input": json.RawMessage(c.input())})
	}
	return out
}

func (d messages) whole(a *answer) any { return d.message(a, d.blocks(a), d.stop(a), a.Out) }

func (d messages) frames(a *answer) []frame {
	// The start tells the input and a placeholder for the output, as the API does.
	start, end := d.told(a), d.told(a)
	start.Output = min(1, a.Out)
	frames := []frame{{data: object{"type": "message_start", "message": d.message(a, []object{}, nil, start.Output)}, told: &start}}
	for i, b := range d.blocks(a) {
		empty := object{"type": b["type"]}
		var deltas []object
		switch b["type"] {
		case "thinking":
			empty["thinking"], empty["signature"] = "", ""
			for _, p := range pieces(a.Thinking) {
				deltas = append(deltas, object{"type": "thinking_delta", "thinking": p})
			}
			deltas = append(deltas, object{"type": "signature_delta", "signature": "ZmFrZQ=="})
		case "text":
			empty["text"] = ""
			if a.Text != "" {
				for _, p := range pieces(a.Text) {
					deltas = append(deltas, object{"type": "text_delta", "text": p})
				}
			}
		case "tool_use":
			empty["id"], empty["name"], empty["input"] = b["id"], b["name"], object{}
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": string(b["input"].(json.RawMessage))})
		}
		frames = append(frames, frame{data: object{"type": "content_block_start", "index": i, "content_block": empty}})
		for _, delta := range deltas {
			frames = append(frames, frame{data: object{"type": "content_block_delta", "index": i, "delta": delta}})
		}
		frames = append(frames, frame{data: object{"type": "content_block_stop", "index": i}})
	}
	frames = append(frames,
		frame{data: object{"type": "message_delta", "delta": object{"stop_reason": d.stop(a), "stop_sequence": nil}, "usage": d.usage(a, a.Out)}, told: &end},
		frame{data: object{"type": "message_stop"}})
	for i := range frames {
		frames[i].event = frames[i].data.(object)["type"].(string)
	}
	return middle(frames, func(f frame) bool { return f.event == "content_block_delta" })
}

func (messages) fail(typ, message string) any {
	return object{"type": "error", "error": object{"type": typ, "message": message}, "request_id": "req_fake"}
}

func (d messages) streamError(message string) frame {
	return frame{event: "error", data: d.fail("overloaded_error", message)}
}
