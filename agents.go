package rein

import (
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/claude"
	"github.com/rein-run/rein/agent/codex"
	"github.com/rein-run/rein/agent/copilot"
	"github.com/rein-run/rein/agent/gemini"
	"github.com/rein-run/rein/agent/grok"
	"github.com/rein-run/rein/agent/pi"
	"github.com/rein-run/rein/agent/qwen"
)

// Agents is the registry of the agents that Rein ships, in the order in which
// one is picked when none is named.
func Agents() agent.Registry {
	return agent.New(
		claude.Agent{}, codex.Agent{}, pi.Agent{},
		gemini.Agent{}, qwen.Agent{}, grok.Agent{}, copilot.Agent{},
	)
}
