package rein

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rein-run/rein/boundary"
	"github.com/rein-run/rein/internal/git"
	"github.com/rein-run/rein/store"
)

// beforeFile holds the snapshot of before.
const beforeFile = "before.json"

// repository is what that file holds: the state before the run, and what was
// granted then. A reaper judges by the same.
type repository struct {
	boundary.Snapshot
	Grants boundary.Grants `json:"grants"`
}

// boundaryOptions say how the repository is looked at where the run runs.
func (p *prepared) boundaryOptions() *boundary.Options {
	o := &boundary.Options{}
	if p.local {
		o = boundary.Local()
	} else {
		o.Remote = p.gitRunner(git.RemoteEnv())
	}
	o.Repo, o.ID, o.Grants = p.repo, p.id, p.grants()
	return o
}

// grants are what the task may do in the repository.
func (p *prepared) grants() boundary.Grants {
	return boundary.Grants{Commits: p.policy.Commits(), OthersWorkHere: p.opts.OthersWorkHere}
}

// look takes the snapshot of before and tells other runs of this one.
func (r *Run) look(ctx context.Context) {
	p := r.p
	r.before = repository{Grants: p.grants()}
	if p.norepo {
		r.before.Snapshot = boundary.Snapshot{Dir: p.task.Dir, Why: boundary.NoRepo}
		return
	}
	begin := time.Now()
	var err error
	o := p.boundaryOptions()
	o.Config = p.protect.config
	if r.before.Snapshot, err = boundary.Take(ctx, p.git, p.task.Dir, o); err != nil {
		// A repository that cannot be read does not keep the agent from its
		// work; the report says that nothing was checked, and why.
		r.before.Why = clip(said(err), maxEvidence)
	}
	if !r.before.Checked {
		return
	}
	r.member, err = p.store.JoinRepo(p.where, r.before.CommonDir, store.Peer{
		ID: p.id, Top: r.before.Top, Branch: r.before.Head.Ref, Since: begin,
	})
	if err != nil && p.opts.Log != nil {
		// Then another run counts what this one is allowed to do.
		p.opts.Log.Warn("other runs of the repository cannot be told of this one", "error", err)
	}
}

func (r *Run) checkBoundary(ctx context.Context) (Boundary, *store.Left) {
	o := r.p.boundaryOptions()
	if r.before.Checked {
		o.Peers = peers(r.p.store, r.p.where, r.before.CommonDir, r.p.id, r.started)
	}
	return checkBoundary(ctx, r.p.git, &r.before, o)
}

// peers are the other runs that were in the repository since then.
func peers(s *store.Store, host, common, self string, since time.Time) []boundary.Peer {
	ps, _ := s.Peers(host, common, self, since) // without, everything counts
	out := make([]boundary.Peer, 0, len(ps))
	for _, p := range ps {
		out = append(out, boundary.Peer{ID: p.ID, Top: p.Top, Branch: p.Branch, Left: (*boundary.Left)(p.Left)})
	}
	return out
}

// checkBoundary compares the repository with what it was, on every way out. It
// also says how the run left its part of it, nil where that could not be read.
func checkBoundary(ctx context.Context, run git.Runner, before *repository, o *boundary.Options) (Boundary, *store.Left) {
	if !before.Checked {
		return Boundary{Why: before.Why}, nil
	}
	o.Grants = before.Grants
	res, err := boundary.Check(ctx, run, before.Snapshot, o)
	b := Boundary{
		Checked: true, Changes: changes(res.Changes), Allowed: changes(res.Allowed), Others: changes(res.Others),
		Remotes: res.Remotes, Unseen: res.Unseen,
	}
	if err != nil {
		// It could be read before and cannot be read now. Whoever can take the
		// means of checking away must not be called clean for it (law 8).
		b.Checked, b.Why = false, clip(said(err), maxEvidence)
		b.Changes = append(b.Changes, Change{What: boundary.Blind, Ref: before.CommonDir, Before: before.Head.OID, After: b.Why})
	}
	b.Clean = len(b.Changes) == 0
	var left *store.Left
	if err == nil && res.After.CommonDir == before.CommonDir && res.After.Top == before.Top {
		left = (*store.Left)(res.After.Left(before.Head.Ref))
	}
	return b, left
}

func changes(all []boundary.Change) []Change {
	out := make([]Change, 0, len(all))
	for _, c := range all {
		out = append(out, Change{What: c.What, Ref: c.Ref, Before: c.Before, After: c.After, Restore: c.Restore, Kept: c.Kept, By: c.By})
	}
	return out
}

// said is an error of package boundary for a person, who knows no packages.
func said(err error) string { return strings.TrimPrefix(err.Error(), "boundary: ") }

// tidy makes the lists lists, and takes known secrets out of what an agent may
// have written into names.
func (b *Boundary) tidy(red redactor) {
	for _, list := range []*[]Change{&b.Changes, &b.Allowed, &b.Others} {
		*list = nonNil(slices.Clone(*list))
		for i := range *list {
			c := &(*list)[i]
			for _, s := range []*string{&c.What, &c.Ref, &c.Before, &c.After, &c.Restore} {
				*s = red.String(*s)
			}
		}
	}
	b.Remotes = nonNil(slices.Clone(b.Remotes))
	for i := range b.Remotes {
		b.Remotes[i].Why = red.String(b.Remotes[i].Why)
	}
	b.Unseen = nonNil(b.Unseen)
}
