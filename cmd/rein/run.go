package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/cmd/rein/internal/tui"
	"github.com/rein-run/rein/config"
	"github.com/rein-run/rein/store"
	"github.com/rein-run/rein/transcript"
	"github.com/rein-run/rein/watch"
)

type runCmd struct {
	Prompt []string `arg:"" optional:"" help:"What the agent should do, as one argument; - reads it from stdin."`

	Agent    string   `short:"a" help:"Agent, as in rein agents: claude, codex, pi, … (default: the one that is installed)." placeholder:"NAME"`
	Model    string   `short:"m" help:"Model (default: the CLI's own)." placeholder:"MODEL"`
	Effort   string   `help:"Reasoning effort, where the CLI has it." placeholder:"LEVEL"`
	Mode     string   `help:"What the agent may do without asking: autonomous or read-only." placeholder:"MODE"`
	Dir      string   `short:"C" help:"Working directory, where the agent runs (default: here)." placeholder:"DIR"`
	On       string   `help:"Where the agent runs: local: (default) or ssh://[user@]host[:port][/dir]." placeholder:"HOST"`
	Resume   string   `help:"Continue this session of the agent's, or 'latest'." placeholder:"ID"`
	AgentArg []string `help:"An argument for the agent's own CLI; may be repeated." placeholder:"ARG" sep:"none"`
	AgentExe string   `help:"The agent's executable (default: found in PATH)." placeholder:"PATH"`

	ID      string   `name:"id" help:"Name of the run (default: a new one)." placeholder:"ID"`
	Label   []string `short:"l" help:"Label kept with the run; may be repeated." placeholder:"K=V" sep:"none"`
	Env     []string `short:"e" help:"Variable for the agent: NAME=VALUE, or NAME to take it from here." placeholder:"NAME[=V]" sep:"none"`
	EnvFile []string `help:"File of NAME=VALUE lines for the agent." placeholder:"FILE" sep:"none"`

	askFlags

	Allow          []string `group:"Boundary" help:"Lift one withheld command, e.g. 'gh pr review'; may be repeated." placeholder:"COMMAND" sep:"none"`
	Commits        bool     `group:"Boundary" help:"Commits on the branch that is checked out."`
	Network        bool     `group:"Boundary" help:"The agent's web tools."`
	Pack           []string `group:"Boundary" help:"Withhold a set of commands more: elixir, kubernetes, publish, terraform; may be repeated." placeholder:"NAME"`
	Sandbox        bool     `group:"Boundary" help:"The kernel holds it: nothing written but the directory, the CLI's state and temporary files, no references moved, no network but the model's (unless --network). Linux."`
	OthersWorkHere bool     `group:"Boundary" help:"Others use this repository's other checkouts meanwhile: what they do there does not count."`

	Startup    string `group:"Clocks ('none' switches one off)" help:"To the first byte (60s)." placeholder:"D"`
	Idle       string `group:"Clocks ('none' switches one off)" help:"Without a byte (5m)." placeholder:"D"`
	Tool       string `group:"Clocks ('none' switches one off)" help:"For one tool call (15m)." placeholder:"D"`
	Stall      string `group:"Clocks ('none' switches one off)" help:"Without a tool call or a change of the files (5m)." placeholder:"D"`
	Total      string `group:"Clocks ('none' switches one off)" help:"For the whole run (30m)." placeholder:"D"`
	Completion string `group:"Clocks ('none' switches one off)" help:"To exit once it is done (30s)." placeholder:"D"`
	Grace      string `group:"Clocks ('none' switches one off)" help:"From TERM to KILL (1s)." placeholder:"D"`

	MaxMemory string `group:"Limits" help:"Memory of the whole process tree, e.g. 6GiB." placeholder:"SIZE"`
	MaxProcs  string `group:"Limits" help:"Processes at once." placeholder:"N"`
	MaxOutput string `group:"Limits" help:"Bytes that the agent may write, e.g. 1GiB." placeholder:"SIZE"`

	MaxTokens    string `group:"Limits" help:"Tokens: input, cache writes and output, sub-agents included, e.g. 200k or 2M." placeholder:"N"`
	MaxCost      string `group:"Limits" help:"Money: what the agent tells, else an estimate, e.g. 2.50." placeholder:"USD"`
	MaxSubagents string `group:"Limits" help:"Sub-agents that the agent starts." placeholder:"N"`

	Retries      string    `group:"Retries" help:"Attempts after an overload, a cut network or a short rate limit (0)." placeholder:"N"`
	WaitForLimit limitWait `group:"Retries" help:"Wait for the reset of a rate limit and go on in the session; =D: at most so long in all (6h)."`

	Report string `group:"Output" help:"Write the report (JSON) to this file too." placeholder:"FILE"`
	JSON   bool   `group:"Output" name:"json" help:"Readings and the report on stdout, one JSON object a line." xor:"out"`
	Raw    bool   `group:"Output" help:"The agent's own output on stdout, byte for byte." xor:"out"`
	DryRun bool   `group:"Output" short:"n" help:"Print what would be started; start nothing."`
	Detach bool   `group:"Output" short:"d" help:"Print the run's id and let it work in the background."`
	Quiet  bool   `group:"Output" short:"q" help:"Nothing on stderr but errors."`
}

