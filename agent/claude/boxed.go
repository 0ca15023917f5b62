package claude

import (
	"cmp"
	"encoding/json"
	"path"

	"github.com/rein-run/rein/agent"
)

// Needs: all state of 2.1.332 is in one directory, but for .claude.json, which
// is in the home directory where CLAUDE_CONFIG_DIR is not set. It goes on
// without writing that, and so it stays read-only: it names MCP servers.
func (Agent) Needs(inv agent.Invocation, f agent.Facts, w agent.World) agent.Needs {
	dir := cmp.Or(w.Env["CLAUDE_CONFIG_DIR"], path.Join(cmp.Or(w.Env["HOME"], f.Home), ".claude"))
	n := agent.Needs{State: []string{dir}}
	n.Fixed = agent.Below(dir, "settings.json", "CLAUDE.md", "agents/", "commands/", "plugins/", "skills/")
	n.Kept = agent.Below(dir, "settings.local.json", "hooks", "output-styles", "rules", "workflows")
	get := settingsEnv(inv, w, dir)
	switch {
	case isOn(get("CLAUDE_CODE_USE_BEDROCK")):
		region := cmp.Or(get("AWS_REGION"), get("AWS_DEFAULT_REGION"), "us-east-1")
		n.AddURL(cmp.Or(get("ANTHROPIC_BEDROCK_BASE_URL"), "https://bedrock-runtime."+region+".amazonaws.com"))
		n.AddURL("https://bedrock." + region + ".amazonaws.com")
		n.AddURL("https://sts." + region + ".amazonaws.com")
		n.AddURL("https://oidc." + region + ".amazonaws.com")
		n.AddURL("https://portal.sso." + region + ".amazonaws.com")
	case isOn(get("CLAUDE_CODE_USE_VERTEX")):
		host := "aiplatform.googleapis.com"
		if region := cmp.Or(get("CLOUD_ML_REGION"), "us-east5"); region != "global" {
			host = region + "-" + host
		}
		n.AddURL(cmp.Or(get("ANTHROPIC_VERTEX_BASE_URL"), "https://"+host))
		n.AddURL("https://oauth2.googleapis.com")
	case isOn(get("CLAUDE_CODE_USE_FOUNDRY")):
		n.AddURL(cmp.Or(get("ANTHROPIC_FOUNDRY_BASE_URL"), "https://"+get("ANTHROPIC_FOUNDRY_RESOURCE")+".services.ai.azure.com"))
		n.AddURL("https://login.microsoftonline.com")
	case get("ANTHROPIC_BASE_URL") != "":
		n.AddURL(get("ANTHROPIC_BASE_URL"))
	default:
		n.AddURL("https://api.anthropic.com")
		// A login with a subscription is renewed at the second; the first of
		// them is what older versions ask.
		n.AddURL("https://console.anthropic.com")
		n.AddURL("https://platform.claude.com")
	}
	return n
}

// settingsEnv looks up a variable as the CLI sees it: the user's settings set
// some too, over those of the environment.
func settingsEnv(inv agent.Invocation, w agent.World, dir string) func(string) string {
	type settings struct {
		Env map[string]string `json:"env"`
	}
	var all []settings
	read := func(b []byte) {
		var s settings
		if json.Unmarshal(b, &s) == nil {
			all = append(all, s)
		}
	}
	for i, arg := range inv.Args {
		if arg == "--settings" && i+1 < len(inv.Args) {
			read([]byte(inv.Args[i+1]))
		}
	}
	if b, err := w.ReadFile(path.Join(dir, "settings.json")); err == nil {
		read(b)
	}
	return func(name string) string {
		for _, s := range all {
			if v, ok := s.Env[name]; ok {
				return v
			}
		}
		return w.Env[name]
	}
}

func isOn(v string) bool { return v != "" && v != "0" && v != "false" }

var _ agent.Boxed = Agent{}
