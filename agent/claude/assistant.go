package claude

import (
	"iter"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

const synthetic = "<synthetic>"

// assistant handles a whole message of the model. Its text may be long, so each
// string is passed over, and decoded at most once.
func (r *reader) assistant(line []byte, h head) {
	if m := jsonline.Open(h.message); !m.IsObject() {
		r.emit(agent.Reading{Kind: agent.KindUnknown})
		return
	}
	var v [4][]byte
	jsonline.Find(h.message, []string{"id", "model", "usage", "content"}, v[:])
	id, model, tokens, content := jsonline.Text(v[0]), jsonline.Text(v[1]), v[2], v[3]
	parent := str(h.parent)
	if model == synthetic {
		r.synthetic(line, content, parent)
		return
	}
	r.usedModel(model, parent)
	for b := range blocks(content) {
		x := agent.Reading{SubAgent: parent}
		switch string(jsonline.Str(b.typ)) {
		case "text":
			x.Kind, x.Text, x.Activity = agent.KindText, jsonline.Text(b.text), "writing"
		case "thinking", "redacted_thinking":
			x.Kind, x.Text, x.Activity = agent.KindThinking, jsonline.Text(b.thinking), "thinking"
		case "tool_use", "server_tool_use", "mcp_tool_use":
			x.Kind, x.Tool = agent.KindToolStarted, tool(jsonline.Text(b.id), jsonline.Text(b.name), b.input)
			x.Activity = agent.Doing(x.Tool)
		default:
			continue
		}
		r.emit(x)
	}
	// Without a stream of its own (no partial messages; the silent fall-back of
	// 2.1.197) the line is all there is. Where there was one, it repeats the
	// placeholder, and the meter keeps the fuller.
	if cur := r.messages[parent]; cur != nil && cur.id == id {
		return
	}
	var u usage
	if unmarshal(tokens, &u); u != (usage{}) {
		r.emit(agent.Reading{Kind: agent.KindUsage, Usage: u.reading(id, model, agent.PerRequest), SubAgent: parent})
	}
}

// synthetic handles the CLI's own words about a failed request.
func (r *reader) synthetic(line, content []byte, parent string) {
	var e struct {
		Error  string         `json:"error"`
		Status jsonline.Count `json:"api_error_status"`
	}
	unmarshal(line, &e)
	text := ""
	for b := range blocks(content) {
		text += jsonline.Text(b.text)
	}
	if e.Error == "" && e.Status == 0 {
		return // "No response requested." and the like
	}
	f := fail(int(e.Status), e.Error, text)
	if parent == "" {
		r.failure = f
	}
	r.emit(agent.Reading{Kind: agent.KindError, Failure: f, SubAgent: parent})
}

// block is one part of a message, its values raw.
type block struct{ typ, text, thinking, id, name, input []byte }

// blocks walks over the content of a message.
func blocks(content []byte) iter.Seq[block] {
	return func(yield func(block) bool) {
		list := jsonline.Open(content)
		if list.IsObject() {
			return
		}
		for {
			_, v, ok := list.Next()
			if !ok {
				return
			}
			var m [6][]byte
			jsonline.Find(v, []string{"type", "text", "thinking", "id", "name", "input"}, m[:])
			if !yield(block{m[0], m[1], m[2], m[3], m[4], m[5]}) {
				return
			}
		}
	}
}

func tool(id, name string, input []byte) *agent.Tool {
	var in struct {
		Command  string `json:"command"`
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
		Path     string `json:"path"`
	}
	unmarshal(input, &in)
	t := &agent.Tool{ID: id, Name: name}
	switch name {
	case "Bash", "PowerShell", "Monitor":
		t.Command = in.Command
	case "Edit", "MultiEdit", "Write":
		t.Files, t.Writes = files(in.File), true
	case "NotebookEdit":
		t.Files, t.Writes = files(in.Notebook), true
	case "Read":
		t.Files = files(in.File)
	case "NotebookRead":
		t.Files = files(in.Notebook)
	case "Grep", "Glob", "LS":
		t.Files = files(in.Path)
	case "Task", "Agent":
		t.Spawns = true
	}
	return t
}

func files(f string) []string {
	if f == "" {
		return nil
	}
	return []string{f}
}
