package codex

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"github.com/rein-run/rein/agent"
)

// Needs: all state of 0.171.0 is in CODEX_HOME. Its configuration there names
// the model's address, in one of a few keys.
func (Agent) Needs(inv agent.Invocation, f agent.Facts, w agent.World) agent.Needs {
	dir := cmp.Or(w.Env["CODEX_HOME"], path.Join(cmp.Or(w.Env["HOME"], f.Home), ".codex"))
	n := agent.Needs{State: []string{dir}}
	n.Fixed = agent.Below(dir, "config.toml", "AGENTS.md", "rules/")
	n.Kept = agent.Below(dir, "hooks.json", "hooks", "prompts", "plugins", "agents")
	config, _ := w.ReadFile(path.Join(dir, "config.toml"))
	text := string(config)
	for i, arg := range inv.Args {
		switch {
		case (arg == "-c" || arg == "--config") && i+1 < len(inv.Args):
			text += "\n" + inv.Args[i+1]
		case strings.HasPrefix(arg, "-c") || strings.HasPrefix(arg, "--config="):
			text += "\n" + strings.TrimPrefix(strings.TrimPrefix(arg, "--config="), "-c")
		}
	}
	named := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range baseURL.FindAllStringSubmatch(line, -1) {
			n.AddURL(cmp.Or(m[1], m[2], m[3]))
		}
		if m := provider.FindStringSubmatch(line); m != nil {
			named = m[1]
		}
	}
	n.AddURL(w.Env["OPENAI_BASE_URL"])
	if named == "" || named == "openai" {
		n.AddURL("https://api.openai.com")
		n.AddURL("https://chatgpt.com") // with a subscription
		n.AddURL("https://auth.openai.com")
	}
	return n
}

var (
	// base_url of a provider, openai_base_url, chatgpt_base_url. A value of -c
	// that is no TOML is taken as it is.
	baseURL  = regexp.MustCompile(`\b(?:[a-z]+_)?base_url["']?\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))`)
	provider = regexp.MustCompile(`^\s*model_provider\s*=\s*["']?([^"'\s]+)`)
)

var _ agent.Boxed = Agent{}
