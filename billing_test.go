package rein_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/claude"
	"github.com/rein-run/rein/host/driver"
)

// paidBy is a task with these credentials, and none of those that are inherited.
func (s *stage) paidBy(env driver.Env) rein.Task {
	task := s.task()
	for _, a := range rein.Agents().All() {
		c := a.Capabilities("")
		for _, name := range slices.Concat(c.Credentials, slices.Collect(maps.Keys(c.CredentialsIf))) {
			if _, ok := env[name]; !ok {
				task.Unset = append(task.Unset, name)
			}
		}
	}
	maps.Copy(task.Env, env)
	return task
}

// Who pays is said before the start, and a key where a subscription was asked for
// keeps the run from starting. No value is in what is said.
func TestBilling(t *testing.T) {
	t.Parallel()
	const key = "canary-key-0123456789"
	for _, c := range []struct {
		name, agent string
		env         driver.Env
		pays        string
		refused     string // by a task that wants a subscription
	}{
		{"a key", "claude", driver.Env{"ANTHROPIC_API_KEY": key}, "key:ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"},
		{"a token of a subscription", "claude", driver.Env{"CLAUDE_CODE_OAUTH_TOKEN": key}, "subscription", ""},
		{"a key beside it, which wins", "claude", driver.Env{"CLAUDE_CODE_OAUTH_TOKEN": key, "ANTHROPIC_API_KEY": key}, "key:ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"},
		{"an empty one is none", "claude", driver.Env{"CLAUDE_CODE_OAUTH_TOKEN": key, "ANTHROPIC_API_KEY": ""}, "subscription", ""},
		{"a cloud's", "claude", driver.Env{"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_ACCESS_KEY_ID": key, "CLAUDE_CODE_OAUTH_TOKEN": key}, "key:AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"},
		{"of a cloud that is not used", "claude", driver.Env{"AWS_ACCESS_KEY_ID": key, "CLAUDE_CODE_OAUTH_TOKEN": key}, "subscription", ""},
		{"codex", "codex", driver.Env{"CODEX_API_KEY": key}, "key:CODEX_API_KEY", "CODEX_API_KEY"},
		{"codex does not use it by itself", "codex", driver.Env{"OPENAI_API_KEY": key}, "unknown", "OPENAI_API_KEY"},
		{"a login of pi's own wins", "pi", driver.Env{"GROQ_API_KEY": key}, "unknown", "GROQ_API_KEY"},
	} {
		s := newStage(t)
		task := s.paidBy(c.env)
		task.Agent = c.agent
		plan, err := rein.Describe(context.Background(), task, &s.opts)
		if err != nil || plan.Billing != c.pays {
			t.Errorf("%s: %+v %v, want %s", c.name, plan, err, c.pays)
			continue
		}
		task.Billing = rein.BillingSubscription
		_, err = rein.Describe(context.Background(), task, &s.opts)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.refused != "" && (!errors.Is(err, rein.ErrTask) || !strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), key)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// dotEnv is a CLI that reads .env.
type dotEnv struct{ claude.Agent }

func (dotEnv) Capabilities(v string) agent.Capabilities {
	c := claude.Agent{}.Capabilities(v)
	c.EnvFiles = []string{".env", "~/.claude/.env"}
	return c
}

func TestBillingLooksIntoFiles(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.opts.Agents = agent.New(dotEnv{})
	task := s.paidBy(driver.Env{"CLAUDE_CODE_OAUTH_TOKEN": "canary-token-0123456789"})
	task.Billing = rein.BillingSubscription
	for text, refused := range map[string]bool{
		"":                                 false,
		"# ANTHROPIC_API_KEY=x\nOTHER=1\n": false,
		"ANTHROPIC_API_KEY=\n":             false,
		"A=1\nexport ANTHROPIC_API_KEY = 'sk-x'\n": true,
	} {
		if err := os.WriteFile(filepath.Join(s.dir, ".env"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := rein.Describe(context.Background(), task, &s.opts)
		if refused != (err != nil && strings.Contains(err.Error(), ".env has ANTHROPIC_API_KEY") && !strings.Contains(err.Error(), "sk-x")) || !refused && err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
