package gemini

import (
	"fmt"
	"strings"

	"github.com/rein-run/rein/agent"
)

// policyFile holds rules for the CLI's own policy engine. It is given as an
// administrator's: --policy would take the place of the user's own rules, and
// stands below nothing that a repository brings.
const policyFile = "rein-policy.toml"

// policy are the rules of one run, "" for none.
//
// Plan mode alone does not hold: without a terminal the model may leave it by
// exit_plan_mode, and its next command runs (0.61.0, seen); rules of the user or
// of the repository stand above it, too.
func policy(inv agent.Invocation) string {
	var b strings.Builder
	rule := func(priority int, format string, args ...any) {
		fmt.Fprintf(&b, "[[rule]]\n"+format+"\npriority = %d\n\n", append(args, priority)...)
	}
	if inv.Mode == agent.ReadOnly {
		rule(1, `toolName = "*"`+"\n"+`decision = "deny"`+"\n"+`denyMessage = "This run is read-only."`)
		rule(2, `toolName = ["read_file", "read_many_files", "list_directory", "glob", "grep_search", "google_web_search", "write_todos", "update_topic"]`+"\n"+`decision = "allow"`)
	}
	if inv.Withhold.Web {
		rule(900, `toolName = ["google_web_search", "web_fetch"]`+"\n"+`decision = "deny"`)
	}
	for _, c := range inv.Withhold.Commands {
		rule(900, `toolName = "run_shell_command"`+"\n"+`commandPrefix = %s`+"\n"+`decision = "deny"`, quote(c))
	}
	return b.String()
}

// quote makes a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
