package boundary

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/git"
)

// Result is what a check found.
type Result struct {
	After Snapshot
	// Changes count against the run. Allowed were granted to it. Others are not
	// its own: By says whose.
	Changes []Change
	Allowed []Change
	Others  []Change
	// Remotes says of each URL whether it was compared.
	Remotes []RemoteState
	// Unseen says in words what was not looked at, though it is there.
	Unseen []string
}

// AfterTheRun begins RemoteState.Why of a remote that answered before the run.
const AfterTheRun = "after the run: "

// RemoteState says whether a remote was compared, and why not.
type RemoteState struct {
	Name    string `json:"name"`
	Checked bool   `json:"checked"`
	Why     string `json:"why,omitempty"`
}

// Check takes a second snapshot and compares it with before. It knows more
// words than Compare, because it can ask the repository: whether a branch that
// moved has a new commit, was reset or was rewritten, whether an object that a
// restore command needs is still there, whether the repository was replaced by
// another one, and who moved a reference.
//
// With an error the result is not whole, and may hold what was found all the
// same. A repository that could be read before and that git is now missing for,
// does not trust or cannot read any more is ErrBlind.
func Check(ctx context.Context, run git.Runner, before Snapshot, o *Options) (*Result, error) {
	o = o.orDefault()
	opt := *o
	opt.Repo, opt.Config = nil, nil // of before
	res := &Result{}
	after, err := take(ctx, run, before.Dir, &opt, &before)
	// A run may remove the directory that it was started in, which lies in its
	// own working tree. The repository answers from elsewhere then, and the
	// restore commands have to go there too.
	for _, dir := range []string{before.Top, before.CommonDir} {
		if dir != "" && errors.Is(err, driver.ErrNoDir) {
			before.Dir = dir
			after, err = take(ctx, run, dir, &opt, &before)
		}
	}
	res.After = after
	if err != nil {
		if before.Checked && ctx.Err() == nil {
			res.Changes = brokenConfig(ctx, run, before)
			err = fmt.Errorf("boundary: %s: %w: %w", before.Dir, ErrBlind, err)
		}
		return res, err
	}
	if before.Checked && !after.Checked && after.Why != NoRepo {
		// The run took the means of checking away: that is no clean result.
		return res, fmt.Errorf("boundary: %s: %w: %s", before.Dir, ErrBlind, after.Why)
	}
	if main, ok := cutOff(ctx, run, &opt, before, after); ok {
		return checkCutOff(ctx, run, &opt, before, main)
	}
	err = check(ctx, run, &opt, before, after, res)
	return res, err
}

func check(ctx context.Context, run git.Runner, o *Options, before, after Snapshot, res *Result) error {
	res.states(&before, &after)
	if !before.Checked || !after.Checked || before.CommonDir != after.CommonDir {
		res.Changes = Compare(before, after)
		return nil
	}
	p := pair{before: before, after: after}
	p.compare()
	changes := p.changes
	if len(changes) == 0 {
		return nil
	}
	ask := asker{
		ctx: ctx, run: run, dir: before.Dir, o: o, known: map[string]bool{},
		before: &before, after: &after, moves: p.moves, arrived: map[string]bool{},
	}
	// References that stayed while their objects went are the old repository,
	// damaged, and not another one.
	same := slices.ContainsFunc(changes, func(c Change) bool { return c.What == CommitGone })
	var err error
	if !same {
		same, err = ask.same(&before)
	}
	if err != nil {
		res.Changes = changes
		return fmt.Errorf("boundary: %w", err)
	}
	if !same {
		res.Changes = []Change{replaced(before, after)}
		return nil
	}
	ask.learn(changes)
	for i := range changes {
		c := &changes[i]
		switch {
		case c.kind == ref && c.What == moved:
			ask.way(c)
		case c.kind == worktree && c.What == removed:
			ask.removed(c, &after)
		}
		ask.lost(c, &before, &after)
	}
	for _, c := range changes {
		switch ask.judge(&c) {
		case counts:
			ask.keep(&c)
			res.Changes = append(res.Changes, c)
		case allowed:
			res.Allowed = append(res.Allowed, c)
		case others:
			res.Others = append(res.Others, c)
		}
	}
	return nil
}

// states says what was looked at.
func (r *Result) states(before, after *Snapshot) {
	for i, b := range before.Remotes {
		if i >= len(after.Remotes) {
			break
		}
		a := after.Remotes[i]
		st := RemoteState{Name: b.Name, Checked: b.Checked && a.Checked}
		if b.Push {
			st.Name += " (push)"
		}
		switch {
		case !b.Checked:
			st.Why = "before the run: " + b.Why
		case !a.Checked:
			st.Why = AfterTheRun + a.Why
		case b.Partial != a.Partial:
			st.Checked, st.Why = false, fmt.Sprintf("more than %d references at one end of the run", maxRemoteRefs)
		case b.Partial:
			r.Unseen = append(r.Unseen, "references of "+st.Name+" that are neither branches nor tags")
		}
		r.Remotes = append(r.Remotes, st)
	}
	if before.FilesWhy != "" {
		r.Unseen = append(r.Unseen, "hooks, alternates, grafts, the shallow boundary and the reflog: "+before.FilesWhy)
	}
	if before.TipsWhy != "" {
		r.Unseen = append(r.Unseen, "whether the commits of branches are there: "+before.TipsWhy)
	}
	if before.SubsCut {
		r.Unseen = append(r.Unseen, "repositories inside this one: not all of them were found and could be read")
	}
	if before.Main != nil && !before.Main.Checked {
		r.Unseen = append(r.Unseen, "the files of the main checkout: "+before.Main.Why)
	}
}

// brokenConfig compares the repository's own configuration as a file, for it may
// be what makes git refuse the repository.
func brokenConfig(ctx context.Context, run git.Runner, before Snapshot) []Change {
	raw, err := git.ConfigFile(ctx, run, path.Join(before.CommonDir, "config"))
	if err != nil {
		return nil
	}
	for i := range raw {
		raw[i].Scope = "local"
	}
	after := Snapshot{raw: raw}
	after.Config = settings(&after)
	own := func(s Setting) bool { return s.File != ownConfig }
	before.Config = slices.DeleteFunc(slices.Clone(before.Config), own)
	p := pair{before: before, after: after}
	p.config()
	return p.changes
}