func (runCmd) Help() string {
	return `Examples:
  rein run "fix the failing test"
  rein run --agent codex --report report.json "update the changelog"
  git diff | rein run --mode read-only -       the prompt is what stdin holds
  x=$(rein run -q "which Go version does this need? one word")
  rein run --max-tokens 500k --retries 2 "update the dependencies"
  rein run --on ssh://build/srv/project --env-file model.env "fix the test"
  rein run --detach --label ci=42 "…" ; rein runs tail -f <id>

Exit codes: 0 ok, 1 the agent failed, 2 usage, 3 timed out, 4 halted, 5 over budget, 6 something
left the boundary, 7 not started, 8 lost, 9 processes survived, 10 aborted, 11 gave up (login,
credit, limit), 129/130/131/143 cancelled.`
}

func (c *runCmd) Run(a *app) error {
	if detached() {
		return c.runDetached(a)
	}
	if c.Raw && c.Detach {
		return usage("--raw and --detach: nothing is shown of a run in the background: rein runs attach --raw ID shows it")
	}
	if c.Detach && !c.DryRun {
		return c.detach(a)
	}
	return c.run(a, nil)
}

// run is the verb; started, if any, is told of the run, or why there is none.
func (c *runCmd) run(a *app, started func(news)) (err error) {
	if started == nil {
		started = func(news) {}
	}
	var refused *rein.Report
	defer func() {
		if err != nil {
			started(failure(err, refused))
		}
	}()
	task, opts, cfg, err := c.task(a)
	if err != nil {
		return err
	}
	if opts.Host != nil {
		defer opts.Host.Close()
	}
	c.Report = cfg.Report
	if err := checkReportFile(c.Report, cfg.Origin("report").String()); err != nil {
		return err
	}

	// Until the run has a handle, a signal cancels its start; afterwards it
	// goes to the handle, which knows the ladder.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup rein run …
		signal.Notify(sigs, syscall.SIGHUP)
	}
	if !signal.Ignored(syscall.SIGQUIT) { // a background job of a script
		signal.Notify(sigs, syscall.SIGQUIT)
	}
	a.ownQuit()
	// They are never given back: the process ends after this, and one more Ctrl-C
	// at that moment would turn its exit code into a death by signal.
	// Whoever reads our stdout may go away (| head -1). Without this the Go
	// runtime would end us with SIGPIPE, and the run with us. It must be Notify:
	// an ignored signal would be inherited by the agent.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	handle := make(chan *rein.Run, 1)
	go forwardSignals(sigs, cancel, handle, c.Detach)

	finishOthers(ctx, opts.Store, a.stderr)

	if c.DryRun {
		plan, err := rein.Describe(ctx, task, opts)
		if err != nil {
			return notStarted(err)
		}
		if note := unknownVersion(plan); note != "" && !c.Quiet {
			fmt.Fprintln(a.stderr, "rein: "+note)
		}
		return printPlan(a, plan, cfg, c)
	}

	screen := tui.New(a.stderr, &tui.Options{Quiet: c.Quiet || c.Detach})
	opts.Hooks = screen.Hooks()
	var (
		r       *rein.Run // the attempt under way, or the last one
		view    chan error
		viewErr error
	)
	over := func() { // the end of an attempt, once
		screen.Stop()
		if view != nil {
			viewErr = cmp.Or(viewErr, <-view)
			view = nil
		}
	}
	rep, err := rein.Retry(ctx, task, &rein.RetryOptions{
		Retries: cfg.Retries, LimitWait: cfg.LimitWait,
		Started: func(run *rein.Run) {
			r = run
			handle <- r
			plan := r.Plan()
			note := unknownVersion(plan)
			n := news{ID: r.ID(), Dir: r.Dir(), Notes: plan.Warnings}
			if note != "" {
				n.Notes = slices.Insert(slices.Clone(n.Notes), 0, note)
			}
			started(n)
			if note != "" && !c.Quiet {
				fmt.Fprintln(a.stderr, "rein: "+note)
			}
			screen.Start(r)
			// Viewers follow the file at their own pace: a slow reader of our
			// stdout holds nothing back and misses nothing.
			out := make(chan error, 1)
			view = out
			go func() { out <- c.view(a, run) }()
		},
		Again: func(rep *rein.Report, p rein.Pause) {
			over()
			if c.JSON {
				viewErr = cmp.Or(viewErr, json.NewEncoder(a.stdout).Encode(rein.Event{Type: "retry", Report: rep, Pause: &p}))
			}
			screen.Pause(rep, p)
		},
	}, opts)
	if r == nil {
		refused = rein.NotStartedReport(task, err)
		if c.JSON {
			json.NewEncoder(a.stdout).Encode(rein.Event{Schema: rein.EventSchema, Type: "report", Report: refused})
		}
		if c.Report != "" {
			writeReportFile(c.Report, refused)
		}
		if code, ok := cancelledCode(ctx); ok {
			fmt.Fprintf(a.stderr, "rein: %s before the agent started\n", context.Cause(ctx))
			return exitCode(code)
		}
		return notStarted(err)
	}
	over()
	if rep == nil {
		return err
	}
	if c.JSON {
		viewErr = cmp.Or(viewErr, json.NewEncoder(a.stdout).Encode(rein.Event{Type: "report", Report: rep}))
	}
	if !c.JSON && !c.Raw && !c.Detach && rep.Answer != "" {
		if _, err := fmt.Fprintln(a.stdout, a.clean(strings.TrimRight(rep.Answer, "\n"))); err != nil {
			viewErr = err
		}
	}
	lost := false
	if c.Report != "" {
		if err := writeReportFile(c.Report, rep); err != nil {
			fmt.Fprintf(a.stderr, "rein: %s: %s: rein runs show --json %s has it\n", cfg.Origin("report"), oneLine(err), r.ID())
			lost = true
		}
	}
	screen.Report(rep, r.Dir())
	if viewErr != nil && !errors.Is(viewErr, syscall.EPIPE) {
		fmt.Fprintf(a.stderr, "rein: writing to stdout: %s: rein runs answer %s has it\n", oneLine(viewErr), r.ID())
		lost = true
	}
	if who := rein.CancelledWho(err); err != nil && who != rein.CancelContext {
		fmt.Fprintf(a.stderr, "rein: cancelled by %s while waiting for the next attempt\n", who)
		stopped := rein.Report{End: rein.End{Kind: rein.Cancelled, Detail: who}}
		return exitCode(stopped.ExitCode())
	} else if err != nil {
		return notStarted(err)
	}
	if lost && rep.OK {
		return exitCode(rein.ExitAborted) // what was asked for did not arrive
	}
	if code := rep.ExitCode(); code != 0 {
		return exitCode(code)
	}
	return nil
}

