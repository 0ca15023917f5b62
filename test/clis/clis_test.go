package clis

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPins: the versions that the tests speak of are the ones that are locked,
// exactly, and no lock file names the registry that it was made with.
func TestPins(t *testing.T) {
	if len(Names) != len(known) {
		t.Fatalf("%d names, %d known", len(Names), len(known))
	}
	for _, name := range Names {
		var p struct {
			Dependencies map[string]string
			Optional     map[string]string `json:"optionalDependencies"`
		}
		b, err := pins.ReadFile(name + "/package.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		var versions []string
		for _, deps := range []map[string]string{p.Dependencies, p.Optional} {
			for dep, v := range deps {
				if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(v) {
					t.Errorf("%s: %s is not pinned: %s", name, dep, v)
				}
				versions = append(versions, v)
			}
		}
		if !slices.Contains(versions, known[name].version) {
			t.Errorf("%s: %s is not among %v", name, known[name].version, versions)
		}
		lock, err := pins.ReadFile(name + "/package-lock.json")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(lock), `"resolved"`) {
			t.Errorf("%s: the lock file names a registry: npm install --package-lock-only --omit-lockfile-registry-resolved", name)
		}
	}
}
