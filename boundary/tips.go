package boundary

import (
	"context"
	"slices"
	"strings"

	"github.com/rein-run/rein/internal/git"
)

// maxTips bounds how many commits are looked for at each end.
const maxTips = 256

// tip is where a branch or the HEAD of a working tree is.
type tip struct{ name, oid string }

// named are the tips of the repository, each commit once. They are commits in
// every repository: git puts nothing else on a branch.
func (s *Snapshot) named() []tip {
	var all []tip
	seen := map[string]bool{"": true} // an unborn branch
	add := func(name, oid string) {
		if !seen[oid] && len(all) < maxTips {
			seen[oid] = true
			all = append(all, tip{name, oid})
		}
	}
	for _, w := range s.Worktrees {
		name := "HEAD"
		if w.Path != s.Top {
			name += " of " + w.Path
		}
		add(name, w.Head.OID)
	}
	for _, r := range s.Refs {
		if strings.HasPrefix(r.Name, "refs/heads/") {
			add(r.Name, r.OID)
		}
	}
	return all
}

// tips looks whether the commits are there. References are read without them, so
// that a repository without its objects has all its branches as they were.
func (s *Snapshot) tips(ctx context.Context, run git.Runner, prior *Snapshot) error {
	all := s.named()
	if len(all) == 0 || prior != nil && prior.TipsWhy != "" {
		return nil
	}
	var oids []string
	for _, t := range all {
		oids = append(oids, t.oid)
	}
	there, err := git.Existing(ctx, run, s.Dir, oids)
	if err != nil {
		if prior == nil && ctx.Err() == nil {
			s.TipsWhy, err = err.Error(), nil // it was broken before the run
		}
		return err
	}
	s.Missing = slices.DeleteFunc(oids, func(oid string) bool { return there[oid] })
	return nil
}

// tips tells the commits that went away while something still names them.
func (p *pair) tips() {
	for _, t := range p.after.named() {
		if slices.Contains(p.after.Missing, t.oid) && !slices.Contains(p.before.Missing, t.oid) {
			p.changes = append(p.changes, Change{What: CommitGone, Ref: t.name, Before: t.oid, kind: whole})
		}
	}
}
