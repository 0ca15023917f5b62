package qwen

import (
	"bytes"
	"regexp"
	"sync"

	"github.com/rein-run/rein/agent"
)

// HelpArgs: all flags stand in one help.
func (Agent) HelpArgs(string) [][]string { return [][]string{{"--help"}} }

// Flags are those that Command may use.
func (Agent) Flags(string) []string {
	return []string{
		"--output-format", "--include-partial-messages", "--approval-mode", "--model", "--continue", "--resume", "--json-schema",
		"--append-system-prompt", "--exclude-tools", "--core-tools", "--allowed-mcp-server-names",
	}
}

// LoginArgs print what is configured.
func (Agent) LoginArgs(string) []string { return []string{"auth", "status"} }

// ParseLogin reads the English words. They know nothing of the environment: a
// key in it works, and "No authentication method configured" is printed.
func (Agent) ParseLogin(_ int, output []byte) agent.Login {
	m := method().FindSubmatch(output)
	switch {
	case m == nil && bytes.Contains(output, []byte("No authentication method configured")):
		return agent.Login{State: agent.LoginUnknown, Detail: "none is configured; a key in the environment may do"}
	case m == nil:
		return agent.Login{State: agent.LoginUnknown}
	case bytes.Contains(m[1], []byte("(Incomplete)")):
		return agent.Login{State: agent.LoggedOut, Detail: agent.Clip(string(m[1]))}
	}
	l := agent.Login{State: agent.LoggedIn, Detail: agent.Clip(string(m[1]))}
	if bytes.Contains(output, []byte("Status: API key configured")) {
		l.Pays = "key"
	}
	return l
}

var method = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Authentication Method: ([^\r\n]{1,200})`) })