// cancelledCode is the exit code when a signal came before the run had a handle.
func cancelledCode(ctx context.Context) (int, bool) {
	if ctx.Err() == nil {
		return 0, false
	}
	rep := rein.Report{End: rein.End{Kind: rein.Cancelled, Detail: rein.CancelledWho(context.Cause(ctx))}}
	return rep.ExitCode(), true
}

// forwardSignals turns the first signal into a graceful end and every later one
// into a kill; SIGQUIT is both at once. A detached run has no terminal to hang up.
func forwardSignals(sigs <-chan os.Signal, cancel context.CancelCauseFunc, handle <-chan *rein.Run, detached bool) {
	var r *rein.Run
	quit := false
	for {
		select {
		case r = <-handle:
			if quit {
				r.Cancel(rein.CancelQuit)
				r.Cancel(rein.CancelQuit)
			}
		case s := <-sigs:
			by := rein.CancelInterrupt
			switch s {
			case syscall.SIGTERM:
				by = rein.CancelTerminate
			case syscall.SIGQUIT:
				by, quit = rein.CancelQuit, true
			case syscall.SIGHUP:
				by = rein.CancelHangup
				if detached {
					continue
				}
			}
			if r == nil {
				select {
				case r = <-handle:
				default:
				}
			}
			// The handle first: the end of the context is the first request to
			// stop for a run that has none yet, and the handle's would be taken
			// for the second, which does not wait for the grace.
			if r != nil {
				r.Cancel(by)
				if quit {
					r.Cancel(by)
				}
			}
			cancel(rein.CancelledBy(by))
		}
	}
}

