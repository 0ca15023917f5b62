package agent

import "strings"

// RuleChannel is a way by which a CLI takes the user's rules.
type RuleChannel string

const (
	// RulesBySystem is a flag for the system prompt, by text or by a file
	// outside of the repository.
	RulesBySystem RuleChannel = "system-prompt"
	// RulesByPrompt puts them before the prompt.
	RulesByPrompt RuleChannel = "prompt"
	// RulesByFile is a file in the repository that the CLI reads by itself:
	// package rules places Capabilities.RulesFile and takes it away again.
	RulesByFile RuleChannel = "file"
)

// RuleChannel is the way that inv's rules take with an agent that can do c: ""
// when there are none.
func (inv Invocation) RuleChannel(c Capabilities) RuleChannel {
	switch {
	case inv.Rules == "":
		return ""
	case inv.RulesBy != "":
		return inv.RulesBy
	case len(c.Rules) > 0:
		return c.Rules[0]
	}
	return ""
}

// Beside is the invocation without its rules and limits, and the text that
// belongs into the system prompt of a CLI that can do c: the rules, when that is
// their way, and the limits behind them. Rules that go before the prompt stand
// there, those of a file are left to who places it. An empty text is none.
func (inv Invocation) Beside(c Capabilities) (Invocation, string) {
	var parts []string
	switch inv.RuleChannel(c) {
	case RulesBySystem:
		parts = append(parts, inv.Rules)
	case RulesByPrompt:
		inv = inv.RulesBeforePrompt()
	}
	if inv.Limits != "" {
		parts = append(parts, inv.Limits)
	}
	inv.Rules, inv.Limits = "", ""
	return inv, strings.Join(parts, "\n\n")
}

// SystemFile is the base name of the file that the text for the system prompt
// becomes when it is too long for an argument.
const SystemFile = "system.md"

// MaxInline is the longest text, in bytes, that is worth an argument where a
// file is possible: a command line of Windows takes 32,767 in all.
const MaxInline = 16 << 10

// RulesBeforePrompt is the invocation with its rules before the prompt.
func (inv Invocation) RulesBeforePrompt() Invocation {
	if inv.Rules != "" {
		inv.Prompt = "# Rules for this run\n\n" + inv.Rules + "\n\n---\n\n" + inv.Prompt
		inv.Rules = ""
	}
	return inv
}
