package gemini

import "github.com/rein-run/rein/agent"

// HelpArgs: all flags stand in one help.
func (Agent) HelpArgs(string) [][]string { return [][]string{{"--help"}} }

// Flags are those that Command may use.
func (Agent) Flags(string) []string {
	return []string{"--output-format", "--approval-mode", "--skip-trust", "--model", "--resume", "--admin-policy"}
}

// LoginArgs: the CLI has nothing that tells.
func (Agent) LoginArgs(string) []string { return nil }

// ParseLogin knows nothing.
func (Agent) ParseLogin(int, []byte) agent.Login { return agent.Login{State: agent.LoginUnknown} }
