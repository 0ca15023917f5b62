package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/cmd/rein/internal/tui"
	"github.com/rein-run/rein/store"
)

type runsCmd struct {
	List   runsList   `cmd:"" default:"withargs" help:"List runs, newest first."`
	Show   runsShow   `cmd:"" help:"The report of one run."`
	Tail   runsTail   `cmd:"" help:"The end of a transcript; -f follows it."`
	Answer runsAnswer `cmd:"" help:"The agent's final answer."`
	Tools  runsTools  `cmd:"" help:"The tool calls of a run, one a line."`
	Usage  runsUsage  `cmd:"" help:"Tokens and money of a run."`
	Replay runsReplay `cmd:"" help:"The transcript again, at the pace it was written."`
	Attach runsAttach `cmd:"" help:"Watch a run that is under way; Ctrl-C lets it go on."`
	Stop   runsStop   `cmd:"" help:"End a run that is under way."`
	Extend runsExtend `cmd:"" help:"Give a clock of a run more time."`
	Rm     runsRm     `cmd:"" help:"Remove runs that are over."`
	GC     runsGC     `cmd:"" name:"gc" help:"Remove old runs."`
}

func (runsCmd) Help() string {
	return `Examples:
  rein runs                              the newest 20
  rein runs list --label ci=42 --json    for a program
  rein runs show last                    the report of the newest one
  rein runs tail -f r1m8                 a beginning of an id is enough
  rein runs extend last 30m --clock idle
  rein runs stop last
  rein runs gc --older-than 168h --keep 5`
}

type runsList struct {
	Label []string `short:"l" help:"Only runs with this label; may be repeated." placeholder:"K=V" sep:"none"`
	All   bool     `help:"All of them, not only the newest 20."`
	JSON  bool     `name:"json" help:"One JSON object a line."`
}

// listed is what is read of a run.json for a list: a live state or a report.
type listed struct {
	Schema    string            `json:"schema"`
	ID        string            `json:"id"`
	Labels    map[string]string `json:"labels"`
	Agent     string            `json:"agent"`
	Dir       string            `json:"dir"`
	StartedAt time.Time         `json:"started_at"`
	EndedAt   time.Time         `json:"ended_at"`
	OK        bool              `json:"ok"`
	End       rein.End          `json:"end"`
	Failure   string            `json:"failure"`
	Attempt   int               `json:"attempt"`
	RetryOf   string            `json:"retry_of"`
	Waiting   *rein.Pause       `json:"waiting,omitempty"` // live: it begins then
	State     string            `json:"state"`             // live, lost or ended; not in the file
}

