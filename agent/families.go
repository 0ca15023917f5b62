package agent

import (
	"slices"
	"strings"
	"unicode"
)

// Model families, the values of Capabilities.Families.
const (
	Anthropic = "anthropic"
	Cursor    = "cursor"
	Google    = "google"
	Kimi      = "kimi"
	OpenAI    = "openai"
	XAI       = "xai"
)

// families are told by prefixes, not by lists of ids: the ids change with
// every release, and a list once hid new models. An entry that ends in '-'
// is a prefix; any other is a whole word, alone or before '-', '[', '.', ':'
// or '@' ("opus", "opus[1m]", but not "opusx").
//
// cursor stands first because cursor-grok-* exists only on the Cursor CLI.
var families = []struct {
	name  string
	words []string
}{
	{Cursor, []string{"cursor-", "composer-", "auto"}},
	{Anthropic, []string{"claude-", "opus", "sonnet", "haiku", "fable", "opusplan"}},
	{Google, []string{"gemini-"}},
	{Kimi, []string{"kimi-"}},
	{OpenAI, []string{"gpt-", "chatgpt-", "codex-", "o1", "o3", "o4", "o5"}},
	{XAI, []string{"grok-"}},
}

// providers are the names before a '/' that fix the family by themselves.
var providers = map[string]string{
	"anthropic": Anthropic, "openai": OpenAI, "google": Google, "gemini": Google,
	"xai": XAI, "x-ai": XAI, "moonshotai": Kimi, "cursor": Cursor,
}

// FamilyOf tells the family of a model id in any case, or "" when it is none
// that is known. Provider-qualified ids are understood ("openai/gpt-5",
// "openrouter/anthropic/claude-opus-4"), and so are the ids of Bedrock and
// Vertex ("us.anthropic.claude-…", "claude-…@20250514").
func FamilyOf(model string) string {
	m := strings.ToLower(strings.TrimSpace(model))
	segs := strings.Split(m, "/")
	last := segs[len(segs)-1]
	// "us.anthropic.claude-…": the vendor stands between dots.
	if _, after, ok := strings.Cut("."+last, ".anthropic."); ok {
		last = after
	}
	for _, f := range families {
		for _, w := range f.words {
			if rest, ok := strings.CutPrefix(last, w); ok &&
				(strings.HasSuffix(w, "-") || rest == "" || strings.ContainsRune("-[.:@", rune(rest[0]))) {
				return f.name
			}
		}
	}
	for _, s := range slices.Backward(segs[:len(segs)-1]) {
		if f := providers[s]; f != "" {
			return f
		}
	}
	return ""
}

// checkModel refuses a model that the agent cannot mean. The model is never
// changed.
func checkModel(a Agent, c Capabilities, model string) error {
	if model == "" {
		return nil
	}
	bad := func(hint string) error {
		return &Error{Agent: a.Name(), Err: ErrModel, Value: clip(model, 80), Hint: hint}
	}
	if strings.ContainsFunc(model, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return bad("a model id has no white space; leave it out for the CLI's own default")
	}
	if model[0] == '-' {
		return bad("a model id that begins with a dash would be read as a flag")
	}
	if len(c.Families) == 0 {
		return nil
	}
	f := FamilyOf(model)
	switch {
	case slices.Contains(c.Families, f):
		return nil
	case f == "" && !c.StrictModels:
		return nil // a gateway's own name, a local model: the CLI knows better
	case f == "":
		return bad("its family is not known, and this CLI silently uses another model then; known are " + strings.Join(c.Families, ", "))
	}
	return bad("it is a model of " + f + "; this agent takes " + strings.Join(c.Families, ", "))
}
