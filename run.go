package rein

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/guard/sandbox"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/internal/disk"
	"github.com/rein-run/rein/internal/git"
	"github.com/rein-run/rein/rules"
	"github.com/rein-run/rein/store"
	"github.com/rein-run/rein/transcript"
	"github.com/rein-run/rein/watch"
)

// Run is a handle on one run. Its methods may be called concurrently.
type Run struct {
	p       *prepared
	dir     *store.Run
	lease   *store.Lease
	member  *store.Membership
	before  repository
	rules   *rules.Placed
	started time.Time

	watch *watch.Watch
	hooks *hooks
	out   *output
	nests *nests // runs inside this one
	outer *outer // the run that this one is inside of
	proc  *host.Process
	ctl   io.Closer // control socket
	unbox func()    // ends what serves the sandbox

	mu   sync.Mutex
	stop *stop
	// stopped is closed when stop is set; killed when the second request came.
	stopped chan struct{}
	killed  chan struct{}
	once    sync.Once

	unswept bool // what a lost keeper left could not be proved to be gone

	done   chan struct{}
	report *Report
	err    error
}

// state is run.json while the run lives: what a reaper needs to finish it.
type state struct {
	Schema     string            `json:"schema"`
	ID         string            `json:"id"`
	Labels     map[string]string `json:"labels"`
	Parent     string            `json:"parent"`
	Agent      string            `json:"agent"`
	Facts      agent.Facts       `json:"facts"`
	Host       string            `json:"host"`
	Local      bool              `json:"local"`
	Model      string            `json:"model"`
	Mode       agent.Mode        `json:"mode"`
	Dir        string            `json:"dir"`
	StartedAt  time.Time         `json:"started_at"`
	Attempt    int               `json:"attempt"`
	RetryOf    string            `json:"retry_of"`
	Attempts   []Attempt         `json:"attempts,omitempty"` // that were made before
	Waiting    *Pause            `json:"waiting,omitempty"`  // it has not begun, and begins then
	Supervisor supervisor        `json:"supervisor"`
	Gate       Gate              `json:"gate"`
	Guard      Guard             `json:"guard"`
	Sandbox    Sandbox           `json:"sandbox"`
	Stubs      []sandbox.Stub    `json:"stubs"` // what the sandbox placed
	Rules      *Rules            `json:"rules"`
	Billing    string            `json:"billing"`
}

// supervisor names the process that watches the run, so that it can be told
// from a later one with the same pid.
type supervisor struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

func newRun(p *prepared, dir *store.Run, lease *store.Lease) *Run {
	return &Run{
		p: p, dir: dir, lease: lease, started: time.Now(), nests: &nests{dir: dir},
		stopped: make(chan struct{}), killed: make(chan struct{}), done: make(chan struct{}),
	}
}

// ID of the run.
func (r *Run) ID() string { return r.p.id }

// Dir is the run's directory: the transcript and all that is kept of it.
func (r *Run) Dir() string { return r.dir.Dir() }

// Agent is the name of the agent.
func (r *Run) Agent() string { return r.p.agent.Name() }

// Plan says what was started.
func (r *Run) Plan() *Plan { return r.p.plan() }

// NewReader makes a reader for this run's transcript, for a viewer that follows
// the file at its own pace.
func (r *Run) NewReader() agent.Reader { return newReader(r.p.agent, r.p.facts) }

func newReader(a agent.Agent, f agent.Facts) agent.Reader {
	if d, ok := a.(agent.Decoder); ok {
		return d.NewReader(f)
	}
	return nil
}

// Done is closed when the report is there.
func (r *Run) Done() <-chan struct{} { return r.done }

