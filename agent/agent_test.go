package agent

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rein-run/rein/host/driver"
)

// stub is an agent with given capabilities.
type stub struct {
	name string
	caps Capabilities
}

func (s stub) Name() string                               { return s.name }
func (s stub) Capabilities(string) Capabilities           { return s.caps }
func (s stub) Command(Invocation, Facts) (Command, error) { return Command{}, nil }

func TestRegistry(t *testing.T) {
	replaced := stub{name: "pi", caps: Capabilities{Aliases: []string{"claude"}}}
	r := New(stub{name: "pi"}, stub{name: "claude", caps: Capabilities{Aliases: []string{"cc"}}}, stub{name: "codex"}, replaced)
	if got := strings.Join(r.Names(), " "); got != "claude codex pi" {
		t.Errorf("names %q", got)
	}
	for in, want := range map[string]string{"claude": "claude", " Claude ": "claude", "CC": "claude", "pi": "pi"} {
		if a, err := r.Lookup(in); err != nil || a.Name() != want {
			t.Errorf("%q: %v %v", in, a, err)
		}
	}
	if a, _ := r.Lookup("pi"); a.Capabilities("").Aliases == nil {
		t.Error("the later agent of one name does not stand")
	}
	for in, near := range map[string]string{"cluade": "claude", "codx": "codex", "claud": "claude", "p": "", "cursor": "", "": ""} {
		_, err := r.Lookup(in)
		var e *Error
		if !errors.Is(err, ErrUnknown) || !errors.As(err, &e) || !strings.Contains(err.Error(), "claude, codex, pi") {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := strings.Contains(err.Error(), "did you mean"); got != (near != "") || near != "" && !strings.Contains(err.Error(), "did you mean "+near+"?") {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := (Registry{}).Lookup("claude"); !errors.Is(err, ErrUnknown) {
		t.Errorf("zero value: %v", err)
	}
}

func TestFamilyOf(t *testing.T) {
	for model, want := range map[string]string{
		"claude-opus-4-8": Anthropic, "Claude-Sonnet-4-5": Anthropic, "opus": Anthropic, "OPUS[1m]": Anthropic, "sonnet-4": Anthropic, "haiku": Anthropic,
		"anthropic/claude-opus-4-8": Anthropic, "us.anthropic.claude-sonnet-4-v1:0": Anthropic, "anthropic.claude-x": Anthropic, "claude-x@20250514": Anthropic,
		"openrouter/anthropic/claude-opus-4": Anthropic, "anthropic/something-new": Anthropic,
		"gpt-5-codex": OpenAI, "GPT-OSS-120b": OpenAI, "chatgpt-4o": OpenAI, "codex-mini": OpenAI, "o1": OpenAI, "o3-mini": OpenAI, "openai/gpt-5": OpenAI,
		"gemini-3.5-flash": Google, "google/gemini-3-pro": Google,
		"grok-4.6": XAI, "xai/grok-4": XAI, "x-ai/grok-4": XAI,
		"cursor-grok-4.6-high": Cursor, "composer-2.5": Cursor, "auto": Cursor,
		"kimi-k2": Kimi, "moonshotai/kimi-k2": Kimi,
		"opusx": "", "o1garbage": "", "custom-model": "", "fake-chat": "", "": "", "/": "", "llama3:8b": "",
	} {
		if got := FamilyOf(model); got != want {
			t.Errorf("%q: %q, want %q", model, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	all := Capabilities{Modes: []Mode{Autonomous, ReadOnly}, Resume: true, Efforts: []string{"low"}, Families: []string{XAI}, Reserved: map[string]string{"--model": "use the model of the run"}}
	strict := all
	strict.StrictModels = true
	ok := Invocation{Prompt: "x", Dir: "/w", Mode: ReadOnly, Model: "grok-4.6", Effort: "low", Session: Session{Resume: "latest"}, Args: []string{"-x", "y"}, FilesDir: "/run"}
	if err := Validate(stub{"grok", all}, ok, Facts{}); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for _, c := range []struct {
		name string
		caps Capabilities
		inv  Invocation
		want error
		says string
	}{
		{"empty prompt", all, Invocation{}, ErrPrompt, "give a prompt"},
		{"blank prompt", all, Invocation{Prompt: " \n\t"}, ErrPrompt, "empty"},
		{"NUL", all, Invocation{Prompt: "a\x00b"}, ErrPrompt, "NUL"},
		{"mode", Capabilities{Modes: []Mode{Autonomous}}, Invocation{Prompt: "x", Mode: ReadOnly}, ErrMode, "use autonomous"},
		{"unknown mode", all, Invocation{Prompt: "x", Mode: "plan"}, ErrMode, "autonomous or read-only"},
		{"no resume", Capabilities{}, Invocation{Prompt: "x", Session: Session{Resume: "latest"}}, ErrUnsupported, "new session"},
		{"session flag", all, Invocation{Prompt: "x", Session: Session{Resume: "--last"}}, ErrSession, "latest"},
		{"session path", all, Invocation{Prompt: "x", Session: Session{Resume: "a/b"}}, ErrSession, ""},
		{"session newline", all, Invocation{Prompt: "x", Session: Session{Resume: "a\n"}}, ErrSession, ""},
		{"other family", all, Invocation{Prompt: "x", Model: "cursor-grok-4.6-high"}, ErrModel, "cursor"},
		{"blank model", all, Invocation{Prompt: "x", Model: " "}, ErrModel, "white space"},
		{"model with space", all, Invocation{Prompt: "x", Model: "grok-4 "}, ErrModel, "white space"},
		{"model flag", all, Invocation{Prompt: "x", Model: "-grok"}, ErrModel, "flag"},
		{"unknown family where the CLI guesses", strict, Invocation{Prompt: "x", Model: "__nope__"}, ErrModel, "silently"},
		{"effort", all, Invocation{Prompt: "x", Effort: "max"}, ErrArgument, "low"},
		{"no effort", Capabilities{}, Invocation{Prompt: "x", Effort: "max"}, ErrUnsupported, "leave it out"},
		{"relative", all, Invocation{Prompt: "x", Dir: "w"}, ErrArgument, "absolute"},
		{"relative files", all, Invocation{Prompt: "x", FilesDir: "w"}, ErrArgument, "absolute"},
		{"double dash", all, Invocation{Prompt: "x", Args: []string{"--"}}, ErrArgument, ""},
		{"NUL in an argument", all, Invocation{Prompt: "x", Args: []string{"a\x00"}}, ErrArgument, "NUL"},
		{"long argument", all, Invocation{Prompt: "x", Args: []string{strings.Repeat("a", MaxArg)}}, ErrArgument, "131071"},
		{"no rules", Capabilities{}, Invocation{Prompt: "x", Rules: "r"}, ErrUnsupported, "into the prompt"},
		{"other rules", Capabilities{Rules: []RuleChannel{RulesByPrompt}}, Invocation{Prompt: "x", Rules: "r", RulesBy: RulesByFile}, ErrUnsupported, "use prompt"},
		{"NUL in rules", Capabilities{Rules: []RuleChannel{RulesByPrompt}}, Invocation{Prompt: "x", Rules: "\x00"}, ErrPrompt, "NUL"},
		{"no observer", all, Invocation{Prompt: "x", Observer: true}, ErrUnsupported, "read-only"},
		{"no schema", all, Invocation{Prompt: "x", Schema: []byte("{}")}, ErrUnsupported, "in the prompt"},
		{"bad schema", Capabilities{Schema: true}, Invocation{Prompt: "x", Schema: []byte("null")}, ErrArgument, "object"},
		{"reserved", all, Invocation{Prompt: "x", Args: []string{"--model=gpt-5"}}, ErrArgument, "use the model of the run"},
	} {
		err := Validate(stub{"grok", c.caps}, c.inv, Facts{OS: "linux"})
		var e *Error
		if !errors.Is(err, c.want) || !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// What is allowed although it looks odd.
	for _, m := range []string{"my-gateway-model", "xai/next"} {
		if err := Validate(stub{"grok", all}, Invocation{Prompt: "x", Model: m}, Facts{}); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
	if err := Validate(stub{"grok", all}, Invocation{Prompt: "x", Dir: `C:\w`}, Facts{OS: "windows"}); err != nil {
		t.Errorf("windows: %v", err)
	}
}

func TestCheckArgs(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct {
		name string
		argv []string
		env  driver.Env
		goos string
		says string // "" is allowed
	}{
		{"fine", []string{"x", "y"}, driver.Env{"A": "b"}, "linux", ""},
		{"131,071", []string{"x", long(MaxArg - 1)}, nil, "linux", ""},
		{"131,072", []string{"x", long(MaxArg)}, nil, "linux", "131072"},
		{"none", nil, nil, "linux", "executable"},
		{"empty", []string{""}, nil, "linux", "executable"},
		{"NUL", []string{"x", "a\x00b"}, nil, "", "NUL"},
		{"long value", []string{"x"}, driver.Env{"A": long(MaxArg - 2)}, "linux", "variable A has"},
		{"just fits", []string{"x"}, driver.Env{"A": long(MaxArg - 3)}, "linux", ""},
		{"NUL value", []string{"x"}, driver.Env{"KEY": "se\x00cret"}, "linux", "variable KEY contains"},
		{"bad name", []string{"x"}, driver.Env{"A=B": "c"}, "linux", "name"},
		{"in all", []string{"x", long(MaxArg - 1), long(MaxArg - 1), long(MaxArg - 1), long(MaxArg - 1), long(MaxArg - 1), long(MaxArg - 1), long(MaxArg - 1), long(MaxArg - 1), "b"}, nil, "darwin", "together"},
		{"windows line", []string{"x", long(32_000)}, nil, "windows", "Windows"},
	} {
		err := CheckArgs(c.argv, c.env, c.goos)
		if c.says == "" != (err == nil) || err != nil && (!errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %.200v", c.name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "aaa") || strings.Contains(err.Error(), "cret")) {
			t.Errorf("%s: the error shows a value: %.200v", c.name, err)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		want   Class
	}{
		{401, "", Auth},
		{403, "", Auth},
		{402, "", Billing},
		{429, "", RateLimit},
		{529, "", Overloaded},
		{500, "x", Overloaded},
		{400, "x", Other},
		{0, "429 fake error 429", RateLimit},
		{0, "unexpected status 401 Unauthorized: Incorrect API key provided", Auth},
		{0, "exceeded retry limit, last status: 429 Too Many Requests", RateLimit},
		{0, "You’ve hit your usage limit. Try again later.", RateLimit},
		{429, "Quota exceeded. Check your plan and billing details.", Billing},
		{400, "Credit balance is too low", Billing},
		{0, "Not logged in · Please run /login", Auth},
		{0, "We’re currently experiencing high demand", Overloaded},
		{0, "stream disconnected before completion: Overloaded", Overloaded},
		{0, "terminated: other side closed (UND_ERR_SOCKET)", Network},
		{0, "connect ECONNREFUSED 127.0.0.1:1", Network},
		{0, "You've hit your session limit · resets 10:30pm (Europe/Berlin)", RateLimit},
		{0, "You've hit your limit · resets Apr 23 at 4pm (America/Recife)", RateLimit},
		{0, "You've hit your fast limit", RateLimit},
		{0, "You've hit your monthly spend limit. See Usage in Settings", Billing},
		{0, "You're out of usage credits. See Usage in Settings", Billing},
		{0, "getaddrinfo EAI_AGAIN api.anthropic.com", Network},
		{0, "error sending request for url (http://127.0.0.1:1/v1/responses)", Network},
		{0, "503 Service Unavailable", Overloaded},
		{0, "Unknown slash command: deploy", UnknownCommand},
		{0, "Unknown command: /deploy", UnknownCommand},
		{0, "Unknown skill: deploy", UnknownCommand},
		{0, "the unknown command was found", Other},
		{0, "wrote 429 lines", Other},
		{0, "", Other},
	} {
		if got := Classify(c.status, c.text); got != c.want {
			t.Errorf("%d %q: %s, want %s", c.status, c.text, got, c.want)
		}
	}
	f := Fail(0, "Claude AI usage limit reached|1796032840")
	if f.Class != RateLimit || f.Until == nil || f.Until.Unix() != 1796032840 {
		t.Errorf("%+v", f)
	}
	if f := Fail(0, "429 x"); f.Status != 429 || f.Until != nil {
		t.Errorf("%+v", f)
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{
		"a\n b\t\x1b[31m\u0085c": "a b [31m c",
		"":                       "",
		"\xff":                   "�",
	} {
		if got := Clip(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, s := range []string{strings.Repeat("日", 200), strings.Repeat("a", 301), strings.Repeat(" ", 5000) + "x", strings.Repeat("\xff", 5000)} {
		got := Clip(s)
		if len(got) > 300 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

func TestDoing(t *testing.T) {
	for _, c := range []struct {
		tool *Tool
		want string
	}{
		{&Tool{Name: "Bash", Command: "go test ./..."}, "running go test ./..."},
		{&Tool{Command: "/bin/bash -lc 'go vet'"}, "running go vet"},
		{&Tool{Argv: []string{"git", "status"}}, "running git status"},
		{&Tool{Files: []string{"/home/u/rein/watch/clock.go"}, Writes: true}, "editing watch/clock.go"},
		{&Tool{Files: []string{"a.go", "b.go"}}, "reading a.go and others"},
		{&Tool{Name: "Task", Spawns: true}, "working with a sub-agent"},
		{&Tool{Name: "WebSearch"}, "using WebSearch"},
		{nil, ""},
	} {
		if got := Doing(c.tool); got != c.want {
			t.Errorf("%+v: %q, want %q", c.tool, got, c.want)
		}
	}
}

func TestQuiet(t *testing.T) {
	q := Quiet(nil)
	if q["GIT_TERMINAL_PROMPT"] != "0" || q["GIT_EDITOR"] != "true" || q["PAGER"] != "cat" || !strings.Contains(q["GIT_SSH_COMMAND"], "BatchMode=yes") {
		t.Errorf("%v", map[string]string(q))
	}
	for _, own := range []string{"GIT_SSH_COMMAND", "GIT_SSH"} {
		if _, ok := Quiet(driver.Env{own: "ssh -i key"})["GIT_SSH_COMMAND"]; ok {
			t.Errorf("the user's own %s is replaced", own)
		}
	}
}
