package rein

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/guard/block"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/local"
	"github.com/rein-run/rein/internal/git"
	"github.com/rein-run/rein/internal/redact"
	"github.com/rein-run/rein/rules"
	"github.com/rein-run/rein/store"
	"github.com/rein-run/rein/watch"
)

// prepared is a task that was found usable, before the first side effect.
type prepared struct {
	task   Task
	opts   Options
	id     string
	parent string
	agent  agent.Agent
	caps   agent.Capabilities
	facts  agent.Facts
	clocks watch.Clocks
	cmd    agent.Command
	// filesDir is where cmd.Files will stand, where the run runs.
	filesDir string
	spec     driver.Spec
	host     *host.Host
	where    string // host name for the report
	local    bool   // the run happens on this machine
	store    *store.Store
	git      git.Runner
	norepo   bool // Dir lies in no repository
	repo     *git.Repo
	redact   *redact.Redactor

	billing  string        // who pays, as far as is known before
	rules    *Rules        // nil: none
	ruleFile rules.Options // of rules in a file

	warnings []string // what a budget cannot do in this run
	attempt  int      // from 1; see Retry
	retryOf  string   // id of the first attempt
	earlier  []Attempt

	policy  *guard.Policy // what may not happen
	told    string        // what the agent is told of it
	protect guarded
	blocks  block.Set
	// ask is set when the gate is armed, gateWhy when it is not; blockWhy says
	// why git and the shell do not refuse.
	ask               *driver.Ask
	private           string // the directory there below which files can be placed
	gateWhy, blockWhy string
	box               *box // the sandbox; nil: none
}

// prepare validates everything that can be validated without a side effect
// (law 11). All it starts are short helper commands: the version probe and git.
func prepare(ctx context.Context, task Task, o *Options) (*prepared, error) {
	p, err := open(task, o)
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := p.checkDir(ctx); err != nil {
		return nil, err
	}
	p.git = p.gitRunner(git.Env())

	if err := p.pickAgent(ctx); err != nil {
		return nil, err
	}
	// A process that need not be started, where it can be seen that there is no
	// repository.
	if p.norepo = p.local && git.Outside(p.task.Dir); !p.norepo {
		if repo, err := git.Find(ctx, p.git, p.task.Dir); err == nil {
			p.repo, p.facts.GitCommonDir = repo, repo.CommonDir
		}
	}
	p.readRepository(ctx)
	p.caps = p.agent.Capabilities(p.facts.Version)
	p.clocks = p.task.Clocks.With(p.caps)
	if p.warnings, err = budgetSight(p.agent.Name(), p.caps, p.task, p.opts.Prices); err != nil {
		return nil, err
	}

	if p.id = p.task.ID; p.id == "" {
		p.id = store.NewID(time.Now())
	}
	inv := agent.Invocation{
		Prompt: p.task.Prompt, Dir: p.task.Dir, Model: p.task.Model, Effort: p.task.Effort,
		Mode: cmp.Or(p.task.Mode, agent.Autonomous), Session: p.task.Session, Args: p.task.Args,
	}
	if p.local {
		inv.FilesDir = p.store.RunDir(p.id)
	}
	if err := p.findBox(ctx); err != nil {
		return nil, err
	}
	inv.Boxed = p.box != nil
	if err := p.giveRules(ctx, &inv); err != nil {
		return nil, err
	}
	p.arm(ctx, &inv)
	p.filesDir = inv.FilesDir
	p.askAgent(&inv)
	cmd, err := p.agent.Command(inv, p.facts)
	if err != nil {
		return nil, err
	}
	p.cmd = cmd
	if err := p.buildSpec(); err != nil {
		return nil, err
	}
	if err := p.checkBilling(ctx); err != nil {
		return nil, err
	}
	if err := p.enclose(); err != nil {
		return nil, err
	}
	return p, nil
}

// open finds the store and the host.
func open(task Task, o *Options) (*prepared, error) {
	p := &prepared{task: task}
	if o != nil {
		p.opts = *o
	}
	if p.store = p.opts.Store; p.store == nil {
		var err error
		if p.store, err = store.Open(""); err != nil {
			return nil, err
		}
	}
	if p.host = p.opts.Host; p.host != nil {
		p.where = cmp.Or(p.opts.HostName, p.host.Name())
		return p, nil
	}
	p.local = true
	p.where = cmp.Or(p.opts.HostName, "local:")
	p.host = host.New(local.New(&local.Options{
		Keeper: p.opts.Keeper, Spool: p.store.Runs(), Containment: p.opts.Containment,
		RequireContainment: p.opts.RequireContainment,
	}), nil)
	return p, nil
}

