package git

import (
	"context"
	"fmt"
	"strings"
)

// Setting is one line of a configuration.
type Setting struct {
	Scope string // system, global, local, worktree or command
	File  string // where it stands, as git names it; "" for command
	Key   string // section and name in lower case, subsection as it is
	Value string
	Empty bool // it has no value at all, which git reads as true
}

// Config lists the configuration that holds in dir, in the order in which git
// reads it: of two lines for a single value the later one counts. Files that are
// included are in it.
func Config(ctx context.Context, run Runner, dir string) ([]Setting, error) {
	out, err := run.git(ctx, dir, "config", "--includes", "--list", "--null", "--show-scope", "--show-origin")
	if err != nil {
		return nil, err
	}
	f := strings.Split(string(out), "\x00")
	if len(f)%3 != 1 {
		return nil, fmt.Errorf("git config in %s: cannot be understood", dir)
	}
	all := make([]Setting, 0, len(f)/3)
	for ; len(f) >= 3; f = f[3:] {
		s := Setting{Scope: f[0]}
		s.File, _ = strings.CutPrefix(f[1], "file:")
		if s.Scope == "command" {
			s.File = ""
		}
		s.set(f[2])
		all = append(all, s)
	}
	return all, nil
}

// FromEnv counts the settings that came from the environment where git ran, by
// GIT_CONFIG_COUNT: those of our own command line stand in all beside them.
func FromEnv(all []Setting) int {
	n := 0
	for _, s := range all {
		if s.Scope == "command" {
			n++
		}
	}
	for _, a := range safe {
		if a == "-c" {
			n--
		}
	}
	return max(n, 0)
}

// ConfigFile lists what one file says, without what it includes, also where git
// refuses the repository that it belongs to. File and Scope are not set.
func ConfigFile(ctx context.Context, run Runner, file string) ([]Setting, error) {
	out, err := run.gitWith(ctx, root, nowhere, "config", "--no-includes", "--list", "--null", "--file", file)
	if err != nil {
		return nil, err
	}
	var all []Setting
	for e := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if e != "" {
			var s Setting
			s.set(e)
			all = append(all, s)
		}
	}
	return all, nil
}

func (s *Setting) set(entry string) {
	var ok bool
	s.Key, s.Value, ok = strings.Cut(entry, "\n")
	s.Empty = !ok
}

// root is a directory that is there on every host, and nowhere makes git see no
// repository at all: neither one that root may be in, nor its configuration.
const root = "/"

var nowhere = []string{"--git-dir=/dev/null"}
