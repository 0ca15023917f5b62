package pi

import (
	"bytes"

	"github.com/rein-run/rein/agent"
)

// HelpArgs: one page has all flags.
func (Agent) HelpArgs(string) [][]string { return [][]string{{"--help"}} }

// Flags that Command uses.
func (Agent) Flags(version string) []string {
	flags := []string{
		"--mode", "--print", "--tools", "--model", "--thinking", "--continue", "--session", "--system-prompt", "--append-system-prompt", "--extension",
		"--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes", "--no-context-files",
	}
	if modern(version) {
		flags = append(flags, "--no-mcp", "--no-approve")
	}
	return flags
}

// LoginArgs list the models that somebody is logged in for. "auth check" of
// 1.6.0 wants to know for which provider.
func (Agent) LoginArgs(version string) []string {
	if modern(version) {
		return []string{"--offline", "--list-models"}
	}
	return []string{"--list-models"}
}

// ParseLogin reads the list. Keys and logins are not told apart in it.
func (Agent) ParseLogin(code int, output []byte) agent.Login {
	switch {
	case bytes.Contains(output, []byte("No models available")):
		return agent.Login{State: agent.LoggedOut, Detail: "/login in pi, or a key in the environment"}
	case code == 0 && bytes.Contains(output, []byte("provider")) && bytes.Contains(output, []byte("model")):
		return agent.Login{State: agent.LoggedIn}
	}
	return agent.Login{State: agent.LoginUnknown}
}

var _ agent.Doctor = Agent{}
