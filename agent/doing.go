package agent

import "strings"

// Doing says in a few words what a tool call does: "running go test ./…",
// "editing watch/clock.go".
func Doing(t *Tool) string {
	switch {
	case t == nil:
		return ""
	case t.Spawns:
		return "working with a sub-agent"
	case t.Command != "":
		return "running " + phrase(unwrap(t.Command))
	case len(t.Argv) > 0:
		return "running " + phrase(strings.Join(t.Argv, " "))
	case len(t.Files) > 0:
		verb := "reading "
		if t.Writes {
			verb = "editing "
		}
		s := verb + short(t.Files[0])
		if len(t.Files) > 1 {
			s += " and others"
		}
		return s
	}
	return "using " + phrase(t.Name)
}

// phrase cuts a command to what a status line can hold.
func phrase(s string) string { return clip(s, 60) }

// unwrap takes the shell off a command of the form "/bin/bash -lc 'go test'",
// for people only: what is guarded is the whole.
func unwrap(s string) string {
	for _, opt := range []string{" -lc ", " -c "} {
		shell, script, ok := strings.Cut(s, opt)
		if ok && strings.HasSuffix(shell, "sh") && !strings.Contains(shell, " ") {
			if n := len(script); n >= 2 && (script[0] == '\'' || script[0] == '"') && script[n-1] == script[0] {
				script = script[1 : n-1]
			}
			return script
		}
	}
	return s
}

// short is the last two parts of a path.
func short(p string) string {
	p = strings.TrimRight(strings.ReplaceAll(p, `\`, "/"), "/")
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		if j := strings.LastIndexByte(p[:i], '/'); j >= 0 {
			p = p[j+1:]
		}
	}
	return phrase(p)
}
