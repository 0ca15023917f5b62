package boundary

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/git"
)

// asker asks the repository what two snapshots do not tell. A run that moved a
// thousand branches must not hold up its own end: the questions of each kind
// are bounded, and the rest keep the plain word.
type asker struct {
	ctx context.Context
	run git.Runner
	dir string

	o             *Options
	before, after *Snapshot
	moves         []git.Move      // of HEAD since before
	arrived       map[string]bool // references that a fetch may have brought

	ways, trees, questions, objects int
	known                           map[string]bool   // object: is it there
	kept                            map[string]string // object: the reference that keeps it
}

const (
	maxWays    = 64
	maxTrees   = 64
	maxObjects = 256

	maxQuestions = 128
	maxKept      = 64
)

// has says whether the object is in the repository.
func (q *asker) has(oid string) (bool, error) {
	if there, ok := q.known[oid]; ok {
		return there, nil
	}
	there, err := git.Has(q.ctx, q.run, q.dir, oid)
	if err == nil {
		q.known[oid] = there
	}
	return there, err
}

// same says whether the repository is the one of before: it has one of the
// objects. One is enough, for a run can prune what HEAD named; a repository
// whose only branch was pruned away from is told as another one.
func (q *asker) same(before *Snapshot) (bool, error) {
	oids := []string{before.Head.OID}
	for _, r := range before.Refs {
		if !slices.Contains(oids, r.OID) && len(oids) < 16 {
			oids = append(oids, r.OID)
		}
	}
	asked := false
	for _, oid := range oids {
		if oid == "" { // unborn
			continue
		}
		asked = true
		if there, err := q.has(oid); err != nil || there {
			return there, err
		}
	}
	return !asked, nil
}

// way says how a branch came from where it was.
func (q *asker) way(c *Change) {
	if q.ways++; q.ways > maxWays {
		return
	}
	if ok, err := git.Ancestor(q.ctx, q.run, q.dir, c.Before, c.After); err != nil {
		return
	} else if ok {
		c.What = Committed
		return
	}
	c.What = Rewritten
	if ok, err := git.Ancestor(q.ctx, q.run, q.dir, c.After, c.Before); err == nil && ok {
		c.What = Reset
	}
}

// removed looks whether the directory of a working tree that git counts as
// removed is still there: then "git worktree add" would refuse.
func (q *asker) removed(c *Change, after *Snapshot) {
	if q.trees++; q.trees > maxTrees {
		return
	}
	repo, err := git.Find(q.ctx, q.run, c.Ref)
	switch {
	case errors.Is(err, driver.ErrNoDir):
	case errors.Is(err, git.ErrNoRepo), err == nil && repo.Top != c.Ref:
		c.What, c.Restore = GitFileRemoved, repair(after, c.Ref)
	default: // another repository has its place
		c.Restore = ""
	}
}

// repair writes the .git file of a linked working tree again (git 2.29); it is
// empty where the repository has forgotten the working tree.
func repair(s *Snapshot, path string) string {
	if s.worktree(path) == nil {
		return ""
	}
	return command(s.CommonDir, "worktree", "repair")
}

// lost takes away a restore command that cannot work, because an object that it
// names is not there any more, and says so.
func (q *asker) lost(c *Change, before, after *Snapshot) {
	if c.Restore == "" || c.What == GitFileRemoved {
		return
	}
	for _, oid := range needs(c, before, after) {
		if _, ok := q.known[oid]; !ok {
			if q.objects++; q.objects > maxObjects {
				return
			}
		}
		if there, err := q.has(oid); err == nil && !there {
			if c.Restore = ""; c.kind != remote { // it need never have been here
				c.What += Lost
			}
			return
		}
	}
}

// needs are the objects without which the restore command fails.
func needs(c *Change, before, after *Snapshot) []string {
	switch {
	case c.kind == hook, c.kind == store:
		return c.needs
	case c.kind == config, c.kind == mainTree, c.kind == reflog, c.kind == sub:
		return nil
	case c.What == Committed, c.What == Reset, c.What == Rewritten:
		return nil // git has just walked from them
	case c.What == Stashed:
		return slices.DeleteFunc(slices.Clone(before.Stash), func(oid string) bool { return slices.Contains(after.Stash, oid) })
	case c.Before == "":
		return nil
	case !strings.HasPrefix(c.Before, "refs/"):
		return []string{c.Before}
	case after.oid(c.Before) != "":
		return nil
	}
	if oid := before.oid(c.Before); oid != "" { // the branch has to come back first
		return []string{oid}
	}
	return nil
}

// oid is what a reference names; "" when there is none.
func (s *Snapshot) oid(name string) string {
	for _, r := range s.Refs {
		if r.Name == name {
			return r.OID
		}
	}
	return ""
}

// headOf is HEAD of a working tree, nil where git does not know of it, and
// whether the working tree is gone.
func (s *Snapshot) headOf(path string) (h *git.Head, gone bool) {
	w := s.worktree(path)
	if w == nil {
		return nil, true
	}
	return &w.Head, w.Gone
}

func (s *Snapshot) worktree(path string) *git.Worktree {
	for i := range s.Worktrees {
		if s.Worktrees[i].Path == path {
			return &s.Worktrees[i]
		}
	}
	return nil
}
