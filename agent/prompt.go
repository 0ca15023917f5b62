package agent

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rein-run/rein/host/driver"
)

// PromptFile is the base name of the file that a prompt becomes when it is
// larger than the CLI takes.
const PromptFile = "prompt.md"

// StdinPrompt fills c with a prompt that the CLI reads from stdin: nothing of
// it is in argv, which every user of the machine can read. A prompt beyond max
// bytes (0: no limit) becomes a file in inv.FilesDir, and stdin points to it.
func (c *Command) StdinPrompt(name string, inv Invocation, f Facts, max int64) error {
	if max <= 0 || int64(len(inv.Prompt)) <= max {
		c.Stdin = []byte(inv.Prompt)
		return nil
	}
	if inv.FilesDir == "" {
		return &Error{Agent: name, Err: ErrPrompt, Hint: fmt.Sprintf(
			"it has %d bytes and the CLI takes %d; put it in a file and point to that", len(inv.Prompt), max)}
	}
	file := Join(f.OS, inv.FilesDir, PromptFile)
	c.Files = append(c.Files, File{Name: PromptFile, Data: []byte(inv.Prompt)})
	c.Stdin = fmt.Appendf(nil, "Your task is in the file %s (%d bytes). Read all of it first, in parts if it is long, and then do what it says.\n", file, len(inv.Prompt))
	return nil
}

// LimitsBehindPrompt is the invocation with its limits at the end of the prompt:
// for a CLI that has no better place, or whose place the user's own Args take.
func (inv Invocation) LimitsBehindPrompt() Invocation {
	if inv.Limits != "" {
		inv.Prompt = strings.TrimRight(inv.Prompt, "\n") + "\n\n" + inv.Limits
		inv.Limits = ""
	}
	return inv
}

// Takes says whether the user's Args hold one of the flags.
func (inv Invocation) Takes(flags ...string) bool {
	return slices.ContainsFunc(inv.Args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains(flags, name)
	})
}

// Join is filepath.Join for the system where the agent runs.
func Join(goos, dir, name string) string {
	if goos == "windows" {
		return strings.TrimRight(dir, `\/`) + `\` + name
	}
	return path.Join(dir, name)
}

// Quiet returns the variables that keep git and pagers from waiting for a
// person who is not there: an agent that hung on a git editor or on an SSH
// question was found after hours. env is what the command would see without
// them; they belong over what is inherited and under what the user asks for.
func Quiet(env driver.Env) driver.Env {
	q := driver.Env{
		"GIT_TERMINAL_PROMPT": "0",
		"GIT_EDITOR":          "true",
		"GIT_SEQUENCE_EDITOR": "true",
		"GIT_PAGER":           "cat",
		"PAGER":               "cat",
	}
	// A user's own command may carry a key or a jump host: it stays.
	_, command := env["GIT_SSH_COMMAND"]
	_, program := env["GIT_SSH"]
	if !command && !program {
		q["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"
	}
	return q
}

// Nested returns the variables by which coding agents mark the commands they
// run. An agent that finds them believes that it runs inside another one:
// claude refuses, reports to a foreign socket or takes a foreign session. They
// are removed, never set to "" or "false". Seen in the tool environments of
// claude 2.1.332, codex 0.171.0, pi 0.73.1 and 1.6.0.
func Nested() []string {
	return []string{
		"AI_AGENT",
		"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_SSE_PORT",
		"CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_CHILD_NOTES_DIR",
		"CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN", "CLAUDE_EFFORT", "CLAUDE_PID",
		"CODEX_CI", "CODEX_SESSION_ID", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID", "CODEX_VERSION",
		"CODEX_MANAGED_BY_NPM", "CODEX_MANAGED_PACKAGE_ROOT", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED",
		"PI_CODING_AGENT", "PI_MODEL", "PI_PROVIDER", "PI_REASONING_LEVEL", "PI_SESSION_FILE", "PI_SESSION_ID",
		"GEMINI_CLI", "QWEN_CODE", "CURSOR_AGENT", "OPENCODE",
		"GROK_AGENT", "GROK_SESSION_ID",
		"COPILOT_CLI", "COPILOT_AGENT_SESSION_ID", "COPILOT_CLI_BINARY_VERSION", "COPILOT_CLI_RESOLVED_DIST_DIR",
	}
}

// Clip shortens a text of the agent for a Reading: one line, at most 300
// bytes, valid UTF-8, no control characters.
func Clip(s string) string { return clip(s, 300) }

func clip(s string, max int) string {
	const tail = "…"
	head := s
	if len(head) > 4*max {
		head = head[:4*max] // bounds the work on hostile input
	}
	head = strings.ToValidUTF8(head, "�")
	head = strings.Join(strings.FieldsFunc(head, func(r rune) bool { return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
	if len(head) <= max && len(s) <= 4*max {
		return head
	}
	if len(head) > max-len(tail) {
		head = head[:max-len(tail)]
		for len(head) > 0 {
			if r, n := utf8.DecodeLastRuneInString(head); r != utf8.RuneError || n != 1 {
				break
			}
			head = head[:len(head)-1]
		}
	}
	return head + tail
}