// Pick says which agent a task without one would go to: the first of the
// registry that is installed where the run would happen. ErrNoAgent when none
// is.
func Pick(ctx context.Context, task Task, o *Options) (string, error) {
	p, err := open(task, o)
	if err != nil {
		return "", err
	}
	if err := p.pickAgent(ctx); err != nil {
		return "", err
	}
	return p.agent.Name(), nil
}

// check is everything that needs no environment to be judged.
func (p *prepared) check() error {
	t := &p.task
	if strings.TrimSpace(t.Prompt) == "" {
		return taskError("prompt", "it is empty: say what the agent should do, or pass - to read it from stdin")
	}
	if strings.IndexByte(t.Prompt, 0) >= 0 {
		return taskError("prompt", "it holds a NUL byte at offset %d, which no command line can carry", strings.IndexByte(t.Prompt, 0))
	}
	if err := t.Clocks.Validate(); err != nil {
		return &TaskError{Field: "clocks", Err: err}
	}
	if err := t.Limits.Validate(); err != nil {
		return &TaskError{Field: "limits", Err: err}
	}
	policy, err := guard.New(t.Guard)
	if err != nil {
		return &TaskError{Field: guardField(err), Err: err}
	}
	p.policy = policy
	if err := p.checkAsked(); err != nil {
		return err
	}
	if t.ID != "" {
		if err := store.ValidID(t.ID); err != nil {
			return &TaskError{Field: "--id", Err: err}
		}
	}
	for k, v := range t.Labels {
		if k == "" || strings.ContainsAny(k, "=\n\x00") || strings.ContainsAny(v, "\n\x00") {
			return taskError("--label", "%q: a label is key=value on one line", k)
		}
	}
	for _, k := range t.Unset {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return taskError("--unset", "%q is no name of a variable", k)
		}
	}
	// Before the version probe, which gets these variables too.
	if err := agent.CheckArgs([]string{"agent"}, t.Env, ""); err != nil {
		return &TaskError{Field: "--env", Err: err}
	}
	return nil
}

// checkDir makes Dir absolute and sees that it is there, where the run runs.
func (p *prepared) checkDir(ctx context.Context) error {
	if !p.local {
		if p.task.Dir == "" || !strings.HasPrefix(p.task.Dir, "/") {
			return taskError("directory", "on %s it must be an absolute path there: name it with --dir", p.where)
		}
		return nil // the host refuses a missing one before anything is spawned
	}
	dir := p.task.Dir
	if dir == "" {
		dir = "."
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return &TaskError{Field: "directory", Err: err}
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return &TaskError{Field: "directory", Err: fmt.Errorf("%w: %s", driver.ErrNoDir, dir)}
	case !info.IsDir():
		return taskError("directory", "%s is a file", dir)
	}
	p.task.Dir = dir
	return nil
}

// gitRunner runs git where the run runs, with env.
func (p *prepared) gitRunner(env driver.Env) git.Runner {
	if p.local {
		return git.Local
	}
	return func(ctx context.Context, dir string, args ...string) ([]byte, error) {
		out, errOut, exit, err := p.host.Output(ctx, &driver.Spec{
			Argv: append([]string{"git"}, args...), Dir: dir, Env: env, Unset: git.Unset(), Helper: true,
		}, git.MaxOutput)
		switch {
		case err != nil:
			return nil, err
		case exit.Code == nil:
			return nil, fmt.Errorf("git: %s %s %s", exit.Reason, exit.Signal, exit.Detail)
		case *exit.Code != 0:
			return nil, &git.ExitError{Args: args, Code: *exit.Code, Stderr: clip(string(errOut), 4<<10)}
		}
		return out, nil
	}
}

// pickAgent resolves the agent and probes its CLI.
func (p *prepared) pickAgent(ctx context.Context) error {
	agents := p.opts.Agents
	if len(agents.All()) == 0 {
		agents = Agents()
	}
	var cache *agent.Cache
	if _, err := os.Stat(p.store.Dir); err == nil { // who only asks makes no store
		cache = agent.NewCache(filepath.Join(p.store.Dir, "probes.json"))
	}
	probe := func(a agent.Agent) (agent.Facts, error) {
		return agent.Probe(ctx, p.host, a, &agent.ProbeOptions{HostName: p.where, Exe: p.opts.Exes[a.Name()], Env: p.task.Env, Cache: cache})
	}
	if p.task.Agent != "" {
		a, err := agents.Lookup(p.task.Agent)
		if err != nil {
			return err
		}
		p.agent = a
		p.facts, err = probe(a)
		return err
	}
	// The first installed one in the order of the registry is also the only
	// one where there is only one.
	none := &NoAgentError{}
	for _, a := range agents.All() {
		facts, err := probe(a)
		if err == nil {
			p.agent, p.facts = a, facts
			return nil
		}
		missing, ok := errors.AsType[*agent.NotInstalledError](err)
		if !ok {
			return err
		}
		none.Missing = append(none.Missing, missing)
	}
	return none
}

