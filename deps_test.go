package rein_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What a user of the library links: the standard library, our own packages and
// these modules. A client that is heavier belongs into a package of its own.
var mayLink = []string{"golang.org/x/sys"}

func TestDependencies(t *testing.T) {
	for pkg, more := range map[string][]string{
		"github.com/rein-run/rein":                 nil,
		"github.com/rein-run/rein/host/hosttest":   nil,
		"github.com/rein-run/rein/agent/agenttest": nil,
		"github.com/rein-run/rein/cmd/rein-keeper": nil,
		"github.com/rein-run/rein/cmd/rein": {
			"github.com/alecthomas/kong", "github.com/goccy/go-yaml", "golang.org/x/term",
		},
	} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.Module.Path}} {{.ImportPath}}{{end}}", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			module, path, _ := strings.Cut(strings.TrimSpace(line), " ")
			if module == "" || module == "github.com/rein-run/rein" || slices.Contains(mayLink, module) || slices.Contains(more, module) {
				continue
			}
			t.Errorf("%s links %s", pkg, path)
		}
	}
}

// The keeper must start in a few milliseconds and stay small.
func TestKeeperIsLight(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/rein-run/rein/cmd/rein-keeper").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, heavy := range []string{"net/http", "crypto/tls", "github.com/rein-run/rein/agent", "github.com/rein-run/rein/store"} {
		if slices.Contains(strings.Fields(string(out)), heavy) {
			t.Errorf("the keeper links %s", heavy)
		}
	}
}

// Imports run downwards only: nobody below imports the front door or a command.
func TestImportsRunDownwards(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	const root = "github.com/rein-run/rein"
	// From the top; a package may import what stands in a later row.
	rows := [][]string{
		{"cmd/", "test/", "internal/demo"},
		{"."},
		{"config", "boundary"},
		{"watch", "meter"},
		{"transcript", "store"},
		{"agent/agenttest", "agent/claude", "agent/codex", "agent/pi"},
		{"agent"},
		{"host/hosttest", "host/local"},
		{"host"},
		{"host/keeper"},
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
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		from := row(f[0])
		for _, imp := range f[1:] {
			if !strings.HasPrefix(imp, root) || strings.Contains(imp, "/internal/") || strings.Contains(f[0], "/internal/") {
				continue
			}
			if to := row(imp); from >= 0 && to >= 0 && to < from {
				t.Errorf("%s imports %s, which stands above it", f[0], imp)
			}
		}
	}
}
