package rein_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What a user of the library links: the standard library, our own packages and
// these modules. A client that is heavier belongs into a package of its own.
var mayLink = []string{"golang.org/x/sys", "mvdan.cc/sh/v3"}

func TestDependencies(t *testing.T) {
	t.Parallel()
	std := regexp.MustCompile(`^[^/.]+(/|$)`) // the first element of any other has a dot
	for pkg, more := range map[string][]string{
		"github.com/rein-run/rein":                 nil,
		"github.com/rein-run/rein/host/hosttest":   nil,
		"github.com/rein-run/rein/agent/agenttest": nil,
		"github.com/rein-run/rein/cmd/rein-keeper": nil,
		"github.com/rein-run/rein/cmd/rein": {
			"github.com/alecthomas/kong", "github.com/goccy/go-yaml", "golang.org/x/term",
			"golang.org/x/crypto", "github.com/kevinburke/ssh_config", "github.com/skeema/knownhosts", // host/ssh
		},
		"github.com/rein-run/rein/host/remote": nil,
	} {
		may := slices.Concat([]string{"github.com/rein-run/rein"}, mayLink, more)
		for _, path := range deps(t, pkg) {
			if !std.MatchString(path) && !slices.ContainsFunc(may, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") }) {
				t.Errorf("%s links %s", pkg, path)
			}
		}
	}
}

// The keeper must start in a few milliseconds and stay small.
func TestKeeperIsLight(t *testing.T) {
	t.Parallel()
	for _, heavy := range []string{"net/http", "crypto/tls", "github.com/rein-run/rein/agent", "github.com/rein-run/rein/store"} {
		if slices.Contains(deps(t, "github.com/rein-run/rein/cmd/rein-keeper"), heavy) {
			t.Errorf("the keeper links %s", heavy)
		}
	}
}

type listed struct{ imports, deps []string }

// packages lists those of this module. One go list costs as much as a test.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func deps(t *testing.T, pkg string) []string {
	t.Helper()
	d := packages(t)[pkg].deps
	if len(d) == 0 {
		t.Fatalf("go list knows no package %s", pkg)
	}
	return d
}

var list = sync.OnceValues(func() (map[string]listed, error) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}`, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]listed{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(line, "|")
		if len(f) != 3 {
			return nil, fmt.Errorf("go list says %q", line)
		}
		all[f[0]] = listed{strings.Fields(f[1]), strings.Fields(f[2])}
	}
	return all, nil
})

// Imports run downwards only: nobody below imports the front door or a command.
func TestImportsRunDownwards(t *testing.T) {
	t.Parallel()
	const root = "github.com/rein-run/rein"
	// From the top; a package may import what stands in a later row.
	rows := [][]string{
		{"cmd/", "test/", "internal/demo"},
		{"."},
		{"config", "boundary"},
		{"watch", "meter"},
		{"transcript", "store"},
		{"agent/agenttest", "agent/claude", "agent/codex", "agent/copilot", "agent/gemini", "agent/grok", "agent/opencode", "agent/pi", "agent/qwen"},
		{"agent"},
		{"host/ssh"},
		{"host/hosttest", "host/local", "host/remote"},
		{"host"},
		{"host/keeper"},
		{"host/link"},
		{"host/driver"},
	}
	row := func(path string) int {
		rel := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		if rel == "" {
			rel = "."
		}
		best, at := -1, -1
		for i, names := range rows {
			for _, n := range names {
				if (rel == n || strings.HasPrefix(rel, strings.TrimSuffix(n, "/")+"/")) && len(n) > best {
					best, at = len(n), i
				}
			}
		}
		return at
	}
	for path, p := range packages(t) {
		from := row(path)
		for _, imp := range p.imports {
			if !strings.HasPrefix(imp, root) || strings.Contains(imp, "/internal/") || strings.Contains(path, "/internal/") {
				continue
			}
			if to := row(imp); from >= 0 && to >= 0 && to < from {
				t.Errorf("%s imports %s, which stands above it", path, imp)
			}
		}
	}
}
