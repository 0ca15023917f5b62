package agent_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/claude"
	"github.com/rein-run/rein/agent/codex"
	"github.com/rein-run/rein/agent/pi"
	"github.com/rein-run/rein/host/driver"
)

func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		name  string
		agent agent.Boxed
		inv   agent.Invocation
		env   driver.Env
		files map[string]string
		state string
		want  []string
	}{
		{
			name: "claude", agent: claude.Agent{}, state: "/home/u/.claude",
			want: []string{"api.anthropic.com:443", "console.anthropic.com:443", "platform.claude.com:443"},
		},
		{
			name: "claude elsewhere", agent: claude.Agent{}, env: driver.Env{"CLAUDE_CONFIG_DIR": "/c", "ANTHROPIC_BASE_URL": "http://127.0.0.1:99/x"},
			state: "/c", want: []string{"127.0.0.1:99"},
		},
		{
			name: "claude by its settings", agent: claude.Agent{}, env: driver.Env{"ANTHROPIC_BASE_URL": "http://old:1"},
			files: map[string]string{"/home/u/.claude/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"https://new.example"}}`},
			state: "/home/u/.claude", want: []string{"new.example:443"},
		},
		{
			name: "claude on bedrock", agent: claude.Agent{}, env: driver.Env{"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}, state: "/home/u/.claude",
			want: []string{
				"bedrock-runtime.eu-west-1.amazonaws.com:443", "bedrock.eu-west-1.amazonaws.com:443", "sts.eu-west-1.amazonaws.com:443",
				"oidc.eu-west-1.amazonaws.com:443", "portal.sso.eu-west-1.amazonaws.com:443",
			},
		},
		{
			name: "codex", agent: codex.Agent{}, state: "/home/u/.codex",
			want: []string{"api.openai.com:443", "chatgpt.com:443", "auth.openai.com:443"},
		},
		{
			name: "codex with a provider", agent: codex.Agent{}, env: driver.Env{"CODEX_HOME": "/x"}, state: "/x",
			files: map[string]string{"/x/config.toml": "model_provider = \"mine\"\n# base_url = \"http://comment\"\n[model_providers.mine]\nbase_url = 'http://[::1]:8080/v1' # local\n"},
			want:  []string{"[::1]:8080"},
		},
		{
			name: "codex by arguments", agent: codex.Agent{}, state: "/home/u/.codex",
			inv:  agent.Invocation{Args: []string{"-c", `model_providers.x={name="x",base_url="https://llm.example/v1"}`, "-cmodel_provider=x", "--config=chatgpt_base_url=https://chat.example/backend"}},
			want: []string{"llm.example:443", "chat.example:443"},
		},
		{
			name: "pi", agent: pi.Agent{}, state: "/home/u/.pi/agent", inv: agent.Invocation{Model: "groq/x", Args: []string{"--provider", "mistral"}},
			env: driver.Env{"XAI_API_KEY": "k"},
			files: map[string]string{
				"/home/u/.pi/agent/models.json": `{"providers":{"b":{"baseUrl":"http://localhost:11434/v1"},"a":{"models":[{"baseUrl":"https://{ACCOUNT}.example"}]}}}`,
				"/home/u/.pi/agent/auth.json":   `{"openai-codex":{"type":"oauth"}}`, "/home/u/.pi/agent/settings.json": `{"defaultProvider":"zai"}`,
			},
			want: []string{"localhost:11434", "api.groq.com:443", "api.mistral.ai:443", "chatgpt.com:443", "auth.openai.com:443", "api.x.ai:443", "api.z.ai:443"},
		},
		{name: "pi elsewhere, logged in to nothing", agent: pi.Agent{}, env: driver.Env{"PI_CODING_AGENT_DIR": "~/p", "HOME": "/h"}, state: "/h/p"},
	} {
		n := c.agent.Needs(c.inv, agent.Facts{Home: "/home/u"}, agent.World{Env: c.env, ReadFile: func(p string) ([]byte, error) {
			if s, ok := c.files[p]; ok {
				return []byte(s), nil
			}
			return nil, os.ErrNotExist
		}})
		if d := cmp.Diff(c.want, n.Endpoints); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if !slices.Equal(n.State, []string{c.state}) {
			t.Errorf("%s: state %v", c.name, n.State)
		}
		for _, f := range slices.Concat(n.Fixed, n.Kept) {
			if !strings.HasPrefix(f, c.state+"/") {
				t.Errorf("%s: %s is not in its state", c.name, f)
			}
		}
	}
}

// What a configuration names is bounded, and nothing that is no address counts.
func TestNeedsAreHostile(t *testing.T) {
	var n agent.Needs
	for _, u := range []string{"", "x", "ftp://h", "http://", "https://*.example", "https://a b", "file:///etc", "https://u:p@h.example:8443/x", "HTTPS://H.example"} {
		n.AddURL(u)
	}
	if d := cmp.Diff([]string{"h.example:8443", "h.example:443"}, n.Endpoints); d != "" {
		t.Error(d)
	}
	for i := range 1000 {
		n.Add(strings.Repeat("x", i+1) + ":1")
	}
	if len(n.Endpoints) > 100 {
		t.Errorf("%d", len(n.Endpoints))
	}
}