// Wait returns the report. An error means that ctx ended first, or that Rein
// could not do its own work; a run that went wrong is a report, not an error.
func (r *Run) Wait(ctx context.Context) (*Report, error) {
	select {
	case <-r.done:
		return r.report, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Cancel ends the run: a signal to the whole tree, the grace, then SIGKILL. by
// stands in the report. A second call does not wait for the grace.
func (r *Run) Cancel(by string) {
	if !r.end(&stop{end: End{Kind: Cancelled, Detail: by}}) {
		r.once.Do(func() { close(r.killed) })
	}
}

// Extend gives a clock more time: total, idle, tool or stall.
func (r *Run) Extend(clock string, by time.Duration) error { return r.watch.Extend(clock, by) }

// end records the first reason to stop and says whether it was the first.
func (r *Run) end(s *stop) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		return false
	}
	if s.end.Kind == GaveUp && r.out != nil {
		r.out.mu.Lock()
		if f := r.out.digest.failure; f != nil {
			s.evidence = f.Text
		}
		r.out.mu.Unlock()
	}
	r.stop = s
	close(r.stopped)
	return true
}

// State is what a viewer shows of a run that is under way.
type State struct {
	Activity string
	Model    string
	Usage    Usage
	Bytes    int64
	Sample   driver.Sample
	Elapsed  time.Duration
	Watch    watch.State
	// Warnings are those of the plan, and that a model has no price when
	// --max-cost needs one.
	Warnings []string
}

// State of the run now.
func (r *Run) State() State {
	o := r.out
	o.mu.Lock()
	defer o.mu.Unlock()
	return State{
		Activity: r.p.redact.String(o.digest.activity), Model: o.digest.model,
		Usage: o.digest.usage(), Sample: o.sample,
		Elapsed: time.Since(r.started), Watch: r.watch.State(), Warnings: o.digest.notes(),
	}
}

// state is what run.json says while the run lives.
func (r *Run) state() *state {
	me, _ := proctree.Read(os.Getpid())
	return &state{
		Schema: stateSchema, ID: r.p.id, Labels: r.p.task.Labels, Parent: r.p.parent,
		Agent: r.p.agent.Name(), Facts: r.p.facts, Host: r.p.where, Local: r.p.local,
		Model: r.p.task.Model, Mode: cmp.Or(r.p.task.Mode, agent.Autonomous), Dir: r.p.task.Dir, StartedAt: r.started,
		Attempt: max(r.p.attempt, 1), RetryOf: r.p.retryOf, Attempts: r.p.earlier,
		Supervisor: supervisor{PID: os.Getpid(), Start: me.Start, Boot: proctree.BootID()},
		Gate:       Gate{Armed: r.p.ask != nil, Why: r.p.gateWhy},
		Guard:      r.p.guardReport(),
		Sandbox:    r.p.box.report(), Stubs: r.p.box.placed(),
		Rules:   r.p.rules,
		Billing: r.p.billing,
	}
}

