package grok

import (
	"bytes"

	"github.com/rein-run/rein/agent"
)

// HelpArgs print the help, in which all flags stand.
func (Agent) HelpArgs(string) [][]string { return [][]string{{"--help"}} }

// Flags are those that Command may use and the help has: --no-auto-update works
// and is not in it (1.0.41).
func (Agent) Flags(string) []string {
	return []string{
		"--output-format", "--permission-mode", "--tools", "--deny", "--disable-web-search", "--session-id", "--continue",
		"--resume", "--model", "--reasoning-effort", "--rules", "--agent", "--verbatim", "--prompt-file",
	}
}

// LoginArgs list the models, under a line that says who is logged in. Offline
// it takes 5 s.
func (Agent) LoginArgs(string) []string { return []string{"models"} }

// ParseLogin reads that line.
func (Agent) ParseLogin(_ int, output []byte) agent.Login {
	switch {
	case bytes.Contains(output, []byte("You are not authenticated")):
		return agent.Login{State: agent.LoggedOut, Detail: "not logged in"}
	case bytes.Contains(output, []byte("You are using XAI_API_KEY")):
		return agent.Login{State: agent.LoggedIn, Pays: "key", Detail: "XAI_API_KEY"}
	case bytes.Contains(output, []byte("You are logged in with ")):
		return agent.Login{State: agent.LoggedIn, Detail: "logged in"}
	}
	return agent.Login{State: agent.LoginUnknown}
}
