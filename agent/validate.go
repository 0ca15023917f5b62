package agent

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rein-run/rein/host/driver"
)

// MaxArg is the first length, in bytes, of one argument or environment string
// that Linux refuses (MAX_ARG_STRLEN counts the NUL: 131,071 works, 131,072
// fails with E2BIG). It is used on every system, so that what works on one
// host works on all.
const MaxArg = 131_072

// Validate checks an Invocation against what the agent can do, before anything
// is started. Every Command calls it first. Its errors are *Error.
func Validate(a Agent, inv Invocation, f Facts) error {
	c := a.Capabilities(f.Version)
	fail := func(err error, value, hint string) error {
		return &Error{Agent: a.Name(), Err: err, Value: clip(value, 80), Hint: hint}
	}
	switch {
	case strings.TrimSpace(inv.Prompt) == "":
		return fail(ErrPrompt, "", "it is empty; give a prompt, or - to read it from stdin")
	case strings.ContainsRune(inv.Prompt, 0):
		return fail(ErrPrompt, "", "it contains a NUL byte; remove it")
	}
	if inv.Dir != "" && !isAbs(inv.Dir, f.OS) {
		return fail(ErrArgument, inv.Dir, "the directory must be absolute where the agent runs")
	}
	if inv.FilesDir != "" && !isAbs(inv.FilesDir, f.OS) {
		return fail(ErrArgument, inv.FilesDir, "the directory for files must be absolute where the agent runs")
	}
	if m := inv.Mode; m != "" && !slices.Contains(c.Modes, m) {
		return fail(ErrMode, string(m), "use "+or(c.Modes))
	}
	if s := inv.Session.Resume; s != "" {
		if !c.Resume {
			return fail(ErrUnsupported, "resume", "this CLI starts a new session every time")
		}
		if !sessionToken().MatchString(s) {
			return fail(ErrSession, s, `use "latest" or an id of letters, digits, '.', '_' and '-' as a report shows it`)
		}
	}
	if inv.Gate != nil && (!c.Gate || len(inv.Gate.Argv) == 0) {
		return fail(ErrUnsupported, "gate", "this version does not ask before it runs a tool")
	}
	if inv.Rules != "" {
		if strings.ContainsRune(inv.Rules, 0) {
			return fail(ErrPrompt, "", "the rules contain a NUL byte; remove it")
		}
		switch by := inv.RuleChannel(c); {
		case len(c.Rules) == 0:
			return fail(ErrUnsupported, "rules", "this CLI takes none that Rein knows of; write them into the prompt")
		case !slices.Contains(c.Rules, by):
			return fail(ErrUnsupported, "rules by "+string(by), "use "+or(c.Rules))
		}
	}
	if inv.Observer && !c.Observer {
		return fail(ErrUnsupported, "observer", "this CLI cannot be kept from the shell and from the user's configuration; use read-only mode")
	}
	if inv.Schema != nil {
		if !c.Schema {
			return fail(ErrUnsupported, "schema", "this CLI does not hold its answer to a schema; describe the form in the prompt")
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(inv.Schema, &object); err != nil || object == nil {
			return fail(ErrArgument, "schema", "it is not a JSON object")
		}
	}
	if err := checkModel(a, c, inv.Model); err != nil {
		return err
	}
	if e := inv.Effort; e != "" && !slices.Contains(c.Efforts, e) {
		if len(c.Efforts) == 0 {
			return fail(ErrUnsupported, "effort "+e, "this CLI has no effort setting; leave it out")
		}
		return fail(ErrArgument, e, "this agent's efforts are "+strings.Join(c.Efforts, ", "))
	}
	return checkUserArgs(a, c, inv.Args)
}

// sessionToken is what every CLI's session id fits in, and nothing that a
// parser could take for a flag or a path.
var sessionToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`) })

func checkUserArgs(a Agent, c Capabilities, args []string) error {
	for i, arg := range args {
		where := fmt.Sprintf("argument %d of the user's own", i+1)
		if arg == "--" {
			return &Error{Agent: a.Name(), Err: ErrArgument, Value: arg, Hint: where + " would turn Rein's options into text for the agent; leave it out"}
		}
		if strings.ContainsRune(arg, 0) {
			return &Error{Agent: a.Name(), Err: ErrArgument, Hint: where + " contains a NUL byte; remove it"}
		}
		if len(arg) >= MaxArg {
			return &Error{Agent: a.Name(), Err: ErrArgument, Hint: fmt.Sprintf("%s has %d bytes, the limit is %d; put it in a file", where, len(arg), MaxArg-1)}
		}
		flag, _, _ := strings.Cut(arg, "=")
		if hint, ok := c.Reserved[flag]; ok {
			return &Error{Agent: a.Name(), Err: ErrArgument, Value: flag, Hint: hint}
		}
	}
	return nil
}

// CheckArgs checks what a process is given against the limits of the system
// that starts it (a GOOS value; "" is the strictest of the unixes). No value
// appears in the error.
func CheckArgs(argv []string, env driver.Env, goos string) error {
	bad := func(hint string, args ...any) error {
		return &Error{Err: ErrArgument, Hint: fmt.Sprintf(hint, args...)}
	}
	if len(argv) == 0 || argv[0] == "" {
		return bad("there is no executable in it; give one")
	}
	total := 0
	for i, a := range argv {
		if strings.ContainsRune(a, 0) {
			return bad("argument %d contains a NUL byte; remove it", i)
		}
		if len(a) >= MaxArg {
			return bad("argument %d has %d bytes, the limit is %d; give it by stdin or in a file", i, len(a), MaxArg-1)
		}
		total += len(a) + 1
	}
	line := total
	for name, v := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return bad("environment variable %q: a name is not empty and has no '=' or NUL", clip(name, 80))
		}
		if strings.ContainsRune(v, 0) {
			return bad("environment variable %s contains a NUL byte; remove it", name)
		}
		n := len(name) + 1 + len(v)
		if n >= MaxArg {
			return bad("environment variable %s has %d bytes, the limit is %d; put the value in a file", name, n, MaxArg-1)
		}
		total += n + 1
	}
	switch goos {
	case "windows": // CreateProcess: 32,767 UTF-16 units for the whole line, quotes included
		if line > 32_000 {
			return bad("the command line has %d bytes, Windows takes 32,767; put the long part in a file", line)
		}
	default: // ARG_MAX is 1 MiB on macOS and, with the default stack, 2 MiB on Linux
		if total > 1<<20 {
			return bad("arguments and environment have %d bytes together, the limit is %d; put the long part in a file", total, 1<<20)
		}
	}
	return nil
}

// isAbs is filepath.IsAbs for the system where the agent runs.
func isAbs(p, goos string) bool {
	if goos == "windows" {
		return strings.HasPrefix(p, `\\`) || len(p) >= 3 && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
	}
	return path.IsAbs(p)
}

func or[T ~string](list []T) string {
	s := make([]string, len(list))
	for i, v := range list {
		s[i] = string(v)
	}
	return strings.Join(s, " or ")
}