// spawn starts the agent and the goroutine that supervises it.
func (r *Run) spawn(ctx context.Context) (err error) {
	p := r.p
	var fingerprint func(context.Context) (string, error)
	if p.facts.GitCommonDir != "" {
		var lstat git.Lstat
		if p.local {
			lstat = git.LocalLstat
		}
		fingerprint = func(ctx context.Context) (string, error) { return git.Fingerprint(ctx, p.git, p.task.Dir, lstat) }
	}
	r.watch = watch.New(p.clocks, p.task.Limits, &watch.Options{Fingerprint: fingerprint})
	r.hooks = newHooks(p.opts.Hooks)
	r.out = newOutput(r.dir.Dir(), newReader(p.agent, p.facts), r.watch, r.hooks, func(err error) {
		r.end(&stop{end: End{Kind: Aborted, Detail: clip(err.Error(), maxEvidence)}})
	})
	r.outer = findOuter(p.store, p.parent, p.id, p.agent.Name())
	r.meterOutput()
	w := &warden{policy: p.policy, in: p.place(), also: p.opts.Judge, halt: func(v guard.Verdict) {
		r.end(&stop{end: End{Kind: Halted, Detail: v.Rule}, evidence: clip(p.redact.String(v.Evidence), maxEvidence)})
	}}
	r.out.digest.warden = w
	if p.ask == nil {
		r.out.warden = w
	} else {
		r.out.gate = &gate{agent: p.agent.(agent.Gate), judge: w.judge, over: r.stopped, silent: func(evidence string) {
			r.end(&stop{end: End{Kind: Halted, Detail: HaltedByGate}, evidence: evidence})
		}, book: openBook(filepath.Join(r.dir.Dir(), gateFile)), redact: p.redact}
		r.out.digest.gate = r.out.gate
	}
	if idx, err := transcript.CreateIndex(filepath.Join(r.dir.Dir(), "transcript.idx")); err == nil {
		r.out.index = idx // a convenience that can be rebuilt: a run does not fail for it
	}
	if r.unbox, err = p.box.open(ctx, r.dir); err != nil {
		r.hooks.close()
		r.out.finish()
		return err
	}
	ctl, err := listenControl(r.dir, r.control)
	if err != nil {
		r.unbox()
		return err
	}

	// The run is stopped through r.end, which knows the cause and the ladder;
	// the owner's context is watched in supervise. What is given to the host is
	// the owner's context without its cancellation, so that there is exactly
	// one who stops.
	proc, err := p.host.Start(context.WithoutCancel(ctx), &p.spec, r.out)
	if err != nil {
		ctl.Close()
		r.unbox()
		r.hooks.close()
		r.out.finish()
		r.out.gate.report("", &r.out.digest) // closes its book
		return err
	}
	r.proc, r.ctl = proc, ctl
	if err := r.dir.WriteState(store.Running, r.state()); err != nil {
		r.end(&stop{end: End{Kind: Aborted, Detail: clip(err.Error(), maxEvidence)}})
	}
	r.hooks.spawned(r)
	go r.outer.run(r.done, r.spent)
	go r.supervise(ctx)
	return nil
}

// spent is what the run and those inside it used so far.
func (r *Run) spent() Usage {
	r.out.mu.Lock()
	own := r.out.digest.usage()
	r.out.mu.Unlock()
	return own.Plus(r.nests.usage())
}

// supervise is the life of the run after the start: it waits for the end or for
// a reason to end it, and makes the report.
func (r *Run) supervise(ctx context.Context) {
	defer close(r.done)
	watchCtx, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatch()
	go func() {
		if v, expired := r.watch.Run(watchCtx); expired {
			r.end(stopFor(v))
		}
	}()

	select {
	case <-r.proc.Done():
	case <-r.stopped:
	case <-ctx.Done():
		r.end(&stop{end: End{Kind: Cancelled, Detail: CancelledWho(context.Cause(ctx))}})
	}

	// Cleanup survives the owner's cancellation (law 12: and is bounded, by the
	// ladder and by the host's own bound on Kill).
	clean := context.WithoutCancel(ctx)
	select {
	case <-r.proc.Done():
	default:
		r.endTree(clean)
	}
	exit, _ := r.proc.Wait(clean)
	stopWatch()
	if exit.Reason == driver.Lost && r.p.local {
		// The keeper died or does not answer: on this machine what it kept can
		// be ended without it.
		if rec, err := keeper.ReadRecord(r.dir.Dir()); err == nil {
			if exit, _, _, err = sweep(clean, rec, exit); err != nil {
				exit.Detail += ": " + err.Error()
				r.unswept = true
			}
		}
	}
	r.finish(clean, exit)
}

// cancelCause is a context cause that says who cancelled.
type cancelCause string

func (c cancelCause) Error() string { return "cancelled by " + string(c) }

// CancelledBy is a cause for context.WithCancelCause that stands in the report
// as the one who cancelled: CancelInterrupt and its kin.
func CancelledBy(who string) error { return cancelCause(who) }

// CancelledWho is the inverse of CancelledBy; CancelContext for other causes.
func CancelledWho(cause error) string {
	var c cancelCause
	if errors.As(cause, &c) {
		return string(c)
	}
	return CancelContext
}

