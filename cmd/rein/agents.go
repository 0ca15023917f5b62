package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/local"
)

type agentsCmd struct {
	On   string `help:"Where to look: local: (default) or ssh://[user@]host[:port]." placeholder:"HOST"`
	JSON bool   `name:"json" help:"As JSON."`
}

func (agentsCmd) Help() string {
	return `Asks every agent's CLI for its version; no model is called. For a CLI that is missing, the
line that installs it and the PATH that was searched are shown.`
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
		f := found{Name: ag.Name(), Install: ag.Capabilities("").Install}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		facts, err := agent.Probe(ctx, h, ag, nil)
		cancel()
		switch {
		case err == nil:
			f.Installed, f.Version, f.Exe = true, facts.Version, facts.Exe
		case !errors.Is(err, driver.ErrNotFound):
			f.Problem = oneLine(err)
		}
		f.Capabilities = ag.Capabilities(f.Version)
		all = append(all, f)
	}
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
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, cmp.Or(f.Version, "unknown version"), can(f.Capabilities), short(f.Exe))
		case f.Problem != "":
			fmt.Fprintf(w, "%s\tbroken\t%s\t\n", f.Name, f.Problem)
		default:
			missing = true
			fmt.Fprintf(w, "%s\tmissing\tinstall: %s\t\n", f.Name, f.Install)
		}
	}
	if err := w.Flush(); err != nil {
		return err
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
	}{{c.Resume, "resume"}, {len(c.Efforts) > 0, "effort"}, {c.Tools, "tools seen"}, {c.Usage, "tokens"}, {c.Cost, "cost"}} {
		if w.ok {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ", ")
}
