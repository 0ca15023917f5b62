package codex

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

func TestRulesAndLimitsAreOneSetting(t *testing.T) {
	cmd, err := Agent{}.Command(agent.Invocation{Prompt: "x", Rules: "Say \"<é>\".\x1b\x7f", Limits: "## Limits"}, agent.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	// Escapes that TOML knows: \x1b, as Go writes it, is none of them.
	const want = `developer_instructions="Say \"<é>\".\u001b\u007f\n\n## Limits"`
	if !slices.Contains(cmd.Argv, want) || strings.Count(strings.Join(cmd.Argv, " "), "developer_instructions") != 1 {
		t.Errorf("%q", cmd.Argv)
	}
}

func TestRulesRefused(t *testing.T) {
	for _, inv := range []agent.Invocation{
		{Prompt: "x", Rules: "r", Args: []string{"-c", "developer_instructions='mine'"}},
		{Prompt: "x", Rules: strings.Repeat("r", 200_000)},
		{Prompt: "x", Schema: []byte(`{}`)}, // nowhere to put it
		{Prompt: "x", Observer: true, Args: []string{"-c", "features.shell_tool=true"}},
		{Prompt: "x", Observer: true, Args: []string{"-csandbox_mode=x"}},
	} {
		_, err := Agent{}.Command(inv, agent.Facts{})
		if e, ok := errors.AsType[*agent.Error](err); !ok || e.Hint == "" {
			t.Errorf("%.200v: %v", inv, err)
		}
	}
}

func TestRulesOfAFileAreLeftToIt(t *testing.T) {
	cmd, err := Agent{}.Command(agent.Invocation{Prompt: "x", Rules: "canary", RulesBy: agent.RulesByFile, Limits: "## L"}, agent.Facts{})
	if err != nil || strings.Contains(strings.Join(cmd.Argv, " ")+string(cmd.Stdin), "canary") || !slices.Contains(cmd.Argv, `developer_instructions="## L"`) {
		t.Errorf("%q %v", cmd.Argv, err)
	}
}

func TestObserver(t *testing.T) {
	cmd, err := Agent{}.Command(agent.Invocation{Prompt: "x", Dir: "/w", Observer: true, Schema: []byte(`{}`), FilesDir: "/f"}, agent.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(cmd.Argv, " ")
	for _, want := range []string{"--output-schema /f/schema.json", "--ignore-user-config --ignore-rules", "--sandbox read-only", "project_doc_max_bytes=0", `web_search="disabled"`, "features.shell_tool=false"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

func TestLogin(t *testing.T) {
	for in, want := range map[string]agent.Login{
		"WARNING: x\nNot logged in\n":          {State: agent.LoggedOut, Detail: "codex login"},
		"API key configured - sk-a***bc\n":     {State: agent.LoggedIn, Pays: "key", Detail: "API key"},
		"Logged in using ChatGPT\n":            {State: agent.LoggedIn, Pays: "subscription", Detail: "ChatGPT"},
		"something that a later version says.": {State: agent.LoginUnknown},
	} {
		if got := (Agent{}).ParseLogin(0, []byte(in)); got != want {
			t.Errorf("%s: %+v", in, got)
		}
	}
}