// view writes the transcript or its readings to stdout as the run goes.
func (c *runCmd) view(a *app, r *rein.Run) error {
	if !c.JSON && !c.Raw {
		return nil
	}
	f := transcript.Follow(context.Background(), filepath.Join(r.Dir(), "transcript"), &transcript.FollowOptions{Done: r.Done()})
	defer f.Close()
	if c.Raw {
		_, err := io.Copy(a.stdout, f)
		return err
	}
	return writeEvents(a.stdout, f, r.NewReader(), r.Redact)
}

// writeEvents writes one event a line.
func writeEvents(w io.Writer, f io.Reader, reader agent.Reader, redact func(string) string) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var failed error
	first := true
	emit := func(offset int64) func(agent.Reading) {
		return func(rd agent.Reading) {
			if failed != nil {
				return
			}
			ev := rein.Event{Type: "reading", Offset: offset, Reading: &rd}
			if first {
				ev.Schema, first = rein.EventSchema, false
			}
			b, err := json.Marshal(ev)
			if err == nil {
				_, err = out.WriteString(redact(string(b)) + "\n")
			}
			failed = err
		}
	}
	var lines transcript.Lines
	line := func(l agent.Line) {
		if reader != nil {
			reader.Read(l, emit(l.Offset))
		}
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		lines.Feed(buf[:n], line)
		if failed == nil {
			failed = out.Flush()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
	}
	lines.Flush(line)
	if reader != nil {
		reader.End(emit(0))
	}
	return cmp.Or(failed, out.Flush())
}

