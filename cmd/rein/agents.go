package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/local"
)

type agentsCmd struct {
	On   string `help:"Where to look: local: (default) or ssh://[user@]host[:port]." placeholder:"HOST"`
	JSON bool   `name:"json" help:"As JSON."`
}

func (agentsCmd) Help() string {
	return `Asks every agent's CLI for its version, its help and whether somebody is logged in; no model is
called. For a CLI that is missing, the line that installs it and the PATH that was searched are
shown; for one whose help lacks a flag that Rein uses, the flag.`
}

// found is one agent on one host.
type found struct {
	Name         string             `json:"name"`
	Installed    bool               `json:"installed"`
	Version      string             `json:"version,omitempty"`
	Exe          string             `json:"exe,omitempty"`
	Install      string             `json:"install"`
	Problem      string             `json:"problem,omitempty"`
	Capabilities agent.Capabilities `json:"capabilities"`
	// Login is what the CLI says by itself; variables count for some and not for
	// others. MissingFlags are those that Rein uses and the CLI's help no longer
	// has; Flags says whether there was a help to look at.
	Login        agent.Login `json:"login"`
	Flags        bool        `json:"flags_checked"`
	MissingFlags []string    `json:"missing_flags"`

	agent agent.Agent
}

func (c *agentsCmd) Run(a *app) error {
	on, err := where(c.On)
	if err != nil {
		return err
	}
	there, err := openHost(on)
	if err != nil {
		return err
	}
	h, short := host.New(local.New(nil), nil), tilde
	if there != nil {
		h, short = there.Host, func(path string) string { return path }
		defer there.close()
	}
	path := ""
	place, err := h.Look(context.Background(), "", nil)
	switch {
	case err == nil:
		path = place.Path
	case there != nil: // every agent would tell the same
		return startError{err}
	}
	var all []found
	for _, ag := range rein.Agents().All() {
		all = append(all, found{Name: ag.Name(), agent: ag})
	}
	examine(h, there.named(), all, probeCache(a.stateDir))
	if c.JSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Schema string  `json:"schema"`
			Host   string  `json:"host"`
			Path   string  `json:"path"`
			Agents []found `json:"agents"`
		}{"rein.agents/1", there.named(), path, all})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	missing := false
	for _, f := range all {
		switch {
		case f.Installed:
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Name, cmp.Or(f.Version, "unknown version"), login(f.Login), can(f.Capabilities), short(f.Exe))
		case f.Problem != "":
			fmt.Fprintf(w, "%s\tbroken\t\t%s\t\n", f.Name, f.Problem)
		default:
			missing = true
			fmt.Fprintf(w, "%s\tmissing\t\tinstall: %s\t\n", f.Name, f.Install)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, f := range all {
		if len(f.MissingFlags) > 0 {
			fmt.Fprintf(a.stderr, "rein: the help of %s %s does not have %s: what needs that may fail (install: %s)\n", f.Name, f.Version, strings.Join(f.MissingFlags, ", "), f.Install)
		}
	}
	if missing {
		fmt.Fprintf(a.stderr, "rein: searched PATH %s\n", path)
	}
	return nil
}

// can is what an agent can do, in a few words.
func can(c agent.Capabilities) string {
	var words []string
	for _, m := range c.Modes {
		words = append(words, string(m))
	}
	for _, w := range []struct {
		ok   bool
		word string
	}{{c.Resume, "resume"}, {len(c.Efforts) > 0, "effort"}, {c.Tools, "tools seen"}, {c.Usage, "tokens"}, {c.Cost, "cost"}, {len(c.Rules) > 0, "rules"}, {c.Observer, "observer"}, {c.Schema, "schema"}} {
		if w.ok {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ", ")
}
