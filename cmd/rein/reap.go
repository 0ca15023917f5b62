package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host/driver"
)

type reapCmd struct {
	JSON bool `name:"json" help:"What was done, as JSON."`
}

func (reapCmd) Help() string {
	return `A rein that was killed leaves its keepers to end the agents within seconds. Reap finishes
the reports of such runs, with usage and boundary, ends what is provably theirs and still
alive, and names what it could not prove. Every rein run does the same before it starts.`
}

func (c *reapCmd) Run(a *app) error {
	s, err := a.store()
	if err != nil {
		return err
	}
	done, err := rein.Reap(context.Background(), s, rein.Agents())
	if err != nil {
		return err
	}
	if c.JSON {
		if done == nil {
			done = []rein.Reaped{}
		}
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(done)
	}
	if len(done) == 0 {
		fmt.Fprintln(a.stdout, "nothing to reap")
		return nil
	}
	failed := false
	for _, r := range done {
		line := []string{r.ID, "report finished"}
		if len(r.Ended) > 0 {
			line = append(line, "ended "+procs(r.Ended))
		}
		if r.Report != nil && len(r.Report.Survivors) > 0 {
			line = append(line, "could not end "+procs(r.Report.Survivors))
			failed = true
		}
		if len(r.Unproven) > 0 {
			line = append(line, "left alone, not proved to be its own: "+procs(r.Unproven))
		}
		if r.Err != nil {
			line = append(line, "problem: "+oneLine(r.Err))
			failed = true
		}
		fmt.Fprintln(a.stdout, strings.Join(line, " · "))
	}
	if failed {
		return exitCode(rein.ExitSurvivors)
	}
	return nil
}

func procs(ps []driver.Proc) string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = fmt.Sprintf("%s (%d)", p.Name, p.PID)
	}
	return strings.Join(names, ", ")
}
