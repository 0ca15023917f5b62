package fakeagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// askHook asks the pre-tool hooks that the arguments name, as the real CLI does
// before it runs a tool, and notes what they refuse in b. A hook that is
// missing, crashes or exits with anything but 2 is taken for a no by pi, and for a
// yes by the others.
func (a *agent) askHook(b *block) error {
	if b.Ungated {
		return nil
	}
	hook := a.hooks()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, h := range hook {
		cmd := exec.Command(h.argv[0], h.argv[1:]...)
		cmd.Stdin = bytes.NewReader(marshal(a.question(b, dir)))
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		a.waiting(func() { err = cmd.Run() })
		text := errs.String()
		if err == nil && (a.name != "pi" || strings.TrimSpace(out.String()) == "yes") {
			continue
		}
		var exit *exec.ExitError
		two := errors.As(err, &exit) && exit.ExitCode() == 2
		switch a.name {
		case "claude":
			if two {
				b.Refused = "PreToolUse:" + b.Name + " hook error: [" + h.shown + "]: " + text
			}
		case "codex":
			if two && strings.TrimSpace(text) != "" {
				b.Refused = "Command blocked by PreToolUse hook: " + strings.TrimSpace(text) + ". Command: " + b.Command
			}
		case "gemini", "qwen":
			if two {
				b.Refused = "Tool execution blocked: " + strings.TrimSpace(text)
			}
		case "copilot": // whatever is not 0 is a no
			var no struct{ PermissionDecisionReason string }
			_ = json.Unmarshal(out.Bytes(), &no)
			b.Refused = "Denied by preToolUse hook: " + firstOf(no.PermissionDecisionReason, "hook failed")
		case "grok":
			if two {
				first, _, _ := strings.Cut(text, "\n")
				b.Refused = "Hook denied: " + first
			}
		case "pi":
			b.Refused = firstOf(strings.TrimSpace(text), "refused")
		}
		if b.Refused != "" {
			return nil
		}
	}
	return nil
}

type hook struct {
	argv  []string
	shown string
}

// question is what the real CLI gives to a hook.
func (a *agent) question(b *block, dir string) object {
	switch a.name {
	case "codex":
		name, input := "Bash", any(object{"command", b.Command})
		if b.Name != "Bash" {
			name, input = "apply_patch", object{"command", "*** Begin Patch\n*** Update File: " + b.Path + "\n*** End Patch\n"}
		}
		return object{
			"session_id", "s", "turn_id", "t", "cwd", dir, "hook_event_name", "PreToolUse", "permission_mode", "bypassPermissions",
			"tool_name", name, "tool_input", input, "tool_use_id", "call_" + b.ID,
		}
	case "gemini":
		name, input := geminiCall(b)
		return object{"session_id", "s", "cwd", dir, "hook_event_name", "BeforeTool", "tool_name", name, "tool_input", input}
	case "qwen":
		name, input := qwenCall(b)
		return object{
			"session_id", "s", "cwd", dir, "hook_event_name", "PreToolUse", "permission_mode", "yolo",
			"tool_name", name, "tool_input", input, "tool_use_id", "call_" + b.ID,
		}
	case "copilot":
		return object{"sessionId", "s", "timestamp", millis(), "cwd", dir, "toolName", copilotName(b), "toolArgs", copilotArgs(b)}
	case "grok":
		return object{
			"session_id", "s", "cwd", dir, "hook_event_name", "PreToolUse", "permission_mode", "bypassPermissions",
			"tool_name", grokName(b), "tool_input", grokInput(b), "tool_use_id", "call_" + b.ID,
		}
	case "pi":
		return object{"type", "tool_call", "tool", piName(b), "id", "call_" + b.ID, "input", piArgs(b), "cwd", dir}
	}
	q := object{
		"session_id", "s", "cwd", dir, "permission_mode", "bypassPermissions", "hook_event_name", "PreToolUse",
		"tool_name", firstOf(b.Shown, b.Name), "tool_input", claudeInput(b), "tool_use_id", "toolu_" + b.ID,
	}
	if a.parent != "" {
		q = append(q, "agent_id", "a", "agent_type", "general-purpose")
	}
	return q
}

// hooks finds what the arguments say, and what a file of the repository says
// against it.
func (a *agent) hooks() (found []hook) {
	switch a.name {
	case "claude":
		type settings struct {
			Off   *bool `json:"disableAllHooks"`
			Hooks struct {
				PreToolUse []struct {
					Hooks []struct{ Command string }
				}
			}
		}
		var ours, theirs settings
		if json.Unmarshal([]byte(a.argAfter("--settings")), &ours) != nil {
			return nil
		}
		if b, err := os.ReadFile(".claude/settings.json"); err == nil {
			_ = json.Unmarshal(b, &theirs)
		}
		if off := ours.Off; off == nil && theirs.Off != nil && *theirs.Off || off != nil && *off {
			return nil
		}
		for _, m := range ours.Hooks.PreToolUse {
			for _, h := range m.Hooks {
				found = append(found, hook{shell(h.Command), h.Command})
			}
		}
	case "codex":
		if !slices.Contains(a.args, "--dangerously-bypass-hook-trust") {
			return nil // skipped in silence
		}
		for _, arg := range a.args {
			if m := codexHook.FindStringSubmatch(arg); m != nil {
				var command string
				if json.Unmarshal([]byte(m[1]), &command) == nil {
					found = append(found, hook{shell(command), command})
				}
			}
		}
	case "gemini":
		return settingsHooks(os.Getenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH"), "BeforeTool")
	case "qwen":
		return settingsHooks(os.Getenv("QWEN_CODE_SYSTEM_SETTINGS_PATH"), "PreToolUse")
	case "copilot":
		if command := copilotHook(a.argAfter("--plugin-dir")); command != "" {
			found = append(found, hook{shell(command), command})
		}
	case "grok":
		if command := grokHook(a.argAfter("--agent")); command != "" {
			found = append(found, hook{shell(command), command})
		}
	case "pi":
		b, err := os.ReadFile(a.argAfter("-e", "--extension"))
		if err != nil {
			return nil
		}
		if m := piHook.FindSubmatch(b); m != nil {
			var argv []string
			if json.Unmarshal(m[1], &argv) == nil && len(argv) > 0 {
				found = append(found, hook{argv: argv})
			}
		}
	}
	return found
}

var (
	codexHook = regexp.MustCompile(`^hooks\.PreToolUse=.*command=("(?:[^"\\]|\\.)*")`)
	piHook    = regexp.MustCompile(`(?m)^const argv = (\[.*\]);`)
)
