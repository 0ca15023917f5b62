package gemini

import (
	"encoding/json"

	"github.com/rein-run/rein/agent"
)

// arguments fills in what a tool is given. It returns the directory of a
// command, when the call names one: relative to that of the run.
func arguments(t *agent.Tool, input json.RawMessage) (dir string) {
	var in struct {
		Command string   `json:"command"`
		File    string   `json:"file_path"`
		Dir     string   `json:"dir_path"`
		Include []string `json:"include"`
	}
	_ = json.Unmarshal(input, &in) // another tool's input may have another form
	switch t.Name {
	case "run_shell_command":
		t.Command, dir = in.Command, in.Dir
	case "write_file", "replace":
		t.Writes = true
	case "invoke_agent":
		t.Spawns = true
	}
	if in.File != "" {
		t.Files = []string{in.File}
	} else if t.Name == "read_many_files" {
		t.Files = in.Include
	}
	return dir
}
