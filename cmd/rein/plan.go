package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/config"
	"github.com/rein-run/rein/internal/shell"
	"github.com/rein-run/rein/watch"
)

func printPlan(a *app, p *rein.Plan, cfg *config.Config, c *runCmd) error {
	if c.JSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	}
	w := bufio.NewWriter(a.stdout)
	fmt.Fprintf(w, "agent      %s %s (%s)\n", p.Agent, cmp.Or(p.Version, "of unknown version"), p.Exe)
	fmt.Fprintf(w, "model      %s\n", cmp.Or(p.Model, "the CLI's own default"))
	fmt.Fprintf(w, "mode       %s\n", p.Mode)
	fmt.Fprintf(w, "billing    %s\n", p.Billing)
	if p.Profile != "" {
		fmt.Fprintf(w, "profile    %s\n", p.Profile)
	}
	if r := p.Rules; r != nil {
		fmt.Fprintf(w, "rules      by %s, %d bytes\n", strings.TrimSpace(string(r.By)+" "+r.File), r.Bytes)
	}
	fmt.Fprintf(w, "host       %s\n", p.Host)
	fmt.Fprintf(w, "directory  %s\n", p.Dir)
	fmt.Fprintf(w, "argv       %s\n", shell.Join(p.Argv))
	fmt.Fprintf(w, "env set    %s\n", cmp.Or(strings.Join(p.Env, " "), "nothing"))
	fmt.Fprintf(w, "env unset  %s\n", unset(p.Unset))
	fmt.Fprintf(w, "files      %s\n", cmp.Or(strings.Join(p.Files, " "), "none"))
	fmt.Fprintf(w, "stdout     %s\n", c.onStdout())
	// Every clock and limit that is in force, and who said so.
	set := map[string]config.Value{}
	for _, v := range cfg.Values() {
		set[v.Key] = v
	}
	plain := watch.Clocks{}.With(agent.Capabilities{Announces: true, Tools: true}).Strings()
	row := func(what, name, value, from string) { fmt.Fprintf(w, "%-11s%-11s %s (%s)\n", what, name, value, from) }
	for _, name := range watch.Names() {
		in, v := p.Clocks[name], set[name]
		from := v.Origin.String()
		switch {
		case v.Key == "" && in != plain[name]:
			from = "for " + p.Agent
		case v.Key != "" && in != v.Text:
			from = fmt.Sprintf("cut to total; %s says %s", from, v.Text)
		}
		row("clock", name, in, from)
	}
	for _, name := range []string{"max_memory", "max_procs", "max_output", "max_tokens", "max_cost", "max_subagents"} {
		v := set[name]
		row("limit", name, cmp.Or(v.Text, "none"), v.Origin.String())
	}
	for _, note := range p.Warnings {
		fmt.Fprintf(w, "warning    %s\n", note)
	}
	for _, v := range cfg.Values() {
		if p.Clocks[v.Key] == "" && p.Limits[v.Key] == "" {
			row("setting", v.Key, v.Text, v.Origin.String())
		}
	}
	fmt.Fprintf(w, "withheld   %s\n", cmp.Or(strings.Join(withheld(p), ", "), "nothing"))
	fmt.Fprintf(w, "granted    %s\n", cmp.Or(strings.Join(granted(p), ", "), "nothing"))
	fmt.Fprintf(w, "refused by %s\n", refusers(p))
	fmt.Fprintf(w, "sandbox    %s\n", sandboxed(p.Sandbox))
	for _, gap := range p.Sandbox.Gaps {
		fmt.Fprintf(w, "not held   %s\n", gap)
	}
	fmt.Fprintf(w, "told       by the side of the prompt:\n%s", p.Told)
	fmt.Fprintf(w, "prompt     by %s, %d bytes:\n%s\n", p.By, len(p.Prompt), p.Prompt)
	return w.Flush()
}

// onStdout is what the run would write there.
func (c *runCmd) onStdout() string {
	switch {
	case c.Detach:
		return "the id of the run, which works in the background (--detach)"
	case c.Raw:
		return "the agent's own output (--raw)"
	}
	return "the answer"
}

func withheld(p *rein.Plan) []string {
	if p.Guard.Network {
		return p.Guard.Denied
	}
	return append(slices.Clone(p.Guard.Denied), "the web tools")
}

func granted(p *rein.Plan) []string {
	if !p.Guard.Network {
		return p.Guard.Granted
	}
	return append(slices.Clone(p.Guard.Granted), "the web tools")
}

// refusers says who stands in the way of what is withheld, and who does not.
func refusers(p *rein.Plan) string {
	var by, not []string
	add := func(yes bool, who, why string) {
		if yes {
			by = append(by, who)
			return
		}
		not = append(not, "not by "+who+": "+why)
	}
	add(p.Gate.Armed, "the agent's own hook, before it runs", p.Gate.Why)
	add(p.Guard.Blocked, "git and the shell", p.Guard.Why)
	return strings.Join(append(by, not...), "; ")
}

// sandboxed says what the kernel holds.
func sandboxed(s rein.Sandbox) string {
	switch {
	case s.Kind == rein.SandboxNone:
		return s.Kind
	case s.Network == rein.NetworkOpen:
		return s.Kind + "; the network is open"
	}
	return s.Kind + "; of the network " + strings.Join(s.Reach, " ")
}

// unset names the variables that are removed and are there; --json has them all.
func unset(names []string) string {
	var here []string
	for _, n := range names {
		if _, ok := os.LookupEnv(n); ok {
			here = append(here, n)
		}
	}
	return cmp.Or(strings.Join(here, " "), "nothing that is set here")
}
