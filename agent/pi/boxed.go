package pi

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
)

// Needs: all state of 0.73.1 and 1.6.0 is in one directory. The model is at an
// address that models.json names, or at the one of a provider that is asked for
// or logged in to.
func (Agent) Needs(inv agent.Invocation, f agent.Facts, w agent.World) agent.Needs {
	home := cmp.Or(w.Env["HOME"], f.Home)
	dir := cmp.Or(w.Env["PI_CODING_AGENT_DIR"], path.Join(home, ".pi", "agent"))
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		dir = path.Join(home, rest)
	}
	n := agent.Needs{State: []string{dir}}
	n.Fixed = agent.Below(dir, "settings.json", "models.json", "AGENTS.md", "extensions/", "skills/", "prompts/", "bin/", "npm/", "git/")
	n.Kept = agent.Below(dir, "mcp.json", "SYSTEM.md", "APPEND_SYSTEM.md", "hooks", "tools", "themes") // an empty SYSTEM.md would be one
	read := func(name string, v any) {
		if b, err := w.ReadFile(path.Join(dir, name)); err == nil {
			_ = json.Unmarshal(b, v) // one that pi cannot read either
		}
	}
	var models struct {
		Providers map[string]struct {
			BaseURL string `json:"baseUrl"`
			Models  []struct {
				BaseURL string `json:"baseUrl"`
			} `json:"models"`
		} `json:"providers"`
	}
	read("models.json", &models)
	for _, p := range models.Providers {
		n.AddURL(p.BaseURL)
		for _, m := range p.Models {
			n.AddURL(m.BaseURL)
		}
	}
	slices.Sort(n.Endpoints)

	var settings struct {
		Provider string `json:"defaultProvider"`
	}
	read("settings.json", &settings)
	var logins map[string]json.RawMessage
	read("auth.json", &logins)
	use := map[string]bool{settings.Provider: true}
	for name := range logins {
		use[name] = true
	}
	if before, _, ok := strings.Cut(inv.Model, "/"); ok {
		use[before] = true
	}
	for i, arg := range inv.Args {
		if v, ok := strings.CutPrefix(arg, "--provider="); ok {
			use[v] = true
		} else if arg == "--provider" && i+1 < len(inv.Args) {
			use[inv.Args[i+1]] = true
		}
	}
	for _, p := range providers {
		if !use[p.name] && (p.key == "" || w.Env[p.key] == "") {
			continue
		}
		for _, host := range p.hosts {
			n.Add(host + ":443")
		}
	}
	if use["amazon-bedrock"] || w.Env["AWS_BEARER_TOKEN_BEDROCK"] != "" {
		n.Add("bedrock-runtime." + cmp.Or(w.Env["AWS_REGION"], w.Env["AWS_DEFAULT_REGION"], "us-east-1") + ".amazonaws.com:443")
	}
	n.AddURL(w.Env["AZURE_OPENAI_BASE_URL"])
	return n
}

// providers are those of the catalogue of 1.6.0 with an address of their own,
// and the variable that holds the key. With a login, the second host renews it.
var providers = []struct {
	name, key string
	hosts     []string
}{
	{"ant-ling", "ANT_LING_API_KEY", []string{"api.ant-ling.com"}},
	{"anthropic", "ANTHROPIC_API_KEY", []string{"api.anthropic.com", "platform.claude.com"}},
	{"anthropic", "ANTHROPIC_AUTH_TOKEN", []string{"api.anthropic.com"}},
	{"anthropic", "ANTHROPIC_OAUTH_TOKEN", []string{"api.anthropic.com", "platform.claude.com"}},
	{"baseten", "BASETEN_API_KEY", []string{"inference.baseten.co"}},
	{"cerebras", "CEREBRAS_API_KEY", []string{"api.cerebras.ai"}},
	{"cloudflare-ai-gateway", "CLOUDFLARE_API_KEY", []string{"gateway.ai.cloudflare.com"}},
	{"cloudflare-workers-ai", "CLOUDFLARE_API_KEY", []string{"api.cloudflare.com"}},
	{"deepseek", "DEEPSEEK_API_KEY", []string{"api.deepseek.com"}},
	{"fireworks", "FIREWORKS_API_KEY", []string{"api.fireworks.ai"}},
	{"github-copilot", "", []string{"api.individual.githubcopilot.com"}},
	{"google", "GEMINI_API_KEY", []string{"generativelanguage.googleapis.com"}},
	{"groq", "GROQ_API_KEY", []string{"api.groq.com"}},
	{"huggingface", "HF_TOKEN", []string{"router.huggingface.co"}},
	{"kimi-coding", "KIMI_API_KEY", []string{"api.kimi.com"}},
	{"meta", "META_API_KEY", []string{"api.meta.ai"}},
	{"minimax", "MINIMAX_API_KEY", []string{"api.minimax.io"}},
	{"minimax-cn", "MINIMAX_CN_API_KEY", []string{"api.minimaxi.com"}},
	{"mistral", "MISTRAL_API_KEY", []string{"api.mistral.ai"}},
	{"moonshotai", "MOONSHOT_API_KEY", []string{"api.moonshot.ai"}},
	{"moonshotai-cn", "MOONSHOT_API_KEY", []string{"api.moonshot.cn"}},
	{"nvidia", "NVIDIA_API_KEY", []string{"integrate.api.nvidia.com"}},
	{"openai", "OPENAI_API_KEY", []string{"api.openai.com"}},
	{"openai-codex", "", []string{"chatgpt.com", "auth.openai.com"}},
	{"opencode", "OPENCODE_API_KEY", []string{"opencode.ai"}},
	{"opencode-go", "OPENCODE_API_KEY", []string{"opencode.ai"}},
	{"openrouter", "OPENROUTER_API_KEY", []string{"openrouter.ai"}},
	{"together", "TOGETHER_API_KEY", []string{"api.together.ai"}},
	{"vercel-ai-gateway", "AI_GATEWAY_API_KEY", []string{"ai-gateway.vercel.sh"}},
	{"xai", "XAI_API_KEY", []string{"api.x.ai"}},
	{"xiaomi", "XIAOMI_API_KEY", []string{"api.xiaomimimo.com"}},
	{"zai", "ZAI_API_KEY", []string{"api.z.ai"}},
	{"zai-coding-cn", "ZAI_CODING_CN_API_KEY", []string{"open.bigmodel.cn"}},
}

var _ agent.Boxed = Agent{}
