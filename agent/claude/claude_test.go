package claude

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
)

func TestCommand(t *testing.T) {
	common := "/bin/claude -p --output-format stream-json --verbose --include-partial-messages --permission-mode "
	for _, c := range []struct {
		name    string
		inv     agent.Invocation
		uid     int
		argv    string
		sandbox string
	}{
		{"plain", agent.Invocation{}, 1000, common + "bypassPermissions", ""},
		{"root", agent.Invocation{}, 0, common + "bypassPermissions", "1"},
		{"read-only as root needs no sandbox", agent.Invocation{Mode: agent.ReadOnly}, 0, common + "plan", ""},
		{"all", agent.Invocation{Model: "opus", Effort: "high", Session: agent.Session{Resume: "1f-2"}, Args: []string{"--add-dir", "/x"}}, 1, common + "bypassPermissions --model opus --effort high --resume 1f-2 --add-dir /x", ""},
		{"latest", agent.Invocation{Session: agent.Session{Resume: "latest"}}, 1, common + "bypassPermissions --continue", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.inv.Prompt = "-p do \"it\"\n"
			cmd, err := Agent{}.Command(c.inv, agent.Facts{Exe: "/bin/claude", UID: c.uid, OS: "linux"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(c.argv), cmd.Argv); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if got := cmd.Env["IS_SANDBOX"]; got != c.sandbox {
				t.Errorf("IS_SANDBOX = %q, want %q", got, c.sandbox)
			}
			if string(cmd.Stdin) != c.inv.Prompt {
				t.Errorf("stdin %q", cmd.Stdin)
			}
			if !slices.Contains(cmd.Unset, "CLAUDECODE") {
				t.Error("CLAUDECODE stays")
			}
		})
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, c := range []struct {
		inv  agent.Invocation
		want error
	}{
		{agent.Invocation{Prompt: " \n"}, agent.ErrPrompt},
		{agent.Invocation{Prompt: "x", Model: "gpt-5"}, agent.ErrModel},
		{agent.Invocation{Prompt: "x", Effort: "bogus"}, agent.ErrArgument}, // the CLI only warns
		{agent.Invocation{Prompt: "x", Args: []string{"--output-format=text"}}, agent.ErrArgument},
		{agent.Invocation{Prompt: strings.Repeat("x", 10_000_001)}, agent.ErrPrompt},
	} {
		if _, err := (Agent{}).Command(c.inv, agent.Facts{}); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

func TestHugePromptBecomesAFile(t *testing.T) {
	p := strings.Repeat("x", 10_000_001)
	cmd, err := Agent{}.Command(agent.Invocation{Prompt: p, FilesDir: "/run/1"}, agent.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cmd.Files) != 1 || string(cmd.Files[0].Data) != p || !strings.Contains(string(cmd.Stdin), "/run/1/"+cmd.Files[0].Name) {
		t.Errorf("files %d, stdin %q", len(cmd.Files), cmd.Stdin)
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"2.1.332 (Claude Code)\n":              "2.1.332",
		"warning\n2.1.197 (Claude Code)\r\n":   "2.1.197",
		"1.2.3\n":                              "",
		"claude: unknown option '--version'\n": "",
	} {
		if got := (Agent{}).ParseVersion([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
