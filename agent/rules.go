package agent

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

// RulesBeforePrompt is the invocation with its rules before the prompt.
func (inv Invocation) RulesBeforePrompt() Invocation {
	if inv.Rules != "" {
		inv.Prompt = "# Rules for this run\n\n" + inv.Rules + "\n\n---\n\n" + inv.Prompt
		inv.Rules = ""
	}
	return inv
}
