package rein

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/guard/block"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/git"
	"github.com/rein-run/rein/prompt"
)

// Guard is what the report says of what the run might not do.
type Guard struct {
	Denied  []string `json:"denied"`  // commands, by name
	Granted []string `json:"granted"` // of them, to this run; rules that are off, by name
	Network bool     `json:"network"` // the web tools of the agent were open
	// Blocked says that git and the shell refused too, in every shell of the run.
	Blocked bool   `json:"blocked"`
	Why     string `json:"why,omitempty"` // why they did not
}

// guardField is the setting of the user's that an error of the policy is about.
func guardField(err error) string {
	switch {
	case errors.Is(err, guard.ErrPack):
		return "--pack"
	case errors.Is(err, guard.ErrRule):
		return "rules"
	case errors.Is(err, guard.ErrLevel):
		return "levels"
	}
	return "--allow"
}

// guarded is what is known of the repository that a run is in.
type guarded struct {
	remotes   []string
	hooksPath string        // core.hooksPath of the user, the machine or the environment
	config    []git.Setting // as it was listed for that; nil where nobody did
	branch    string        // that the run's working tree is on, when commits are granted
}

// readRepository asks git for what has to be known to protect a repository. A
// repository that does not answer is protected less, which is no reason not to
// work in it: it is compared afterwards.
//
// Elsewhere the environment of a command is known by what git says of it.
func (p *prepared) readRepository(ctx context.Context) {
	if p.repo == nil && p.local {
		return
	}
	if p.repo != nil && p.policy.Commits() {
		if head, err := git.ReadHead(ctx, p.git, p.task.Dir); err == nil {
			p.protect.branch = head.Ref
		}
	}
	settings, err := git.Config(ctx, p.git, p.task.Dir)
	if err != nil {
		return
	}
	p.protect.config = settings
	env := git.FromEnv(settings)
	for _, s := range settings {
		if s.Scope == "command" {
			env--
		}
		switch {
		case strings.HasPrefix(s.Key, "remote.") && (strings.HasSuffix(s.Key, ".url") || strings.HasSuffix(s.Key, ".pushurl")):
			if !slices.Contains(p.protect.remotes, s.Value) {
				p.protect.remotes = append(p.protect.remotes, s.Value)
			}
		case s.Key == "core.hookspath" && s.Scope == "command" && env >= 0:
			// Of the environment, as the user sets it, or a run that this one is
			// inside of: what that refuses is refused here too.
			p.protect.hooksPath = s.Value
		case s.Key == "core.hookspath" && (s.Scope == "global" || s.Scope == "system"):
			p.protect.hooksPath = s.Value
			if rest, ok := strings.CutPrefix(s.Value, "~/"); ok {
				p.protect.hooksPath = path.Join(p.facts.Home, rest)
			}
		}
	}
}

// trees are the directories that belong to the repository besides its common
// one: the working tree of the run, and the main one.
func (p *prepared) trees() []string {
	var all []string
	if p.repo.Top != "" {
		all = append(all, p.repo.Top)
	}
	if main, ok := strings.CutSuffix(p.repo.CommonDir, "/.git"); ok && main != p.repo.Top {
		all = append(all, main)
	}
	return all
}

// environ is the environment that the agent sees, as far as it is known.
func (p *prepared) environ() driver.Env {
	env := maps.Clone(p.inherited())
	maps.Copy(env, p.spec.Env)
	for _, k := range p.spec.Unset {
		delete(env, k)
	}
	return env
}

// place is where the agent's commands run, for the judge.
func (p *prepared) place() guard.Place {
	env := p.environ()
	in := guard.Place{Dir: p.task.Dir, Home: p.facts.Home, Env: env, OS: p.facts.OS, Remotes: p.protect.remotes}
	if p.repo != nil {
		in.Tree = p.repo.Top
		in.Repos = append(p.trees(), p.repo.CommonDir)
	}
	return in
}