// task reads flags, configuration and files into what package rein takes.
func (c *runCmd) task(a *app) (rein.Task, *rein.Options, *config.Config, error) {
	fail := func(err error) (rein.Task, *rein.Options, *config.Config, error) {
		return rein.Task{}, nil, nil, err
	}
	on, err := where(c.On)
	if err != nil {
		return fail(err)
	}
	there, err := openHost(on)
	if err != nil {
		return fail(err)
	}
	// The project is the one that rein is started in. Elsewhere --dir is a name
	// of another machine.
	from := "."
	if there == nil {
		from = cmp.Or(c.Dir, ".")
	}
	cfg, err := config.Load(from, os.Getenv, &config.Options{Agents: rein.Agents().Names(), Environ: os.Environ()})
	if err != nil {
		return fail(usageError{err})
	}
	if err := errors.Join(c.flags(cfg), cfg.Validate()); err != nil {
		return fail(usageError{err})
	}
	open := openStore
	if c.DryRun {
		open = store.Find
	}
	s, err := open(cmp.Or(a.stateDir, cfg.StateDir))
	if err != nil {
		return fail(err)
	}
	if c.ID == "last" {
		return fail(usage("--id last: it stands for the newest run everywhere else: take another"))
	}
	prompt, err := c.prompt(a)
	if err != nil {
		return fail(err)
	}
	env, err := c.env(cfg)
	if err != nil {
		return fail(err)
	}
	task := rein.Task{
		Prompt: prompt, Agent: cfg.Agent, Dir: c.Dir, Mode: cfg.Mode,
		Session: agent.Session{Resume: c.Resume},
		Env:     env, ID: c.ID, Labels: cfg.Labels, Clocks: cfg.Clocks(), Limits: cfg.Limits, Guard: cfg.Guard, Sandbox: cfg.Sandbox,
	}
	if err := c.ask(&task, cfg); err != nil {
		return fail(err)
	}
	opts := &rein.Options{Store: s, Keeper: keeperArgv(), Exes: map[string]string{}, Prices: cfg.Prices, OthersWorkHere: cfg.OthersWorkHere}
	if there != nil {
		opts.Host = there.Host
		if task.Dir, err = there.workDir(context.Background(), c.Dir); err != nil {
			return fail(err)
		}
	}
	for name, own := range cfg.Agents {
		if own.Path != "" {
			opts.Exes[name] = own.Path
		}
	}
	switch {
	case c.AgentExe == "":
	case task.Agent == "":
		return fail(usage("--agent-exe %s: say with --agent which agent it is", c.AgentExe))
	default:
		a, err := rein.Agents().Lookup(task.Agent)
		if err != nil {
			return fail(usageError{err})
		}
		opts.Exes[a.Name()] = c.AgentExe
	}
	if task.Agent == "" {
		// What is settled per agent can be applied only when it is known.
		if task.Agent, err = rein.Pick(context.Background(), task, opts); err != nil {
			return fail(startError{err})
		}
	}
	if a, err := rein.Agents().Lookup(task.Agent); err == nil {
		task.Model, _ = cfg.ModelFor(a.Name())
		task.Effort, _ = cfg.EffortFor(a.Name())
		task.Args = slices.Concat(cfg.Agents[a.Name()].Args, c.AgentArg)
	}
	return task, opts, cfg, nil
}

