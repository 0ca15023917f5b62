package pi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

func TestRulesAndLimitsAreOneFlag(t *testing.T) {
	for rules, want := range map[string]string{"Be brief.": "Be brief.\n\n## L", "README.md": "README.md\n"} {
		inv := agent.Invocation{Prompt: "x", Rules: rules, Limits: "## L"}
		if rules == "README.md" { // the name of a file is taken for the file
			inv.Limits = ""
		}
		cmd, err := Agent{}.Command(inv, agent.Facts{})
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.Index(cmd.Argv, "--append-system-prompt"); i < 0 || cmd.Argv[i+1] != want {
			t.Errorf("%q", cmd.Argv)
		}
	}
}

func TestRulesRefused(t *testing.T) {
	for _, inv := range []agent.Invocation{
		{Prompt: "x", Rules: "r", Args: []string{"--append-system-prompt", "mine"}},
		{Prompt: "x", Observer: true, Args: []string{"--tools", "bash"}},
		{Prompt: "x", Schema: []byte(`{}`)},
	} {
		_, err := Agent{}.Command(inv, agent.Facts{})
		if e, ok := errors.AsType[*agent.Error](err); !ok || e.Hint == "" {
			t.Errorf("%+v: %v", inv, err)
		}
	}
}

func TestObserver(t *testing.T) {
	for version, want := range map[string]string{
		"1.6.0":  "--tools read,grep,find,ls --no-mcp --no-extensions --no-skills --no-prompt-templates --no-themes --no-context-files --no-approve",
		"0.73.1": "--tools read,grep,find,ls --no-extensions --no-skills --no-prompt-templates --no-themes --no-context-files",
	} {
		cmd, err := Agent{}.Command(agent.Invocation{Prompt: "x", Observer: true}, agent.Facts{Version: version})
		if got := strings.Join(cmd.Argv, " "); err != nil || !strings.Contains(got, want+" --system-prompt You look at") || !strings.Contains(got, " --append-system-prompt Answer") {
			t.Errorf("%s: %s %v", version, got, err)
		}
	}
}

func TestLogin(t *testing.T) {
	for in, want := range map[string]agent.LoginState{
		"Warning: No models available. Use /login\n": agent.LoggedOut,
		"provider   model   context\nanthropic  x\n": agent.LoggedIn,
		"?": agent.LoginUnknown,
	} {
		if got := (Agent{}).ParseLogin(0, []byte(in)); got.State != want {
			t.Errorf("%s: %+v", in, got)
		}
	}
}