func stopFor(v watch.Verdict) *stop {
	switch v.Kind {
	case watch.TimedOut:
		return &stop{end: End{Kind: TimedOut, Detail: v.Detail}}
	case watch.OverBudget:
		return &stop{end: End{Kind: OverBudget, Detail: v.Detail}, evidence: v.Text}
	case watch.GaveUp:
		return &stop{end: End{Kind: GaveUp, Detail: v.Detail}, evidence: v.Text}
	case watch.Completed:
		s := &stop{end: End{Kind: Exited, Forced: true}}
		if v.Detail != watch.Completion {
			s.late = v.Detail // a clock or budget that ran out after the result
		}
		return s
	}
	return &stop{end: End{Kind: Aborted, Detail: "unknown verdict " + string(v.Kind)}}
}

// endTree walks the agent's ladder down to SIGKILL. A second Cancel, and a run
// that is over, cut it short.
func (r *Run) endTree(ctx context.Context) {
	ladder := r.p.cmd.Stop
	if len(ladder) == 0 {
		ladder = []agent.StopStep{{Signal: driver.Terminate, Share: 1}}
	}
	for _, step := range ladder {
		select {
		case <-r.killed:
			goto kill
		default:
		}
		send, cancel := context.WithTimeout(ctx, time.Second)
		_ = r.proc.Signal(send, step.Signal) // a signal that fails is followed by one that cannot
		cancel()
		t := time.NewTimer(time.Duration(float64(r.p.clocks.Grace) * step.Share))
		select {
		case <-r.proc.Done():
			t.Stop()
			return
		case <-r.killed:
			t.Stop()
			goto kill
		case <-t.C:
		}
	}
kill:
	_ = r.proc.Kill(ctx) // bounded by package host; what it could not end is in Exit.Survivors
}

// finish makes the report: the end, the findings, the boundary, the bytes. It
// is the only way out of a run that was started.
func (r *Run) finish(ctx context.Context, exit driver.Exit) {
	r.ctl.Close()
	r.unbox()
	exit.Leftovers = r.p.box.leftovers(exit.Leftovers)
	lost := r.out.finish()
	if err := lost; err != nil {
		r.end(&stop{end: End{Kind: Aborted, Detail: clip(err.Error(), maxEvidence)}})
	}
	r.mu.Lock()
	s := r.stop
	r.mu.Unlock()

	d := &r.out.digest
	if exit.Reason == driver.Failed {
		where := "in " + r.dir.Dir()
		if !r.p.local {
			where = "on " + r.p.where
		}
		exit.Detail = spoolTrouble(exit.Detail, where)
	}
	end := decideEnd(exit, s)
	d.rulesLeft = r.restoreRules() // before the repository is compared
	checked, left := r.checkBoundary(ctx)
	rep := &Report{
		ID: r.p.id, Labels: r.p.task.Labels, Parent: r.p.parent,
		Agent: r.p.agent.Name(), AgentVersion: cmp.Or(d.version, r.p.facts.Version), Host: r.p.where,
		Model: r.p.task.Model, Dir: r.p.task.Dir, StartedAt: r.started, Attempt: max(r.p.attempt, 1), RetryOf: r.p.retryOf,
		Boundary: checked, Rules: r.p.rules, Billing: r.p.billing,
	}
	rep.Transcript, rep.Stderr = r.out.kept()
	if d.damage = r.out.damaged(rep.Transcript.Path); d.damage == "" && lost != nil {
		d.damage = lost.Error() // also of a run that ended by itself before it was known
	}
	rep.Gate = r.out.gate.report(r.p.gateWhy, d)
	rep.Guard = r.p.guardReport()
	rep.Sandbox = r.p.box.report()
	fill(rep, d, end, exit, s, r.p.caps, r.p.redact, tail(rep.Stderr.Path))
	r.outer.tell(r.spent())
	rep.Resources.RSSMaxBytes = max(exit.RSSMax, r.out.peak.RSS)
	rep.Resources.CPUSeconds = max(exit.CPU, r.out.peak.CPU)
	rep.attempts(r.p.earlier)
	r.hooks.close()

	// Where it cannot be written (a full disk), viewers refuse to show what they
	// cannot redact.
	_ = writeMarks(r.dir, r.p.redact)
	saveThread(r.dir, thread{Agent: rep.Agent, Session: rep.SessionID, Dir: rep.Dir, Usage: d.meter.Thread()})
	r.report = rep
	if r.unswept {
		// Something of it may be alive: the run stays unfinished on disk, so that
		// the next reap comes back to it.
	} else if err := r.dir.WriteState(store.Ended, rep); err != nil {
		// The report exists all the same and goes to the caller; that it could
		// not be kept is Rein's own failure and is said.
		rep.End = End{Kind: Aborted, Detail: clip("the report could not be written: "+err.Error(), maxEvidence)}
		rep.OK = false
		rep.Failure = failureLine(d, rep.End, exit, s, nil, "")
	}
	r.dir.Close()
	if r.unswept {
		left = nil // what is alive of it may go on
	}
	r.member.Leave(left)
	r.lease.Release()
}

