//go:build unix

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The command of a hook says yes for a clear yes alone; everything else is no,
// with a text.
func TestHookShell(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a $(dir)")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body string
		ok   bool
	}{
		"yes":             {"cat > /dev/null; echo yes", true},
		"refused":         {"echo because >&2; exit 2", false},
		"refused mute":    {"exit 2", false},
		"exit 1":          {"exit 1", false},
		"exit 1 and yes":  {"echo yes; exit 1", false},
		"crash":           {"kill -SEGV $$", false},
		"garbage":         {"echo '{\"decision\":\"approve\"}'", false},
		"yes and garbage": {"echo yes; echo more", false},
		"silent":          {"exit 0", false},
		"missing":         {"", false},
		"not executable":  {"-", false},
	} {
		t.Run(name, func(t *testing.T) {
			prog := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			switch c.body {
			case "":
			case "-":
				os.WriteFile(prog, []byte("#!/bin/sh\necho yes\n"), 0o600)
			default:
				os.WriteFile(prog, []byte("#!/bin/sh\n"+c.body+"\n"), 0o700)
			}
			h := &Hook{Argv: []string{prog, "ask", "/a b"}}
			cmd := exec.Command("/bin/sh", "-c", h.Shell())
			cmd.Stdin = strings.NewReader("question")
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			cmd.Run()
			code := cmd.ProcessState.ExitCode()
			if c.ok && (code != 0 || out.String() != "") {
				t.Errorf("exit %d, stdout %q, stderr %q", code, out.String(), errs.String())
			}
			if !c.ok && (code != 2 || errs.String() == "") {
				t.Errorf("exit %d, stderr %q", code, errs.String())
			}
		})
	}
}
