package agent

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rein-run/rein/internal/typo"
)

// Registry is the set of agents that a program knows. It is a value: there is
// no global one, and a copy is as good as the original. The zero value knows
// none. It is safe for concurrent use once made.
type Registry struct {
	agents []Agent // sorted by name
}

// New makes a Registry. Of two agents with one name the later one stands, so a
// program can replace an agent that came with Rein.
func New(agents ...Agent) Registry {
	var r Registry
	for _, a := range agents {
		i, found := slices.BinarySearchFunc(r.agents, a.Name(), byName)
		if found {
			r.agents[i] = a
			continue
		}
		r.agents = slices.Insert(r.agents, i, a)
	}
	return r
}

func byName(a Agent, name string) int { return cmp.Compare(a.Name(), name) }

// All returns the agents, sorted by name.
func (r Registry) All() []Agent { return slices.Clone(r.agents) }

// Names returns the names, sorted.
func (r Registry) Names() []string {
	names := make([]string, len(r.agents))
	for i, a := range r.agents {
		names[i] = a.Name()
	}
	return names
}

// Lookup finds an agent by its name or one of its aliases, in any case. An
// unknown name is an *Error (ErrUnknown) that names what is known and the
// nearest to what was typed.
func (r Registry) Lookup(name string) (Agent, error) {
	want := strings.ToLower(strings.TrimSpace(name))
	// Names first: no alias may hide an agent.
	for _, a := range r.agents {
		if a.Name() == want {
			return a, nil
		}
	}
	for _, a := range r.agents {
		if slices.Contains(a.Capabilities("").Aliases, want) {
			return a, nil
		}
	}
	hint := "no agents are registered"
	if len(r.agents) > 0 {
		hint = "known are " + strings.Join(r.Names(), ", ")
	}
	if near := r.near(want); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return nil, &Error{Err: ErrUnknown, Value: name, Hint: hint}
}

// near returns the known name that a typing mistake would explain, or "".
func (r Registry) near(want string) string {
	if len(want) < 2 || len(want) > 64 {
		return ""
	}
	best, bestAt := "", 3 // at most two edits away
	for _, a := range r.agents {
		for _, name := range append([]string{a.Name()}, a.Capabilities("").Aliases...) {
			d := typo.Distance(want, name)
			if strings.HasPrefix(name, want) || strings.HasPrefix(want, name) {
				d = min(d, 1)
			}
			if d < bestAt && d < len(name) {
				best, bestAt = a.Name(), d
			}
		}
	}
	return best
}
