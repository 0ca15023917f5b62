package fakemodel

import "fmt"

// responses is OpenAI's Responses API.
type responses struct{}

func (responses) name() string { return "responses" }

func (responses) told(a *answer) Usage { return a.openAI() }

func (responses) response(a *answer, status string, output []object) object {
	r := object{
		"id": fmt.Sprintf("resp_fake%06d", a.N), "object": "response", "created_at": 1, "model": a.Model, "status": status, "output": output,
		"parallel_tool_calls": true, "tools": []object{}, "error": nil, "incomplete_details": nil, "usage": nil,
	}
	if status == "completed" {
		r["usage"] = object{
			"input_tokens": a.In, "input_tokens_details": object{"cached_tokens": a.CacheRead}, "output_tokens": a.Out,
			"output_tokens_details": object{"reasoning_tokens": a.Reasoning}, "total_tokens": a.In + a.Out,
		}
	}
	return r
}

func (d responses) items(a *answer) (out []object) {
	if a.Thinking != "" {
		out = append(out, object{
			"id": fmt.Sprintf("rs_fake%06d", a.N), "type": "reasoning",
			"summary": []object{{"type": "summary_text", "text": a.Thinking}}, "encrypted_content": nil,
		})
	}
	if a.Text != "" {
		out = append(out, object{
			"id": fmt.Sprintf("msg_fake%06d", a.N), "type": "message", "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": a.Text, "annotations": []object{}}},
		})
	}
	for i, c := range a.Tools {
		id := fmt.Sprintf("fake%06d_%d", a.N, i)
		if c.Custom != "" {
			out = append(out, object{"id": "ctc_" + id, "type": "custom_tool_call", "call_id": "call_" + id, "name": c.Name, "input": c.Custom, "status": "completed"})
			continue
		}
		call := object{"id": "fc_" + id, "type": "function_call", "call_id": "call_" + id, "name": c.Name, "arguments": c.input(), "status": "completed"}
		if c.Namespace != "" {
			call["namespace"] = c.Namespace
		}
		out = append(out, call)
	}
	return out
}

func (d responses) whole(a *answer) any { return d.response(a, "completed", d.items(a)) }

func (d responses) frames(a *answer) []frame {
	frames := []frame{{data: object{"type": "response.created", "response": d.response(a, "in_progress", []object{})}}}
	items := d.items(a)
	add := func(o object) { frames = append(frames, frame{data: o}) }
	for i, item := range items {
		id := item["id"]
		open := object{}
		for k, v := range item {
			open[k] = v
		}
		switch item["type"] {
		case "reasoning":
			open["summary"] = []object{}
		case "message":
			open["content"], open["status"] = []object{}, "in_progress"
		case "function_call":
			open["arguments"], open["status"] = "", "in_progress"
		}
		add(object{"type": "response.output_item.added", "output_index": i, "item": open})
		switch item["type"] {
		case "reasoning":
			at := object{"item_id": id, "output_index": i, "summary_index": 0}
			add(at.with("type", "response.reasoning_summary_part.added", "part", object{"type": "summary_text", "text": ""}))
			for _, p := range pieces(a.Thinking) {
				add(at.with("type", "response.reasoning_summary_text.delta", "delta", p))
			}
			add(at.with("type", "response.reasoning_summary_text.done", "text", a.Thinking))
			add(at.with("type", "response.reasoning_summary_part.done", "part", object{"type": "summary_text", "text": a.Thinking}))
		case "message":
			at := object{"item_id": id, "output_index": i, "content_index": 0}
			add(at.with("type", "response.content_part.added", "part", object{"type": "output_text", "text": "", "annotations": []object{}}))
			for _, p := range pieces(a.Text) {
				add(at.with("type", "response.output_text.delta", "delta", p))
			}
			add(at.with("type", "response.output_text.done", "text", a.Text))
			add(at.with("type", "response.content_part.done", "part", object{"type": "output_text", "text": a.Text, "annotations": []object{}}))
		case "function_call":
			at := object{"item_id": id, "output_index": i}
			add(at.with("type", "response.function_call_arguments.delta", "delta", item["arguments"]))
			add(at.with("type", "response.function_call_arguments.done", "arguments", item["arguments"]))
		}
		add(object{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	told := d.told(a)
	frames = append(frames, frame{data: object{"type": "response.completed", "response": d.response(a, "completed", items)}, told: &told})
	for i := range frames {
		o := frames[i].data.(object)
		o["sequence_number"] = i
		frames[i].event = o["type"].(string)
	}
	return middle(frames, func(f frame) bool { return f.data.(object)["delta"] != nil })
}

// with returns o and more members.
func (o object) with(pairs ...any) object {
	out := object{}
	for k, v := range o {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

func (responses) fail(typ, message string) any {
	return object{"error": object{"type": typ, "code": typ, "message": message, "param": nil}}
}

func (responses) streamError(message string) frame {
	return frame{event: "response.failed", data: object{
		"type": "response.failed", "response": object{"id": "resp_fake", "status": "failed", "error": object{"code": "server_is_overloaded", "message": message}},
	}}
}