// askAgent fills in what the agent is asked to leave alone, from the policy that
// enforces it (law 6).
func (p *prepared) askAgent(inv *agent.Invocation) {
	inv.Withhold = agent.Withhold{Commands: p.policy.Denied(), Web: !p.policy.Network()}
	p.told = prompt.Section(p.policy, prompt.Limits{
		Enforced: inv.Gate != nil, Halts: inv.Gate == nil && p.caps.Tools, Checked: p.repo != nil,
		Sandboxed: p.box != nil,
		Tokens:    p.task.Limits.Tokens, CostUSD: p.task.Limits.CostUSD, SubAgents: p.task.Limits.Subagents, Total: p.clocks.Total,
	})
	inv.Limits = p.told
}

// block makes git and the shell refuse, where the run runs: its files are placed
// in a private directory there.
func (p *prepared) block(seen driver.Env) {
	private := p.private
	if p.local {
		private = p.store.Runs()
	}
	switch {
	case p.facts.OS == "windows":
		p.blockWhy = "not on Windows"
		return
	case private == "":
		p.blockWhy = "the host names no directory for the files that it takes"
		return
	}
	if !p.local {
		// The keys that stand in the environment there stay where they are and in
		// force, when ours are numbered behind them.
		if n := git.FromEnv(p.protect.config); n > 0 && seen["GIT_CONFIG_COUNT"] == "" {
			seen["GIT_CONFIG_COUNT"] = strconv.Itoa(n)
		}
	}
	o := block.Options{
		Dir: path.Join(private, p.id, blockDir), Denied: p.policy.Shims(), Env: seen,
		Keep:  append(slices.Collect(maps.Keys(p.task.Env)), p.caps.Credentials...),
		Forge: p.policy.Forge(),
	}
	if o.Env["PATH"] == "" {
		o.Env["PATH"] = p.facts.Path
	}
	for when, names := range p.caps.CredentialsIf {
		if v := seen[when]; v != "" && v != "0" && v != "false" {
			o.Keep = append(o.Keep, names...)
		}
	}
	if p.repo != nil {
		o.Repo = &block.Repo{CommonDir: p.repo.CommonDir, Trees: p.trees(), URLs: p.protect.remotes, HooksPath: p.protect.hooksPath}
		if p.policy.Commits() {
			o.Branch = p.protect.branch
		}
	}
	if p.blocks = block.Make(o); len(p.blocks.Files) == 0 {
		return
	}
	p.spec.Folder = &driver.Folder{Dir: o.Dir, Files: p.blocks.Files}
}

// blockDir is where the blocks of a run stand in its directory.
const blockDir = "block"

// guardReport is what the report says.
func (p *prepared) guardReport() Guard {
	return Guard{
		Denied: nonNil(p.policy.Denied()), Granted: nonNil(append(p.policy.Granted(), p.policy.Off()...)), Network: p.policy.Network(),
		Blocked: p.blockWhy == "", Why: p.blockWhy,
	}
}

// warden judges the tool calls of one run by the policy: before they run, where
// the agent asks, else as they are seen in its stream.
type warden struct {
	policy *guard.Policy
	in     guard.Place
	also   Judge // the caller's own, asked about what the policy lets pass
	halt   func(v guard.Verdict)

	mu     sync.Mutex
	warned []string
}

// judge is the Judge of a gate.
func (w *warden) judge(t agent.Tool, dir string) (bool, string) {
	in := w.in
	in.Cwd = dir
	v := w.policy.Judge(t, in)
	switch {
	case v.Level == guard.Halt:
		w.halt(v)
		fallthrough
	case v.Refused():
		return false, v.Reason
	}
	w.warn(v)
	if w.also != nil {
		return w.also(t, dir)
	}
	return true, ""
}

// read judges what the stream shows, where the agent does not ask: the call is
// under way or about to be, and the only answer left is to end the run.
func (w *warden) read(r agent.Reading) {
	if w == nil || r.Kind != agent.KindToolStarted || r.Tool == nil {
		return
	}
	v := w.policy.Judge(*r.Tool, w.in)
	if v.Refused() {
		w.halt(v)
		return
	}
	w.warn(v)
}

func (w *warden) warn(v guard.Verdict) {
	if v.Level != guard.Warn {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if what := clip(v.Rule+": "+cmp.Or(v.Evidence, v.Reason), maxEvidence); len(w.warned) < maxDenied && !slices.Contains(w.warned, what) {
		w.warned = append(w.warned, what)
	}
}

func (w *warden) warnings() []string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.warned)
}