// buildSpec turns the agent's command into what the host is asked.
func (p *prepared) buildSpec() error {
	env := driver.Env{}
	seen := maps.Clone(p.inherited())
	maps.Copy(seen, p.task.Env)
	for k, v := range agent.Quiet(seen) {
		env[k] = v
	}
	maps.Copy(env, p.task.Env)
	maps.Copy(env, p.cmd.Env)
	maps.Copy(seen, env)
	p.block(seen)
	maps.Copy(env, p.blocks.Env)
	unset := slices.Concat(p.caps.Scrub, p.cmd.Unset, p.task.Unset, p.blocks.Unset)
	slices.Sort(unset)
	unset = slices.Compact(unset)
	for _, k := range unset {
		delete(env, k)
	}
	if err := agent.CheckArgs(p.cmd.Argv, env, p.facts.OS); err != nil {
		return err
	}

	// The run inside which this one was started, if any: nested runs are ended
	// with it and their spend counts there.
	if p.local {
		// "outer@tag/inner@tag"
		p.parent, _, _ = strings.Cut(strings.TrimPrefix(path.Base("/"+os.Getenv("REIN_RUN")), "/"), "@")
	}
	p.spec = driver.Spec{
		ID: p.id, Argv: p.cmd.Argv, Env: env, Unset: unset, Dir: p.task.Dir,
		Grace: p.clocks.Grace, Containment: p.opts.Containment, Ask: p.ask, Folder: p.spec.Folder,
	}
	if p.ask != nil && !p.local { // else writeFiles places them
		for _, f := range p.cmd.Files {
			p.ask.Files = append(p.ask.Files, driver.File{Name: f.Name, Data: f.Data})
		}
	}
	if p.cmd.Stdin != nil {
		p.spec.Input = strings.NewReader(string(p.cmd.Stdin))
	}

	// What is secret here: what the user gave, and what is inherited.
	all := p.inherited()
	maps.Copy(all, env)
	p.redact = redact.New(all, p.caps.Credentials...)
	labels := make(map[string]string, len(p.task.Labels)) // they go into every report
	for k, v := range p.task.Labels {
		labels[p.redact.String(k)] = p.redact.String(v)
	}
	p.task.Labels = labels
	return nil
}

// inherited is the environment that the agent gets without being given it: this
// process's own on this machine, nothing that is known of elsewhere.
func (p *prepared) inherited() driver.Env {
	if p.local {
		return environ()
	}
	return driver.Env{}
}

