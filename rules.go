package rein

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/rules"
	"github.com/rein-run/rein/store"
)

// Rules is what the report says of the rules that the agent was given.
type Rules struct {
	By     agent.RuleChannel `json:"by"`             // the way they took
	File   string            `json:"file,omitempty"` // that they stood in while the run lived, below Dir
	Bytes  int               `json:"bytes"`
	SHA256 string            `json:"sha256"`
}

// checkAsked judges what the task says of rules, observer, schema and model.
func (p *prepared) checkAsked() error {
	t := &p.task
	if t.RequireModel && t.Model == "" {
		return taskError("--model", "none is named, and require_model wants one: name it here, or as model: in a configuration file")
	}
	if !t.Observer {
		return nil
	}
	switch {
	case t.Mode == agent.Autonomous:
		return taskError("--profile", "an observer only reads: leave --mode %s out, or the profile", agent.Autonomous)
	case p.policy.Commits(), p.policy.Network():
		return taskError("--profile", "an observer neither commits nor uses the web: leave the grant out, or the profile")
	}
	t.Mode = agent.ReadOnly
	return nil
}

// giveRules fills in the rules, and judges the way that they take.
func (p *prepared) giveRules(ctx context.Context, inv *agent.Invocation) error {
	t := p.task
	inv.Rules, inv.RulesBy, inv.Observer, inv.Schema = t.Rules, t.RulesBy, t.Observer, t.Schema
	by := inv.RuleChannel(p.caps)
	if by == "" || !slices.Contains(p.caps.Rules, by) { // the agent refuses it, in its own words
		return nil
	}
	sum := sha256.Sum256([]byte(t.Rules))
	p.rules = &Rules{By: by, Bytes: len(t.Rules), SHA256: hex.EncodeToString(sum[:])}
	if by != agent.RulesByFile {
		return nil
	}
	if !p.local {
		return taskError("--rules-by", "a file is placed on this machine only, and the agent runs on %s: use %s", p.where, agent.RulesByPrompt)
	}
	p.rules.File = p.caps.RulesFile
	o := &p.ruleFile
	o.Commits = p.policy.Commits()
	if p.repo != nil && p.repo.Top != "" {
		o.Exclude, o.Top = filepath.Join(p.repo.CommonDir, "info", "exclude"), p.repo.Top
		out, err := p.git(ctx, t.Dir, "ls-files", "--", p.rules.File)
		if err != nil {
			return &TaskError{Field: "--rules-by", Err: fmt.Errorf("whether git has %s: %w", p.rules.File, err)}
		}
		o.Tracked = len(out) > 0
	}
	return nil
}

// placeRules puts them into their file, where that is their way.
func (r *Run) placeRules() (err error) {
	p := r.p
	if p.rules == nil || p.rules.By != agent.RulesByFile {
		return nil
	}
	o := p.ruleFile
	if o.Journal, err = r.dir.Journal(); err != nil {
		return err
	}
	o.Lock = func() (func(), error) { return lockExclude(p.store, o.Exclude, p.id) }
	if r.rules, err = rules.Place(p.task.Dir, p.rules.File, p.task.Rules, &o); err != nil {
		field := "--rules"
		if errors.Is(err, rules.ErrLink) || errors.Is(err, rules.ErrTracked) {
			err = fmt.Errorf("%w: give them by another way (--rules-by)", err)
			field = "--rules-by"
		}
		return &TaskError{Field: field, Err: err}
	}
	return nil
}

// restoreRules takes them away. It says in words what could not be.
func (r *Run) restoreRules() string {
	if err := r.rules.Restore(); err != nil {
		return clip(err.Error(), maxEvidence)
	}
	return ""
}

// recoverRules is restoreRules for a run whose supervisor died.
func recoverRules(s *store.Store, dir *store.Run) string {
	j, err := dir.Journal()
	if err == nil {
		err = rules.Recover(j, func(exclude string) (func(), error) { return lockExclude(s, exclude, dir.ID()) })
	}
	if err != nil {
		return clip(err.Error(), maxEvidence)
	}
	return ""
}

// lockExclude keeps other runs from the file info/exclude of a repository while
// it is changed. It is waited for, for a bounded time.
func lockExclude(s *store.Store, exclude, id string) (func(), error) {
	common := filepath.Dir(filepath.Dir(exclude))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		lease, err := s.LeaseDir("local:", common, id, false)
		if err == nil {
			return func() { lease.Release() }, nil
		}
		if _, busy := errors.AsType[*store.LeaseError](err); !busy || time.Now().After(end) {
			return nil, err
		}
	}
}
