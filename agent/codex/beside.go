package codex

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
)

// beside makes a developer message of what the agent is told beside the prompt:
// the rules and the limits in one setting, because there is one.
func (a Agent) beside(inv agent.Invocation, c agent.Capabilities, cmd *agent.Command) (agent.Invocation, error) {
	taken := slices.ContainsFunc(inv.Args, func(arg string) bool { return strings.Contains(arg, "developer_instructions") })
	system := inv.RuleChannel(c) == agent.RulesBySystem
	fail := func(value, hint string) error {
		return &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: value, Hint: hint}
	}
	if taken && system {
		return inv, fail("developer_instructions", "the rules of the run go there: leave it out, or give the rules by "+string(agent.RulesByPrompt))
	}
	limits := inv.Limits
	inv, text := inv.Beside(c)
	switch {
	case text == "":
	case taken:
		inv.Limits = limits
		inv = inv.LimitsBehindPrompt()
	default:
		arg := "developer_instructions=" + toml(text)
		if system && len(arg) >= agent.MaxArg {
			return inv, fail("rules", "they are longer than an argument can be, and this CLI takes them as one: give them by "+string(agent.RulesByPrompt))
		}
		cmd.Argv = append(cmd.Argv, "-c", arg)
	}
	return inv, nil
}

// toml is s as a TOML basic string. A JSON string is one, but for DEL, which
// TOML wants escaped; Go's own quoting has escapes that TOML does not know, and
// codex takes a value that is no TOML as it stands, quotes and all.
func toml(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string cannot fail
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

// SchemaFile is the base name of the file that a schema is given in.
const SchemaFile = "schema.json"

// observed are the settings of an observer: no document, no tool, no server and
// no other agent but what looks at files in the sandbox. The login is in
// $CODEX_HOME and stays, and so does AGENTS.md there, for which 0.171.0 has no
// switch: of an observer, it is what the user may still say to it.
var observed = []string{
	"--ignore-user-config", "--ignore-rules",
	"-c", `approval_policy="never"`, "-c", "project_doc_max_bytes=0", "-c", "mcp_servers={}",
	"-c", "features.shell_tool=false", "-c", "features.apps=false", "-c", "features.skills=false", "-c", "features.multi_agent=false",
}

func (a Agent) observe(inv agent.Invocation, f agent.Facts, cmd *agent.Command) error {
	if inv.Schema != nil {
		if inv.FilesDir == "" {
			return &agent.Error{Agent: a.Name(), Err: agent.ErrUnsupported, Value: "schema", Hint: "it needs a directory for its file where the agent runs"}
		}
		if inv.Takes("--output-schema") {
			return &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: "--output-schema", Hint: "use the schema of the run"}
		}
		cmd.Files = append(cmd.Files, agent.File{Name: SchemaFile, Data: inv.Schema})
		cmd.Argv = append(cmd.Argv, "--output-schema", agent.Join(f.OS, inv.FilesDir, SchemaFile))
	}
	if !inv.Observer {
		return nil
	}
	for i, arg := range inv.Args {
		flag, value, given := strings.Cut(arg, "=")
		if !given && i+1 < len(inv.Args) {
			value = inv.Args[i+1]
		}
		if len(arg) > 2 && arg[:2] == "-c" { // -cKEY=VALUE
			flag, value = "-c", strings.TrimPrefix(arg[2:], "=")
		}
		opens := slices.Contains([]string{"--enable", "-p", "--profile", "--add-dir", "--trust", "-i", "--image"}, flag)
		for _, key := range []string{"features", "mcp_servers", "project_doc", "sandbox", "approval_policy", "web_search", "tools"} {
			opens = opens || (flag == "-c" || flag == "--config") && strings.HasPrefix(strings.TrimLeft(value, ` "'`), key)
		}
		if opens {
			return &agent.Error{Agent: a.Name(), Err: agent.ErrArgument, Value: flag, Hint: "an observer has its own settings; leave it out, or run without that profile"}
		}
	}
	cmd.Argv = append(cmd.Argv, observed...)
	return nil
}
