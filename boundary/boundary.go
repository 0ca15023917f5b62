// Package boundary tells what a run changed in a git repository that it was not
// to change: it takes a snapshot before, another one after, and names the
// differences together with the command that undoes each.
package boundary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rein-run/rein/internal/git"
)

// Snapshot is the state of a repository at one moment, but for the files of the
// working tree that was asked for. It can be written as JSON and read again, so
// that a run that lost its supervisor is still checked. No password, token or
// other value that may be secret is in it.
type Snapshot struct {
	// Checked says that there is a repository and that it was read. When it is
	// false, Why says what was there instead, and nothing else is set but Dir.
	Checked bool   `json:"checked"`
	Why     string `json:"why,omitempty"`

	Dir       string         `json:"dir"`                  // where it was asked
	Top       string         `json:"top,omitempty"`        // the working tree that is in; "" in a bare repository
	CommonDir string         `json:"common_dir,omitempty"` // which repository that is
	GitDir    string         `json:"git_dir,omitempty"`    // CommonDir, or that of the linked working tree
	Head      git.Head       `json:"head,omitzero"`
	Refs      []git.Ref      `json:"refs,omitempty"`      // sorted by name
	Stash     []string       `json:"stash,omitempty"`     // commits, newest first
	Worktrees []git.Worktree `json:"worktrees,omitempty"` // the main one first
	Reflog    *git.Move      `json:"reflog,omitempty"`    // last move of HEAD

	Config   []Setting `json:"config,omitempty"` // of the repository, sorted
	HookDirs []string  `json:"hook_dirs,omitempty"`
	Hooks    []Hook    `json:"hooks,omitempty"`
	Stores   []Hook    `json:"stores,omitempty"`    // files that say which objects and parents there are
	Shallow  []string  `json:"shallow,omitempty"`   // where history is cut off
	FilesWhy string    `json:"files_why,omitempty"` // why hooks, stores and reflog could not be read
	Main     *Tree     `json:"main,omitempty"`      // the main working tree, when this is a linked one
	Subs     []Sub     `json:"subs,omitempty"`      // submodules, and repositories inside
	SubsCut  bool      `json:"subs_cut,omitempty"`
	Remotes  []Remote  `json:"remotes,omitempty"`

	Missing []string `json:"missing,omitempty"`  // commits of HEADs and branches that are not there
	TipsWhy string   `json:"tips_why,omitempty"` // why that could not be asked

	moves []git.Move    // the end of HEAD's reflog
	raw   []git.Setting // the configuration as it is, for this process alone
}

// Reasons in Snapshot.Why.
const (
	NoGit     = "git is not installed"
	NoRepo    = "not a git repository"
	Untrusted = "git does not trust the repository, which belongs to another user"
)

// ErrBlind: the repository could be read before and cannot be read any more.
var ErrBlind = errors.New("the repository can no longer be checked")

// Take takes a snapshot of the repository that dir is in. In a plain repository
// it runs four git commands of a few milliseconds each, all at once, then one that
// looks for the commits of branches, and one more for each of: a stash, hooks, two for each submodule, three for the main working
// tree when dir is in a linked one, one for each URL of a remote. Each is bounded
// to 30 s, remotes as the options say.
//
// That there is no git, no repository, or one that git does not trust is a
// snapshot that says so and no error.
func Take(ctx context.Context, run git.Runner, dir string, o *Options) (Snapshot, error) {
	return take(ctx, run, dir, o.orDefault(), nil)
}

// take takes a snapshot; with prior, the one of before, it asks the remotes and
// looks at the submodules that were known then.
func take(ctx context.Context, run git.Runner, dir string, o *Options, prior *Snapshot) (Snapshot, error) {
	s := Snapshot{Dir: dir}
	full := Snapshot{Checked: true, Dir: dir}
	repo := o.Repo
	var ferr error
	// None of these needs to know the answer of another.
	err := together(
		func() error {
			if repo == nil {
				repo, ferr = git.Find(ctx, run, dir)
			}
			return nil
		},
		func() (err error) { full.Refs, err = git.Refs(ctx, run, dir); return },
		func() (err error) { full.Worktrees, err = git.Worktrees(ctx, run, dir); return },
		func() (err error) {
			if full.raw = o.Config; full.raw == nil {
				full.raw, err = git.Config(ctx, run, dir)
			}
			return err
		},
	)
	switch {
	case errors.Is(ferr, git.ErrNoGit):
		s.Why = NoGit
		return s, nil
	case errors.Is(ferr, git.ErrNoRepo):
		s.Why = NoRepo
		return s, nil
	case errors.Is(ferr, git.ErrUntrusted):
		s.Why = Untrusted
		return s, nil
	case ferr != nil:
		err = ferr
	}
	if err != nil {
		return s, fmt.Errorf("boundary: %w", err)
	}
	full.CommonDir, full.GitDir, full.Top = repo.CommonDir, repo.GitDir, repo.Top
	full.Config = settings(&full)

	err = together(
		func() (err error) {
			var ok bool
			if full.Head, ok = repo.HeadAmong(full.Worktrees); !ok {
				full.Head, err = git.ReadHead(ctx, run, dir)
			}
			return err
		},
		func() (err error) {
			if full.oid(stashRef) != "" {
				full.Stash, err = git.Stash(ctx, run, dir)
			}
			return err
		},
		func() error {
			if prior != nil && prior.FilesWhy != "" {
				return nil // nothing to compare with
			}
			err := full.files(ctx, run, o, prior)
			if err != nil && prior == nil && ctx.Err() == nil {
				// A folder of somebody else's must not hide the rest.
				full.FilesWhy, full.Hooks, full.Stores, full.Reflog, err = err.Error(), nil, nil, nil, nil
			}
			return err
		},
		func() error { return full.tips(ctx, run, prior) },
		func() error { return full.mainTree(ctx, run, o) },
		func() error { return full.submodules(ctx, run, o, prior) },
		func() error { full.remotes(ctx, o, prior); return nil },
	)
	if err != nil {
		return s, fmt.Errorf("boundary: %w", err)
	}
	return full, nil
}

// together runs all at once and returns the first error in their order.
func together(all ...func() error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, f := range all {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

func (s *Snapshot) linked() bool { return s.Top != "" && s.GitDir != s.CommonDir }
