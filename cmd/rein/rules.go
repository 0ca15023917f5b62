package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/config"
)

// askFlags say how the agent is asked, beside the prompt.
type askFlags struct {
	Rules   string `group:"Asking" help:"File with rules for the agent, given as they stand." placeholder:"FILE"`
	RulesBy string `group:"Asking" help:"The way they take: system-prompt, prompt or file (default: the agent's best)." placeholder:"WAY"`
	Profile string `group:"Asking" help:"observer: read-only, no shell, no configuration of the user's or the repository's." placeholder:"NAME"`
	Billing string `group:"Asking" help:"subscription: refuse to start where a key would pay." placeholder:"WHO"`
	Schema  string `group:"Asking" help:"File with a JSON schema that the answer has to match." placeholder:"FILE"`
}

// most that is read of a file of rules or a schema, in bytes.
const maxAsked = 4 << 20

// ask fills in the task from the flags and the configuration.
func (c *askFlags) ask(t *rein.Task, cfg *config.Config) error {
	t.Billing = c.Billing
	t.RequireModel = cfg.RequireModel
	if c.Rules != "" {
		if err := cfg.Set("rules_file", c.Rules, config.Origin{Source: config.Flag, Name: "--rules"}); err != nil {
			return usageError{err}
		}
	}
	if file := cfg.RulesFile; file != "" {
		b, err := readAsked(file)
		if err != nil {
			return usage("%s: %s", cfg.Origin("rules_file"), oneLine(err))
		}
		if strings.TrimSpace(string(b)) != "" {
			t.Rules = string(b)
		}
	} else if c.RulesBy != "" {
		return usage("--rules-by %s: there are no rules: name their file with --rules", c.RulesBy)
	}
	switch by := agent.RuleChannel(c.RulesBy); by {
	case "", agent.RulesBySystem, agent.RulesByPrompt, agent.RulesByFile:
		t.RulesBy = by
	default:
		return usage("--rules-by %s: there are %s, %s and %s", by, agent.RulesBySystem, agent.RulesByPrompt, agent.RulesByFile)
	}
	switch c.Profile {
	case "":
	case "observer":
		t.Observer = true
		if t.Mode == agent.Autonomous && cfg.Origin("mode").Source != config.Flag {
			t.Mode = "" // the profile was typed
		}
	default:
		return usage("--profile %s: there is observer", c.Profile)
	}
	if c.Schema != "" {
		b, err := readAsked(c.Schema)
		if err != nil {
			return usage("--schema: %s", oneLine(err))
		}
		t.Schema = b
	}
	return nil
}

func readAsked(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAsked+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxAsked:
		return nil, fmt.Errorf("%s is larger than %d MiB", file, maxAsked>>20)
	case !utf8.Valid(b):
		return nil, errors.New(file + " is not text in UTF-8")
	}
	return b, nil
}
