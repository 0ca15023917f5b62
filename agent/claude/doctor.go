package claude

import (
	"bytes"
	"encoding/json"

	"github.com/rein-run/rein/agent"
)

// HelpArgs: one page has all flags.
func (Agent) HelpArgs(string) [][]string { return [][]string{{"--help"}} }

// Flags that Command uses. Not --append-system-prompt-file, which no help names.
func (Agent) Flags(string) []string {
	return []string{
		"--print", "--output-format", "--verbose", "--include-partial-messages", "--permission-mode", "--disallowedTools",
		"--append-system-prompt", "--model", "--effort", "--continue", "--resume", "--settings",
		"--tools", "--setting-sources", "--strict-mcp-config", "--disable-slash-commands", "--json-schema",
	}
}

// LoginArgs print JSON; the exit code is 1 when nobody is logged in.
func (Agent) LoginArgs(string) []string { return []string{"auth", "status", "--json"} }

// ParseLogin reads it. The account's name and address are in it where somebody
// is logged in: they stay there.
func (Agent) ParseLogin(_ int, output []byte) agent.Login {
	var s struct {
		LoggedIn *bool  `json:"loggedIn"`
		Method   string `json:"authMethod"`
		Source   string `json:"apiKeySource"`
		Provider string `json:"apiProvider"`
	}
	i, j := bytes.IndexByte(output, '{'), bytes.LastIndexByte(output, '}')
	if i < 0 || j < i || json.Unmarshal(output[i:j+1], &s) != nil || s.LoggedIn == nil {
		return agent.Login{State: agent.LoginUnknown}
	}
	if !*s.LoggedIn {
		return agent.Login{State: agent.LoggedOut, Detail: "claude auth login"}
	}
	l := agent.Login{State: agent.LoggedIn}
	switch s.Method {
	case "claude.ai", "oauth_token":
		l.Pays, l.Detail = "subscription", s.Method
	case "api_key", "api_key_helper":
		l.Pays, l.Detail = "key", "API key"
	}
	return l
}

var _ agent.Doctor = Agent{}