// environ is this process's own environment.
func environ() driver.Env {
	env := driver.Env{}
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

// Plan is what a run would do: `rein run --dry-run` prints it.
type Plan struct {
	Agent   string            `json:"agent"`
	Version string            `json:"agent_version"`
	Exe     string            `json:"exe"`
	Host    string            `json:"host"`
	Dir     string            `json:"dir"`
	Mode    agent.Mode        `json:"mode"`
	Model   string            `json:"model"`
	Argv    []string          `json:"argv"`
	Env     []string          `json:"env"`   // names of the variables that are set
	Unset   []string          `json:"unset"` // names of the variables that are removed
	Files   []string          `json:"files"` // that would be placed
	Prompt  string            `json:"prompt"`
	By      agent.Channel     `json:"prompt_by"`
	Rules   *Rules            `json:"rules,omitempty"`
	Billing string            `json:"billing"`
	Profile string            `json:"profile,omitempty"` // observer
	Told    string            `json:"told"`              // what the agent is told beside the prompt
	Guard   Guard             `json:"guard"`
	Gate    Gate              `json:"gate"`
	Sandbox Sandbox           `json:"sandbox"`
	Clocks  map[string]string `json:"clocks"`
	Limits  map[string]string `json:"limits"` // by the names of the configuration: bytes, processes, or none
	// Warnings are what the user should know before: a budget that this agent
	// lets nobody enforce in the middle of a turn, for example.
	Warnings []string `json:"warnings"`
}

// Describe validates a task and says what would be started. It starts nothing
// but the version probe and writes nothing but that probe's cache.
func Describe(ctx context.Context, task Task, o *Options) (*Plan, error) {
	p, err := prepare(ctx, task, o)
	if err != nil {
		return nil, err
	}
	return p.plan(), nil
}

func (p *prepared) plan() *Plan {
	plan := &Plan{
		Agent: p.agent.Name(), Version: p.facts.Version, Exe: p.facts.Exe, Host: p.where, Dir: p.task.Dir,
		Mode: cmp.Or(p.task.Mode, agent.Autonomous), Model: p.task.Model,
		Argv: p.cmd.Argv, Env: p.spec.Env.Names(), Unset: p.spec.Unset, Files: []string{},
		Prompt: p.task.Prompt, By: p.caps.Prompt, Told: p.told, Guard: p.guardReport(), Gate: Gate{Armed: p.ask != nil, Why: p.gateWhy}, Sandbox: p.box.report(), Clocks: p.clocks.Strings(), Limits: map[string]string{}, Warnings: nonNil(p.warnings),
	}
	plan.Rules, plan.Billing = p.rules, p.billing
	if p.task.Observer {
		plan.Profile = "observer"
	}
	l := p.task.Limits
	for name, n := range map[string]int64{
		"max_memory": l.Memory, "max_procs": int64(l.Procs), "max_output": l.Output, "max_tokens": l.Tokens, "max_subagents": int64(l.Subagents),
	} {
		if plan.Limits[name] = "none"; n > 0 {
			plan.Limits[name] = strconv.FormatInt(n, 10)
		}
	}
	if plan.Limits["max_cost"] = "none"; l.CostUSD > 0 {
		plan.Limits["max_cost"] = strconv.FormatFloat(l.CostUSD, 'f', -1, 64)
	}
	for _, f := range p.cmd.Files {
		plan.Files = append(plan.Files, agent.Join(p.facts.OS, p.filesDir, f.Name))
	}
	return plan
}

// Start starts the agent on the task and returns while it works. ctx owns the
// run: when it ends, the run is cancelled. When Start returns an error, nothing
// is left running and nothing that was placed is left behind.
func Start(ctx context.Context, task Task, o *Options) (*Run, error) {
	p, err := prepare(ctx, task, o)
	if err != nil {
		return nil, err
	}
	return p.start(ctx)
}

// Do is Start and Wait.
func Do(ctx context.Context, task Task, o *Options) (*Report, error) {
	r, err := Start(ctx, task, o)
	if err != nil {
		return nil, err
	}
	// ctx owns the run already; the report is wanted even when it has ended.
	return r.Wait(context.WithoutCancel(ctx))
}

func (p *prepared) start(ctx context.Context) (_ *Run, err error) {
	lease, err := p.store.LeaseDir(p.where, p.task.Dir, p.id, p.task.Mode == agent.ReadOnly && (p.rules == nil || p.rules.By != agent.RulesByFile))
	if err != nil {
		return nil, err
	}
	var undo []func()
	defer func() {
		if err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
		}
	}()
	undo = append(undo, func() { lease.Release() })

	dir, err := p.store.Create(p.id)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { dir.Discard() })

	r := newRun(p, dir, lease)
	if err := dir.WriteState(store.Starting, r.state()); err != nil {
		return nil, err
	}
	if err := p.writeFiles(dir); err != nil {
		return nil, err
	}
	r.look(ctx)
	undo = append(undo, func() { r.member.Leave((*store.Left)(r.before.Left(r.before.Head.Ref))) }) // no agent was there
	if err := writeJSON(dir, beforeFile, r.before); err != nil {
		return nil, err
	}
	// Behind the snapshot: what Rein places is not what the agent did.
	if err := r.placeRules(); err != nil {
		return nil, err
	}
	undo = append(undo, func() { r.restoreRules() })
	if err := r.spawn(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// writeFiles leaves the record of what is asked beside the run, and the files
// that the agent's command wants.
func (p *prepared) writeFiles(dir *store.Run) error {
	if err := dir.WriteFile("prompt.md", []byte(p.task.Prompt)); err != nil {
		return err
	}
	for _, f := range p.cmd.Files {
		if err := dir.WriteFile(f.Name, f.Data); err != nil {
			return err
		}
	}
	return writeJSON(dir, commandFile, struct {
		Argv    []string     `json:"argv"`
		Dir     string       `json:"dir"`
		Env     []string     `json:"env"`
		Unset   []string     `json:"unset"`
		Secrets []string     `json:"secrets"` // names of the variables whose values are redacted
		Files   []agent.File `json:"files"`
		Version string       `json:"agent_version"`
		Exe     string       `json:"exe"`
	}{p.spec.Argv, p.task.Dir, p.spec.Env.Names(), p.spec.Unset, nonNil(p.redact.Names()), p.cmd.Files, p.facts.Version, p.facts.Exe})
}

func writeJSON(dir *store.Run, name string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return dir.WriteFile(name, append(b, '\n'))
}
