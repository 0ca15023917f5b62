package claude

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

func TestRulesAndLimitsAreOneFlag(t *testing.T) {
	cmd, err := Agent{}.Command(agent.Invocation{Prompt: "x", Rules: "Be brief.", Limits: "## Limits"}, agent.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.Index(cmd.Argv, "--append-system-prompt")
	if i < 0 || cmd.Argv[i+1] != "Be brief.\n\n## Limits" || strings.Count(strings.Join(cmd.Argv, " "), "--append-system-prompt") != 1 {
		t.Errorf("%q", cmd.Argv)
	}
}

func TestLongRulesAreAFile(t *testing.T) {
	long := strings.Repeat("Rule. ", 100_000)
	cmd, err := Agent{}.Command(agent.Invocation{Prompt: "x", Rules: long, FilesDir: "/run/1"}, agent.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cmd.Files) != 1 || string(cmd.Files[0].Data) != long || cmd.Argv[len(cmd.Argv)-1] != "/run/1/"+agent.SystemFile {
		t.Errorf("%q", cmd.Argv)
	}
}

func TestRulesRefused(t *testing.T) {
	for _, inv := range []agent.Invocation{
		{Prompt: "x", Rules: "r", Args: []string{"--append-system-prompt", "mine"}},
		{Prompt: "/review", Rules: "r", RulesBy: agent.RulesByPrompt},
		{Prompt: "x", Rules: "r", RulesBy: agent.RulesByFile},
		{Prompt: "x", Observer: true, Args: []string{"--tools=Bash"}},
		{Prompt: "x", Schema: []byte(`{}`), Args: []string{"--json-schema", "{}"}},
	} {
		_, err := Agent{}.Command(inv, agent.Facts{})
		if e, ok := errors.AsType[*agent.Error](err); !ok || e.Hint == "" {
			t.Errorf("%+v: %v", inv, err)
		}
	}
}

func TestObserver(t *testing.T) {
	cmd, err := Agent{}.Command(agent.Invocation{Prompt: "x", Observer: true, Schema: []byte(`{"a":1}`)}, agent.Facts{UID: 0})
	if err != nil {
		t.Fatal(err)
	}
	const want = `--permission-mode default --json-schema {"a":1} --tools Read,Grep,Glob --setting-sources  --strict-mcp-config --disable-slash-commands`
	if got := strings.Join(cmd.Argv, " "); !strings.Contains(got, want) || cmd.Env["IS_SANDBOX"] != "" {
		t.Errorf("%s", got)
	}
}

func TestLogin(t *testing.T) {
	for in, want := range map[string]agent.Login{
		`{"loggedIn": false, "authMethod": "none"}`:                                                       {State: agent.LoggedOut, Detail: "claude auth login"},
		`{"loggedIn": true, "authMethod": "api_key", "apiKeySource": "ANTHROPIC_API_KEY"}`:                {State: agent.LoggedIn, Pays: "key", Detail: "API key"},
		`{"loggedIn": true, "authMethod": "oauth_token"}`:                                                 {State: agent.LoggedIn, Pays: "subscription", Detail: "oauth_token"},
		"note\n" + `{"loggedIn": true, "authMethod": "claude.ai", "email": "a@b", "orgName": "X"}` + "\n": {State: agent.LoggedIn, Pays: "subscription", Detail: "claude.ai"},
		`{"loggedIn": true, "authMethod": "another\nway"}`:                                                {State: agent.LoggedIn},
		`error`: {State: agent.LoginUnknown},
	} {
		if got := (Agent{}).ParseLogin(0, []byte(in)); got != want {
			t.Errorf("%s: %+v", in, got)
		}
	}
}
