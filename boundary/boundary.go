// Package boundary tells what a run changed in a git repository that it was not
// to change: it takes a snapshot of HEAD and every reference before, another
// one after, and names the differences together with the command that undoes
// each.
package boundary

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rein-run/rein/internal/git"
)

// Snapshot is the state of a repository's references at one moment. It can be
// written as JSON and read again, so that a run that lost its supervisor is
// still checked. The repositories of submodules are not in it.
type Snapshot struct {
	// Checked says that there is a repository and that it was read. When it is
	// false, Why says what was there instead, and nothing else is set but Dir.
	Checked bool   `json:"checked"`
	Why     string `json:"why,omitempty"`

	Dir       string         `json:"dir"`                  // where it was asked
	Top       string         `json:"top,omitempty"`        // the working tree that is in; "" in a bare repository
	CommonDir string         `json:"common_dir,omitempty"` // which repository that is
	Head      git.Head       `json:"head,omitzero"`
	Refs      []git.Ref      `json:"refs,omitempty"`      // sorted by name
	Stash     []string       `json:"stash,omitempty"`     // commits, newest first
	Worktrees []git.Worktree `json:"worktrees,omitempty"` // the main one first
}

// Reasons in Snapshot.Why.
const (
	NoGit     = "git is not installed"
	NoRepo    = "not a git repository"
	Untrusted = "git does not trust the repository, which belongs to another user"
)

// ErrBlind: the repository could be read before and cannot be read any more.
var ErrBlind = errors.New("the repository can no longer be checked")

// Take takes a snapshot of the repository that dir is in. It runs about six
// git commands of a few milliseconds each; each is bounded to 30 s. That there
// is no git, no repository, or one that git does not trust is a snapshot that
// says so and no error.
func Take(ctx context.Context, run git.Runner, dir string) (Snapshot, error) {
	s := Snapshot{Dir: dir}
	repo, err := git.Find(ctx, run, dir)
	switch {
	case errors.Is(err, git.ErrNoGit):
		s.Why = NoGit
		return s, nil
	case errors.Is(err, git.ErrNoRepo):
		s.Why = NoRepo
		return s, nil
	case errors.Is(err, git.ErrUntrusted):
		s.Why = Untrusted
		return s, nil
	case err != nil:
		return s, fmt.Errorf("boundary: %w", err)
	}
	full := Snapshot{Checked: true, Dir: dir, CommonDir: repo.CommonDir, Top: repo.Top}
	full.Head, err = git.ReadHead(ctx, run, dir)
	if err == nil {
		full.Refs, err = git.Refs(ctx, run, dir)
	}
	if err == nil && slices.ContainsFunc(full.Refs, func(r git.Ref) bool { return r.Name == stashRef }) {
		full.Stash, err = git.Stash(ctx, run, dir)
	}
	if err == nil {
		full.Worktrees, err = git.Worktrees(ctx, run, dir)
	}
	if err != nil {
		return s, fmt.Errorf("boundary: %w", err)
	}
	return full, nil
}

// Check takes a second snapshot and compares it with before. It knows more
// words than Compare, because it can ask the repository: whether a branch that
// moved has a new commit, was reset or was rewritten, whether an object that a
// restore command needs is still there, and whether the repository was replaced
// by another one. A repository that could be read before and that git is now
// missing for, or does not trust any more, is ErrBlind.
func Check(ctx context.Context, run git.Runner, before Snapshot) (Snapshot, []Change, error) {
	after, err := Take(ctx, run, before.Dir)
	if err != nil {
		return after, nil, err
	}
	if before.Checked && !after.Checked && after.Why != NoRepo {
		// The run took the means of checking away: that is no clean result.
		return after, nil, fmt.Errorf("boundary: %s: %w: %s", before.Dir, ErrBlind, after.Why)
	}
	if main, ok := cutOff(ctx, run, before, after); ok {
		changes, err := checkCutOff(ctx, run, before, main)
		return after, changes, err
	}
	changes, err := check(ctx, run, before, after)
	return after, changes, err
}

func check(ctx context.Context, run git.Runner, before, after Snapshot) ([]Change, error) {
	changes := Compare(before, after)
	if len(changes) == 0 || !before.Checked || !after.Checked {
		return changes, nil
	}
	ask := asker{ctx: ctx, run: run, dir: before.Dir, known: map[string]bool{}}
	same, err := ask.same(&before)
	if err != nil {
		return changes, fmt.Errorf("boundary: %w", err)
	}
	if !same {
		return []Change{replaced(before, after)}, nil
	}
	for i := range changes {
		c := &changes[i]
		switch c.What {
		case moved:
			ask.way(c)
		case removed:
			ask.removed(c, &after)
		}
		ask.lost(c, &before, &after)
	}
	return changes, nil
}
