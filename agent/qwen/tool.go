package qwen

import (
	"encoding/json"

	"github.com/rein-run/rein/agent"
)

// tool is one call.
func tool(id, name string, input json.RawMessage) *agent.Tool {
	var in struct {
		Command string `json:"command"`
		File    string `json:"file_path"`
		Path    string `json:"path"`
	}
	_ = json.Unmarshal(input, &in) // another tool's input may have another form
	t := &agent.Tool{ID: id, Name: name}
	switch name {
	case "run_shell_command", "monitor":
		t.Command = in.Command
	case "edit", "write_file":
		t.Files, t.Writes = files(in.File), true
	case "read_file":
		t.Files = files(in.File)
	case "list_directory", "glob", "grep_search":
		t.Files = files(in.Path)
	case "agent":
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
