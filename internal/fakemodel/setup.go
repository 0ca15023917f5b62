package fakemodel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Models that /v1/models lists.
const (
	ChatModel      = "fake-chat"
	ResponsesModel = "fake-model"
)

// Setup is what points one real CLI at the server.
type Setup struct {
	// Env is the CLI's whole configuration by variables; a test that starts it
	// adds PATH and nothing else.
	Env map[string]string
	// Args go where the CLI takes options, before the prompt.
	Args []string
}

// base is what keeps any CLI on this machine: a proxy that nobody serves takes
// every address but loopback.
func base(home string) map[string]string {
	return map[string]string{
		"HOME": home, "LANG": "C.UTF-8", "TERM": "dumb",
		"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost",
	}
}

// Claude is for claude 2.1.332. home may be an empty folder: no login or
// onboarding is asked for with a key in the environment.
func Claude(s *Server, home string) (Setup, error) {
	env := base(home)
	env["ANTHROPIC_BASE_URL"] = s.URL()
	env["ANTHROPIC_API_KEY"] = "dummy"
	env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
	env["DISABLE_AUTOUPDATER"] = "1"
	return Setup{Env: env}, os.MkdirAll(home, 0o700)
}

// Codex is for codex 0.171.0. home should not be below the temporary folder:
// codex then warns that it makes no helper binaries there.
func Codex(s *Server, home string) (Setup, error) {
	env := base(home)
	env["FAKE_KEY"] = "dummy"
	// analytics: else it lingers 5 s after its turn when offline. plugins: else
	// it runs git ls-remote against GitHub.
	config := fmt.Sprintf(`model = %q
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = %q
env_key = "FAKE_KEY"
wire_api = "responses"

[analytics]
enabled = false

[features]
plugins = false
`, ResponsesModel, s.URL()+"/v1")
	return Setup{Env: env}, place(filepath.Join(home, ".codex", "config.toml"), []byte(config))
}

// Pi is for pi 0.73.1 and 1.6.0; it speaks Chat Completions here.
func Pi(s *Server, home string) (Setup, error) {
	env := base(home)
	env["PI_OFFLINE"] = "1"
	models, err := json.MarshalIndent(object{"providers": object{"fake": object{
		"baseUrl": s.URL() + "/v1", "api": "openai-completions", "apiKey": "dummy",
		"models": []object{{
			"id": ChatModel, "contextWindow": 128000, "maxTokens": 32000,
			"cost": object{"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
		}},
	}}}, "", "  ")
	if err != nil {
		return Setup{}, err
	}
	return Setup{Env: env, Args: []string{"--provider", "fake", "--model", ChatModel}},
		place(filepath.Join(home, ".pi", "agent", "models.json"), models)
}

// GeminiModel is what gemini is asked to use: it knows no models but Google's.
const GeminiModel = "gemini-2.5-flash"

// Gemini is for gemini 0.61.0, by an API key.
func Gemini(s *Server, home string) (Setup, error) {
	env := base(home)
	env["GEMINI_API_KEY"] = "dummy"
	env["GOOGLE_GEMINI_BASE_URL"] = s.URL()
	// Without the type of login it ends with exit code 41.
	return Setup{Env: env, Args: []string{"--model", GeminiModel}},
		place(filepath.Join(home, ".gemini", "settings.json"), []byte(`{"security":{"auth":{"selectedType":"gemini-api-key"}}}`))
}

// Qwen is for qwen 0.15.10; it speaks Chat Completions here. It knows no
// NO_PROXY, and would ask the dead proxy for the model; what else it would send
// somewhere is switched off, and so is the request that it makes after an answer
// to find what to remember.
func Qwen(s *Server, home string) (Setup, error) {
	env := base(home)
	delete(env, "HTTP_PROXY")
	delete(env, "HTTPS_PROXY")
	env["OPENAI_API_KEY"] = "dummy"
	env["OPENAI_BASE_URL"] = s.URL() + "/v1"
	return Setup{Env: env, Args: []string{"--auth-type", "openai", "--model", ChatModel}},
		place(filepath.Join(home, ".qwen", "settings.json"), []byte(`{"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false},"memory":{"enableManagedAutoMemory":false}}`))
}

// Grok is for grok 1.0.41. It takes the name of the model from /v1/models.
func Grok(s *Server, home string) (Setup, error) {
	env := base(home)
	env["XAI_API_KEY"] = "dummy"
	s.Aside(regexp.MustCompile("session_title|ultra-short dashboard"))
	config := fmt.Sprintf("[cli]\nauto_update = false\n\n[endpoints]\nmodels_base_url = %q\nmodels_list_url = %q\n", s.URL()+"/v1", s.URL()+"/v1/models")
	return Setup{Env: env}, place(filepath.Join(home, ".grok", "config.toml"), []byte(config))
}

// Copilot is for copilot 1.0.102, with a model provider of one's own instead of
// a GitHub account; it speaks Chat Completions here.
func Copilot(s *Server, home string) (Setup, error) {
	env := base(home)
	env["COPILOT_PROVIDER_BASE_URL"] = s.URL() + "/v1"
	env["COPILOT_PROVIDER_API_KEY"] = "dummy"
	env["COPILOT_MODEL"] = ChatModel
	env["COPILOT_OFFLINE"] = "true"
	// It unpacks 235 MB of itself there at its first start.
	cache, err := os.UserCacheDir()
	if err != nil {
		return Setup{}, err
	}
	env["XDG_CACHE_HOME"] = filepath.Join(cache, "rein", "copilot")
	return Setup{Env: env}, os.MkdirAll(home, 0o700)
}

// place writes a file of the CLI's own configuration; it must be new.
func place(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