// flags settles what was typed, over everything that was settled elsewhere.
func (c *runCmd) flags(cfg *config.Config) error {
	set := func(key, value string) error {
		if value == "" {
			return nil
		}
		return cfg.Set(key, value, config.Origin{Source: config.Flag, Name: "--" + strings.ReplaceAll(key, "_", "-")})
	}
	var errs []error
	for _, f := range [][2]string{
		{"agent", c.Agent},
		{"on", c.On},
		{"model", c.Model},
		{"effort", c.Effort},
		{"mode", c.Mode},
		{"startup", c.Startup},
		{"idle", c.Idle},
		{"tool", c.Tool},
		{"stall", c.Stall},
		{"total", c.Total},
		{"completion", c.Completion},
		{"grace", c.Grace},
		{"max_memory", c.MaxMemory},
		{"max_procs", c.MaxProcs},
		{"max_output", c.MaxOutput},
		{"max_tokens", c.MaxTokens},
		{"max_cost", c.MaxCost},
		{"max_subagents", c.MaxSubagents},
		{"retries", c.Retries},
		{"wait_for_limit", string(c.WaitForLimit)},
		{"report", c.Report},
	} {
		errs = append(errs, set(f[0], f[1]))
	}
	for _, f := range []struct {
		key string
		on  bool
	}{{"commits", c.Commits}, {"network", c.Network}, {"sandbox", c.Sandbox}, {"others_work_here", c.OthersWorkHere}} {
		if f.on {
			errs = append(errs, set(f.key, "true"))
		}
	}
	for _, s := range c.Allow {
		errs = append(errs, cfg.Set("allow", s, config.Origin{Source: config.Flag, Name: "--allow"}))
	}
	for _, s := range c.Pack {
		errs = append(errs, cfg.Set("packs", s, config.Origin{Source: config.Flag, Name: "--pack"}))
	}
	for _, l := range c.Label {
		errs = append(errs, cfg.Set("labels", l, config.Origin{Source: config.Flag, Name: "--label"}))
	}
	return errors.Join(errs...)
}

// maxPrompt bounds what is read from stdin: no CLI takes more.
const maxPrompt = 64 << 20

func (c *runCmd) prompt(a *app) (string, error) {
	switch len(c.Prompt) {
	case 0:
		return "", usage("there is no prompt: rein run \"what to do\", or - to read it from stdin")
	case 1:
	default:
		return "", usage("the prompt is %d arguments: put it in quotes", len(c.Prompt))
	}
	prompt := c.Prompt[0]
	switch prompt {
	case "help":
		return "", usage("rein help run says how; for a prompt of this one word: echo help | rein run -")
	case "-":
		b, err := io.ReadAll(io.LimitReader(a.stdin, maxPrompt+1))
		if err != nil {
			return "", fmt.Errorf("reading the prompt from stdin: %w", err)
		}
		if len(b) > maxPrompt {
			return "", usage("the prompt on stdin is longer than %d MiB", maxPrompt>>20)
		}
		prompt = string(b)
	}
	if strings.TrimSpace(prompt) == "" {
		return "", usage("the prompt is empty: say what the agent should do")
	}
	return prompt, nil
}

// unknownVersion says that an executable may not be what it is taken for. A
// wrapper script that prints something of its own is a good reason; a wrong
// --agent-exe is another.
func unknownVersion(p *rein.Plan) string {
	if p.Version != "" {
		return ""
	}
	return fmt.Sprintf("%s says no version of %s: a wrapper, or another program?", p.Exe, p.Agent)
}

// notStarted says why, and picks the exit code: what was typed wrongly is 2,
// everything else that kept the agent from starting is 7.
func notStarted(err error) error {
	if errors.Is(err, rein.ErrTask) || errors.Is(err, agent.ErrUnknown) || errors.Is(err, agent.ErrMode) ||
		errors.Is(err, agent.ErrSession) || errors.Is(err, agent.ErrModel) || errors.Is(err, agent.ErrPrompt) ||
		errors.Is(err, agent.ErrArgument) || errors.Is(err, agent.ErrUnsupported) {
		return usageError{err}
	}
	if errors.Is(err, syscall.ENOSPC) { // the error names the file
		err = fmt.Errorf("%w: free space there, or keep runs on another file system with --state-dir", err)
	}
	return startError{err}
}

// limitWait is --wait-for-limit, whose value may be left out.
type limitWait string

func (limitWait) IsBool() bool { return true } // no value is taken from the next argument

func (w *limitWait) Decode(ctx *kong.DecodeContext) error {
	*w = limitWait(watch.Format(rein.DefaultLimitWait))
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		*w = limitWait(ctx.Scan.Pop().String())
	}
	return nil
}

// startError exits with 7.
type startError struct{ err error }

func (e startError) Error() string { return e.err.Error() }
func (e startError) Unwrap() error { return e.err }
