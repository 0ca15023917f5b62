package codex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// trustFlag runs hooks that no person has reviewed. Without it they are skipped
// in silence.
const trustFlag = "--dangerously-bypass-hook-trust"

// gated says that the version knows the flags: an unknown one ends codex with
// exit code 2.
func gated(version string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d.", &major, &minor); n < 2 {
		return version == "" // the newest that is known
	}
	return major > 0 || minor >= 171
}

// gate are the arguments that make codex exec 0.171.0 ask before every tool
// call.
//
//   - --enable hooks stands over features.hooks=false in $CODEX_HOME, which an
//     agent may have written in an earlier run.
//   - What is typed into a running shell (write_stdin) is not asked about.
//     Without unified_exec_tty a shell has end of file on stdin and ends.
//   - The hook is a setting of the command line: it replaces hooks.PreToolUse in
//     the user's own configuration for this run.
func gate(h *agent.Hook) []string {
	command, err := json.Marshal(h.Shell()) // a JSON string is a TOML basic string
	if err != nil {
		panic("codex: " + err.Error())
	}
	return []string{
		"--enable", "hooks", "--disable", "unified_exec_tty", trustFlag,
		"-c", `hooks.PreToolUse=[{matcher="*",hooks=[{type="command",command=` + string(command) + `,timeout=` + strconv.Itoa(agent.HookTimeout) + `}]}]`,
	}
}

// gateArgs refuses arguments of the user's that would open the gate again.
func gateArgs(args []string) error {
	for i, arg := range args {
		flag, value, given := strings.Cut(arg, "=")
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' { // -cKEY=VALUE
			flag, value = arg[:2], strings.TrimPrefix(arg[2:], "=")
		}
		hint := ""
		switch flag {
		case trustFlag:
			hint = "a run sets it already; leave it out"
		case "--enable", "--disable":
			if slices.Contains(gateFeatures, value) {
				hint = "a run needs its own setting, to ask before a tool runs; leave it out"
			}
		case "-c", "--config":
			key, _, _ := strings.Cut(value, "=")
			key = strings.NewReplacer(`"`, "", "'", "", " ", "").Replace(key)
			if key == "hooks" || strings.HasPrefix(key, "hooks.") || key == "features" || slices.Contains(gateFeatures, strings.TrimPrefix(key, "features.")) {
				flag = key
				hint = "a run needs its own setting, to ask before a tool runs; leave it out"
			}
		}
		if hint != "" {
			return &agent.Error{Agent: "codex", Err: agent.ErrArgument, Value: flag, Hint: hint}
		}
	}
	return nil
}

var gateFeatures = []string{"hooks", "codex_hooks", "unified_exec_tty"}

// Question reads the input of a PreToolUse hook. The shell tool is "Bash"
// there, whatever the model calls it, and cwd is the directory of the command.
func (Agent) Question(b []byte) (agent.Tool, string, error) {
	var q struct {
		Event string          `json:"hook_event_name"`
		Name  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
		ID    string          `json:"tool_use_id"`
		Dir   string          `json:"cwd"`
	}
	if err := json.Unmarshal(b, &q); err != nil {
		return agent.Tool{}, "", err
	}
	if q.Event != "PreToolUse" || q.Name == "" {
		return agent.Tool{}, "", &agent.Error{Agent: "codex", Err: agent.ErrArgument, Value: "hook input", Hint: "it is no PreToolUse question"}
	}
	t := agent.Tool{ID: q.ID, Name: q.Name}
	var in struct {
		Command string `json:"command"`
		Path    string `json:"path"`
	}
	_ = json.Unmarshal(q.Input, &in) // another tool's input may have another form
	t.Command = in.Command
	if in.Path != "" {
		t.Files = []string{in.Path}
	}
	if i := strings.Index(in.Command, patchMark); i >= 0 {
		t.Files, t.Writes = patched(in.Command[i:]), true
	}
	if q.Name == "apply_patch" {
		t.Command = "" // it is a patch
	}
	return t, q.Dir, nil
}

// patchMark begins a patch: the argument of the apply_patch tool, or what a
// command feeds to it, which codex carries out by itself.
const patchMark = "*** Begin Patch"

// patched are the files of a patch.
func patched(patch string) (files []string) {
	for line := range strings.Lines(patch) {
		for _, word := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
			if f, ok := strings.CutPrefix(line, word); ok && len(files) < 1000 {
				files = append(files, strings.TrimSpace(f))
			}
		}
	}
	return files
}

// Answer: exit code 2 and the reason on stderr, which must not be empty.
func (Agent) Answer(allow bool, reason string) driver.Reply {
	if allow {
		return agent.Permit()
	}
	return driver.Refuse(reason)
}

// Ran: commands, changes of files and calls of MCP tools are announced once the
// hook has let them through, and a command that yields never ends in the
// stream. A call that was refused gives no line at all. A search of the web is
// the model provider's own and not asked about; sub-agents are, and so is what
// they do, but that is not in the stream.
func (Agent) Ran(r agent.Reading) bool {
	return r.Kind == agent.KindToolStarted && r.Tool != nil &&
		(r.Tool.Name == "command_execution" || r.Tool.Name == "file_change" || isMCP(r.Tool.Name))
}

// isMCP: the reader calls these "server.tool".
func isMCP(name string) bool { return strings.Contains(name, ".") }

// Same compares the commands: the ids of the stream (item_3) are not those that
// the hook is told. The stream shows the argv, quoted again by rules of its
// own: /bin/bash -lc "touch ok && echo 'done'". Without the quoting the one ends
// with the other.
func (Agent) Same(asked, ran agent.Tool) bool {
	switch {
	case ran.Name == "file_change":
		return asked.Writes
	case isMCP(ran.Name):
		// "mcp__server__tool", where names are made to fit, and tools of codex's
		// own: "list_mcp_resources" runs as "codex.list_mcp_resources".
		return strings.Contains(asked.Name, "mcp")
	}
	return asked.Command != "" && strings.HasSuffix(bare(ran.Command), bare(asked.Command))
}

// bare takes out of a command what quoting may add or change.
func bare(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || strings.ContainsRune("'\"\\$`", r) {
			return -1
		}
		return r
	}, s)
}