func (c *runsList) Run(a *app) error {
	s, err := a.store()
	if err != nil {
		return err
	}
	finishOthers(context.Background(), s, a.stderr)
	entries, err := s.List()
	if err != nil {
		return err
	}
	var rows []listed
	var damaged []string
	for _, e := range entries {
		l := listed{}
		err := e.Err
		if err == nil {
			_, err = e.Run.ReadState(&l)
		}
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) || exists(e.Run.Dir()) { // not removed meanwhile
				damaged = append(damaged, e.ID)
			}
			continue
		}
		ended := l.Schema == rein.ReportSchema
		l.Schema, l.ID = "rein.listed/1", e.ID
		if !matches(l.Labels, c.Label) {
			continue
		}
		switch {
		case ended:
			l.State = "ended"
		case e.Live:
			l.State = "live"
		default:
			l.State = "lost"
		}
		rows = append(rows, l)
	}
	if len(damaged) > 0 {
		more := ""
		if n := len(damaged) - 5; n > 0 {
			damaged, more = damaged[:5], fmt.Sprintf(" (and %d more)", n)
		}
		fmt.Fprintf(a.stderr, "rein: damaged and not listed%s, to be removed with: rein runs rm %s\n", more, strings.Join(damaged, " "))
	}
	hidden := 0
	if n := 20; !c.All && !c.JSON && len(rows) > n {
		hidden = len(rows) - n
		rows = rows[:n]
	}
	if c.JSON {
		enc := json.NewEncoder(a.stdout)
		for _, l := range rows {
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	if !exists(s.Runs()) && a.stateDir != "" {
		fmt.Fprintf(a.stderr, "rein: no runs: nothing was ever kept in %s\n", s.Dir)
		return nil
	}
	if len(rows) == 0 && len(c.Label) > 0 {
		fmt.Fprintln(a.stderr, "rein: no run has this label")
		return nil
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.stderr, `rein: no runs yet: rein run "what to do"`)
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	for _, l := range rows {
		took := l.EndedAt.Sub(l.StartedAt)
		what := "ok"
		switch {
		case l.State == "live" && l.Waiting != nil:
			what, took = fmt.Sprintf("waiting until %s for attempt %d (%s)", tui.ClockTime(l.Waiting.Until), l.Attempt, l.Waiting.Reason), time.Since(l.StartedAt)
		case l.State == "live":
			what, took = "working", time.Since(l.StartedAt)
		case l.State == "lost":
			what, took = "lost", 0
		case !l.OK:
			what = cmp.Or(l.Failure, string(l.End.Kind))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.StartedAt.Local().Format("Jan _2 15:04"), took.Round(time.Second),
			l.Agent, tui.Fit(tui.Clean(what), 60), tui.Clean(tilde(l.Dir)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if hidden > 0 {
		fmt.Fprintf(a.stderr, "rein: %d older runs: --all\n", hidden)
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func matches(labels map[string]string, want []string) bool {
	for _, w := range want {
		k, v, has := strings.Cut(w, "=")
		got, ok := labels[k]
		if !ok || has && got != v {
			return false
		}
	}
	return true
}

// one finds a run by its id, a unique beginning of it, or "last".
func one(a *app, id string) (*store.Store, *store.Run, error) {
	s, err := a.store()
	if err != nil {
		return nil, nil, err
	}
	if id == "last" {
		entries, err := s.List()
		if err != nil {
			return nil, nil, err
		}
		if len(entries) == 0 {
			return nil, nil, usage("there are no runs")
		}
		id = entries[0].ID
	}
	r, err := s.Get(id)
	if err != nil {
		if !exists(s.Runs()) && a.stateDir != "" {
			err = fmt.Errorf("no run %s: nothing was ever kept in %s", id, s.Dir)
		}
		return nil, nil, usageError{err}
	}
	return s, r, nil
}

// ended reads the report of a run that is over.
func ended(a *app, id string) (*store.Run, *rein.Report, error) {
	s, r, err := one(a, id)
	if err != nil {
		return nil, nil, err
	}
	if !s.Live(r.ID()) {
		finishOthers(context.Background(), s, a.stderr)
	}
	var rep rein.Report
	if _, err := r.ReadState(&rep); err != nil {
		return nil, nil, err
	}
	if rep.Schema != rein.ReportSchema {
		return nil, nil, fmt.Errorf("%s is under way: rein runs attach %s", r.ID(), r.ID())
	}
	if rep.End.Kind == rein.Lost {
		if names, err := rein.UnknownSecrets(r); err == nil && len(names) > 0 {
			fmt.Fprintf(a.stderr, "rein: %s lost its rein, and with it the value of %s: it is not redacted here\n", rep.ID, strings.Join(names, ", "))
		}
	}
	return r, &rep, nil
}

type runsShow struct {
	ID   string `arg:"" help:"Id, a unique beginning of it, or 'last'."`
	JSON bool   `name:"json" help:"The report as it is on disk."`
}

func (c *runsShow) Run(a *app) error {
	r, rep, err := ended(a, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	fmt.Fprintf(a.stdout, "%s  %s %s  %s\n", rep.ID, rep.Agent, rep.AgentVersion, cmp.Or(rep.ModelUsed, rep.Model))
	tui.Summary(a.stdout, rep, tilde(r.Dir()), false)
	if rep.Answer != "" {
		fmt.Fprintf(a.stdout, "\n%s\n", a.clean(rep.Answer))
	}
	return nil
}

type runsAnswer struct {
	ID string `arg:"" help:"Id, a unique beginning of it, or 'last'."`
}

func (c *runsAnswer) Run(a *app) error {
	_, rep, err := ended(a, c.ID)
	if err != nil {
		return err
	}
	if rep.Answer == "" {
		return fmt.Errorf("%s gave no answer: %s", rep.ID, rep.Failure)
	}
	fmt.Fprintln(a.stdout, a.clean(rep.Answer))
	return nil
}

type runsUsage struct {
	ID   string `arg:"" help:"Id, a unique beginning of it, or 'last'."`
	JSON bool   `name:"json" help:"As JSON."`
}

func (c *runsUsage) Run(a *app) error {
	_, rep, err := ended(a, c.ID)
	if err != nil {
		return err
	}
	u := rep.Usage
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(u)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	for _, row := range []struct {
		what string
		n    int64
	}{
		{"input", u.InputTokens},
		{"cache write", u.CacheWriteTokens},
		{"cache read", u.CacheReadTokens},
		{"output", u.OutputTokens},
		{"delegated", u.DelegatedTokens},
		{"sub-agents", int64(u.Subagents)},
		{"tool calls", int64(u.ToolCalls)},
	} {
		fmt.Fprintf(w, "%s\t%d\t\n", row.what, row.n)
	}
	if u.CostSource != "none" {
		fmt.Fprintf(w, "cost (%s)\t$%.4f\t\n", tui.Source(u), u.CostUSD)
	}
	return w.Flush()
}

type runsStop struct {
	ID   string `arg:"" help:"Id, a unique beginning of it, or 'last'."`
	Kill bool   `help:"Without the grace."`
}

func (c *runsStop) Run(a *app) error {
	s, r, err := one(a, c.ID)
	if err != nil {
		return err
	}
	if next := laterAttempt(s, r.ID()); next != nil {
		r = next
	}
	m, err := rein.Attach(s, r.ID())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := m.Stop(ctx, c.Kill); err != nil {
		return err
	}
	<-over(ctx, s, r.ID(), true)
	if s.Live(r.ID()) {
		return fmt.Errorf("%s was told to stop and has not ended within 30s: rein runs stop --kill %s", r.ID(), r.ID())
	}
	fmt.Fprintf(a.stderr, "rein: %s stopped\n", r.ID())
	return nil
}

// laterAttempt is the live attempt on the task whose first one that was, when
// that one is over: who names the id that was printed means the task. nil when
// there is none.
func laterAttempt(s *store.Store, first string) *store.Run {
	if s.Live(first) {
		return nil
	}
	all, err := s.List()
	if err != nil {
		return nil
	}
	for _, e := range all {
		var l listed
		if !e.Live {
			continue
		}
		if _, err := e.Run.ReadState(&l); err == nil && l.RetryOf == first {
			return e.Run
		}
	}
	return nil
}

type runsExtend struct {
	ID    string `arg:"" help:"Id, a unique beginning of it, or 'last'."`
	By    span   `arg:"" help:"How much more, e.g. 10m."`
	Clock string `default:"total" enum:"startup,idle,tool,stall,total,completion" help:"Which clock (${enum})."`
}

func (c *runsExtend) Run(a *app) error {
	s, r, err := one(a, c.ID)
	if err != nil {
		return err
	}
	m, err := rein.Attach(s, r.ID())
	if err != nil {
		return err
	}
	if err := m.Extend(context.Background(), c.Clock, time.Duration(c.By)); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "rein: %s has %s more on its %s clock\n", r.ID(), c.By, c.Clock)
	return nil
}

type runsRm struct {
	IDs []string `arg:"" name:"id" help:"Ids of runs that are over."`
}

// Run removes what it can, and says of each of the others why not. The exit code
// is that of the first failure, and 1 when something was removed: it is not one
// for "nothing was done".
func (c *runsRm) Run(a *app) error {
	var first error
	removed := false
	for _, id := range c.IDs {
		s, r, err := one(a, id)
		if errors.Is(err, store.ErrUnsafe) { // no directory: unlinked by its whole name
			if s, err = a.store(); err == nil {
				err = s.Remove(id)
			}
		} else if err == nil {
			err = s.Remove(r.ID())
		}
		if err != nil {
			fmt.Fprintf(a.stderr, "rein: %s\n", oneLine(err))
			if first == nil {
				first = exitCode(codeOf(err))
			}
			continue
		}
		removed = true
	}
	if first != nil && removed {
		return exitCode(rein.ExitFailed)
	}
	return first
}

type runsGC struct {
	OlderThan span `default:"720h" placeholder:"720h" help:"Remove runs that ended so long ago."`
	Keep      int  `default:"20" help:"Keep so many of the newest in any case."`
}

func (c *runsGC) Run(a *app) error {
	if c.Keep < 0 {
		return usage("--keep: %d is no number of runs: write 0 or more", c.Keep)
	}
	s, err := a.store()
	if err != nil {
		return err
	}
	finishOthers(context.Background(), s, a.stderr)
	ids, freed, err := s.GC(time.Duration(c.OlderThan), c.Keep, 0)
	for _, id := range ids {
		fmt.Fprintln(a.stdout, id)
	}
	fmt.Fprintf(a.stderr, "rein: removed %d runs, %.1f MiB\n", len(ids), float64(freed)/(1<<20))
	return err
}