// fill derives what follows from the digest, the end and the exit. The reaper
// fills its reports here too.
func fill(rep *Report, d *digest, end End, exit driver.Exit, s *stop, caps agent.Capabilities, red redactor, stderrTail string) {
	rep.Schema = ReportSchema
	rep.EndedAt = time.Now()
	rep.Containment = exit.Containment
	rep.ModelUsed = d.model
	rep.End = end
	rep.Exit = Exit{Code: exit.Code}
	if exit.Signal != "" {
		rep.Exit.Signal = &exit.Signal
	}
	rep.Answer = red.String(d.answer())
	rep.LastActivity = red.String(d.activity)
	rep.SessionID = d.session
	rep.Billing = cmp.Or(rep.Billing, BillingUnknown)
	rep.Usage = d.usage()
	rep.Nested = nonNil(d.nests.all())
	rep.Leftovers = nonNil(slices.DeleteFunc(slices.Clone(exit.Leftovers), func(p driver.Proc) bool {
		return slices.ContainsFunc(exit.Survivors, func(s driver.Proc) bool { return s.PID == p.PID })
	}))
	rep.Survivors = nonNil(exit.Survivors)
	rep.Boundary.tidy(red)
	rep.Findings = nonNil(findings(d, end, exit, s, caps, rep.Model, rep.Boundary))
	for i := range rep.Findings {
		rep.Findings[i].Evidence = red.String(rep.Findings[i].Evidence)
	}
	rep.OK = isOK(d, end, exit, caps, rep.Findings)
	if !rep.OK {
		rep.Failure = red.String(failureLine(d, end, exit, s, rep.Findings, stderrTail))
	}
	if rep.Labels == nil {
		rep.Labels = map[string]string{}
	}
}

type redactor interface{ String(string) string }

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// tail is the last lines of a file on one line, for the failure.
func tail(path string) string {
	f, err := disk.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const look = 4096
	if n, err := f.Seek(0, io.SeekEnd); err == nil && n > look {
		f.Seek(n-look, io.SeekStart)
	} else {
		f.Seek(0, io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(f, look))
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if len(lines) > maxPlain {
		lines = lines[len(lines)-maxPlain:]
	}
	return clip(string(bytes.Join(lines, []byte(" "))), maxEvidence)
}

// Kill ends the run without a grace and returns when its processes are proved
// to be gone, or ctx ends. The report says that a context cancelled it, unless
// something else had ended it before.
func (r *Run) Kill(ctx context.Context) error {
	r.end(&stop{end: End{Kind: Cancelled, Detail: CancelContext}})
	return r.proc.Kill(ctx)
}
