// Package guard says what an agent may not do, as one value, and judges the
// commands that it wants to run.
//
// The same Policy feeds the prompt, the CLI's own denial flags, its pre-tool
// hook and the report, so they cannot disagree. It judges a command by reading
// it as a shell would: it is made against honest mistakes and the known ways
// around a list of words. It is no sandbox. It sees a string and no files: a
// script that stands on disk, a Makefile, a test, `python -c` or a symbolic
// link can do what the string does not say. What counts in the end is the
// check of the repository after the run.
package guard

import (
	"fmt"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// Level is what follows when a rule is met.
type Level string

const (
	Allow Level = "allow" // nothing: the rule is off
	Warn  Level = "warn"  // it runs, and the report says so
	Deny  Level = "deny"  // it is refused before it runs, and the agent is told why; where it cannot be refused before, the run is halted
	Halt  Level = "halt"  // the run is halted
)

func (l Level) rank() int {
	switch l {
	case Warn:
		return 1
	case Deny:
		return 2
	case Halt:
		return 3
	}
	return 0
}

func (l Level) valid() bool { return l == Allow || l.rank() > 0 }

// Config is what a user says. The zero value is the default policy.
type Config struct {
	// Allow lifts denied commands one by one: "gh pr review". A name that
	// lifts nothing, and one that nobody may lift, is an *Error.
	Allow []string
	// Commits allows commits on the run's own branch: everything of the rule
	// git-commit. Branches, tags and other references stay as they are.
	Commits bool
	// Network opens the web tools of the agent and nothing else.
	Network bool
	// Packs are sets of rules that are off by default: see Packs.
	Packs []string
	// Rules are the user's own.
	Rules []Rule
	// Levels changes the level of built-in rules and of those of packs by
	// name: see Policy.Rules. What nobody may lift cannot go below Deny.
	Levels map[string]Level
}

// Rule is one thing that may not happen.
type Rule struct {
	// Name is what Verdict.Rule, Config.Levels and the report say; "" is Command.
	Name string
	// Command is the beginning of a command, in words: "npm publish". Options
	// between the words, and a value behind such an option, do not hide it:
	// "npm --registry x publish" is the same. A word that begins with "-" must
	// be there, anywhere: "terraform apply -auto-approve". Built-in rules that
	// are no list of words have none.
	Command string
	Level   Level // "" is Deny
	// Reason is one sentence for the agent: why, and what to do instead.
	Reason string
}

// Place is where a command would run. Its paths are absolute and mean that
// machine; they are compared as text, since links there cannot be known. Paths
// of Windows are not understood: there the guard looks for words only.
type Place struct {
	// Dir is the directory of the run: what is in it may be deleted, and the
	// repository that it belongs to is the protected one.
	Dir string
	// Cwd is where this command starts, when that is known to be elsewhere: some
	// agents keep a shell, whose cd stays. "" is Dir.
	Cwd string
	// Tree is the top of the working tree that Dir belongs to; "" is Dir. What
	// is in it may be deleted too.
	Tree string
	// Repos are more directories of the protected repository: its main
	// checkout when Tree is a linked one, its common directory.
	Repos []string
	// Remotes are the URLs and paths of the protected repository's remotes.
	Remotes []string
	Home    string
	// Temp are the directories for temporary files; nil is /tmp, /private/tmp
	// and TMPDIR. What is strictly inside may be deleted, and repositories
	// inside that are not the protected one may be committed to.
	Temp []string
	// Env is what the agent's commands see, as far as it is known.
	Env driver.Env
	OS  string // GOOS; "" is not Windows
}

// Verdict is what was found. The zero value allows.
type Verdict struct {
	Level Level  // "" is Allow
	Rule  string // name of the rule
	// Reason is one or two sentences for the agent: what was refused and what to
	// do instead.
	Reason string
	// Evidence is the command that was found inside what was given, at most
	// 300 bytes. It may hold what the agent wrote into its command: redact it
	// like everything that is derived.
	Evidence string
}

// Refused says that the command must not run.
func (v Verdict) Refused() bool { return v.Level.rank() >= Deny.rank() }

func (v Verdict) String() string {
	if v.Level.rank() == 0 {
		return string(Allow)
	}
	return fmt.Sprintf("%s %s: %s", v.Level, v.Rule, v.Evidence)
}

// Policy is the one value. It does not change and is safe for concurrent use.
type Policy struct {
	builtin map[string]Rule
	rules   []Rule           // of packs and the user, in order
	levels  map[string]Level // of all rules, by name
	lifted  map[string]bool  // commands that were granted
	granted []string
	off     []string
	commits bool
	network bool
	names   map[string]bool // first words of rules
}

// maxInput is how much of one command is read. A larger one is hardly a
// command: it is searched for words.
const maxInput = 1 << 20

// Judge says what follows from a tool call. It takes some 10 µs for an
// ordinary command, and a bounded time for any: at most a few seconds for one
// that was built to be slow. It never panics on what an agent wrote.
func (p *Policy) Judge(t agent.Tool, in Place) (v Verdict) {
	defer func() {
		// The supervisor must outlive every command, and what could not be judged
		// must not run.
		if recover() != nil {
			v = Verdict{
				Level: Deny, Rule: ruleUnparsed, Reason: "This command could not be judged, so it is refused. Write it more simply.",
				Evidence: agent.Clip(clipped(t.Command) + strings.Join(t.Argv[:min(len(t.Argv), 32)], " ")),
			}
		}
	}()
	return p.judge(t, in)
}

func (p *Policy) judge(t agent.Tool, in Place) Verdict {
	w := &walk{p: p, in: prepare(in)}
	s := &state{dirs: []string{w.in.cwd}}
	if web(t.Name) {
		w.hit(ruleWeb, []string{t.Name})
	}
	if t.Writes {
		for _, f := range t.Files {
			w.writes(s, sanitize(f), []string{t.Name, f})
		}
	}
	switch {
	case t.Command != "" && (in.OS == "windows" || strings.EqualFold(t.Name, "powershell")):
		// Neither PowerShell nor cmd is read as what it is.
		w.scan(s, clipped(t.Command))
	case t.Command != "":
		w.program(s, sanitize(t.Command), "")
	case len(t.Argv) > 0:
		argv := make([]string, 0, len(t.Argv))
		for _, a := range t.Argv[:min(len(t.Argv), maxFields)] {
			argv = append(argv, sanitize(a))
		}
		w.exec(s, argv, "")
	}
	if w.over {
		// Too much to follow: built to be so, or a program rather than a
		// command. What was skipped is at least searched.
		w.over, w.ops = false, 0
		text := t.Command
		if text == "" {
			text = strings.Join(t.Argv, " ")
		}
		w.hit(ruleUnparsed, []string{clipped(text)})
		w.scan(s, clipped(text))
	}
	return w.best
}

// web says whether a tool fetches from the web by itself.
func web(name string) bool {
	b := make([]byte, 0, 32)
	for i := 0; i < len(name) && i < 64; i++ {
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z':
			b = append(b, c+'a'-'A')
		case c >= 'a' && c <= 'z':
			b = append(b, c)
		}
	}
	switch string(b) {
	case "webfetch", "websearch", "googlewebsearch", "fetchurl", "urlfetch":
		return true
	}
	return false
}

func clipped(s string) string { return s[:min(len(s), maxInput)] }
