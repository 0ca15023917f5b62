package codex

import (
	"bytes"

	"github.com/rein-run/rein/agent"
)

// HelpArgs: exec has a help of its own.
func (Agent) HelpArgs(string) [][]string {
	return [][]string{{"exec", "--help"}, {"exec", "resume", "--help"}}
}

// Flags that Command uses.
func (Agent) Flags(version string) []string {
	flags := []string{
		"--json", "--cd", "--skip-git-repo-check", "--sandbox", "--dangerously-bypass-approvals-and-sandbox", "--config", "--model", "--last",
		"--output-schema", "--ignore-user-config", "--ignore-rules",
	}
	if gated(version) {
		flags = append(flags, "--enable", "--disable", trustFlag)
	}
	return flags
}

// LoginArgs say what is in $CODEX_HOME; variables are not looked at.
func (Agent) LoginArgs(string) []string { return []string{"login", "status"} }

// ParseLogin reads that. The line of a key has a part of the key in it, which
// stays there.
func (Agent) ParseLogin(code int, output []byte) agent.Login {
	switch {
	case bytes.Contains(output, []byte("Not logged in")):
		return agent.Login{State: agent.LoggedOut, Detail: "codex login"}
	case code != 0:
	case bytes.Contains(output, []byte("ChatGPT")):
		return agent.Login{State: agent.LoggedIn, Pays: "subscription", Detail: "ChatGPT"}
	case bytes.Contains(output, []byte("API key")):
		return agent.Login{State: agent.LoggedIn, Pays: "key", Detail: "API key"}
	}
	return agent.Login{State: agent.LoginUnknown}
}

var _ agent.Doctor = Agent{}
