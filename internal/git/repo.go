package git

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Repo says which repository a directory belongs to. Paths are absolute, where
// the repository is.
type Repo struct {
	CommonDir string // shared by all worktrees: refs, objects, config
	GitDir    string // of this worktree: HEAD, index
	Top       string // of the working tree; "" in a bare repository and inside .git
	Bare      bool
}

// Linked says that the directory is in a linked worktree.
func (r *Repo) Linked() bool { return r.CommonDir != r.GitDir }

// Find says which repository dir belongs to, in one process where there is a
// working tree. Errors match ErrNoGit, ErrNoRepo and ErrUntrusted.
func Find(ctx context.Context, run Runner, dir string) (*Repo, error) {
	what := []string{"--git-common-dir", "--git-dir", "--is-bare-repository", "--show-toplevel"}
	ask := func() ([]string, error) {
		out, err := run.git(ctx, dir, append([]string{"rev-parse", "--path-format=absolute"}, what...)...)
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), err
	}
	l, err := ask()
	if failed(err, 128) && strings.Contains(err.Error(), "must be run in a work tree") {
		what = what[:3] // bare, or inside .git
		l, err = ask()
	}
	if err != nil {
		return nil, err
	}
	if len(l) != len(what) {
		// A path with a newline in it: rev-parse has no -z, so each value is
		// asked for alone. Every newline adds a line, so that the count tells.
		l = nil
		for _, w := range what {
			v, err := run.value(ctx, dir, w)
			if err != nil {
				return nil, err
			}
			l = append(l, v)
		}
	}
	r := &Repo{CommonDir: l[0], GitDir: l[1], Bare: l[2] == "true"}
	if len(l) > 3 {
		r.Top = l[3]
	}
	return r, nil
}

// value asks rev-parse for one thing. Only the newline that git adds is cut
// off: others belong to the path.
func (run Runner) value(ctx context.Context, dir, what string) (string, error) {
	out, err := run.git(ctx, dir, "rev-parse", "--path-format=absolute", what)
	return strings.TrimSuffix(string(out), "\n"), err
}

// CommonDir is the absolute path of the directory that all worktrees of dir's
// repository share.
func CommonDir(ctx context.Context, run Runner, dir string) (string, error) {
	r, err := Find(ctx, run, dir)
	if err != nil {
		return "", err
	}
	return r.CommonDir, nil
}

// Head is where HEAD points.
type Head struct {
	Ref string `json:"ref,omitempty"` // "refs/heads/main"; "" when detached
	OID string `json:"oid,omitempty"` // "" when the branch has no commit yet
}

// Detached says that HEAD names a commit and no branch.
func (h Head) Detached() bool { return h.Ref == "" }

// Unborn says that HEAD names a branch that has no commit yet.
func (h Head) Unborn() bool { return h.OID == "" }

// HeadAmong is HEAD of the working tree that r names, as the list of all working
// trees has it; false when the list does not say: ReadHead does.
func (r *Repo) HeadAmong(trees []Worktree) (Head, bool) {
	for i, w := range trees {
		own := r.Linked() && i > 0 && w.Path == r.Top || !r.Linked() && i == 0 && !w.Bare && !r.Bare
		if own && w.Head != (Head{}) {
			return w.Head, true
		}
	}
	return Head{}, false
}

// ReadHead reads HEAD of the worktree that dir is in, in two processes.
func ReadHead(ctx context.Context, run Runner, dir string) (Head, error) {
	var h Head
	switch out, err := run.git(ctx, dir, "symbolic-ref", "-q", "HEAD"); {
	case err == nil:
		h.Ref = strings.TrimSuffix(string(out), "\n")
	case !failed(err, 1): // 1: detached
		return Head{}, err
	}
	switch out, err := run.git(ctx, dir, "rev-parse", "-q", "--verify", "HEAD"); {
	case err == nil:
		h.OID = strings.TrimSuffix(string(out), "\n")
	case !failed(err, 1): // 1: unborn
		return Head{}, err
	}
	return h, nil
}

// Ref is one reference.
type Ref struct {
	Name   string `json:"name"`             // whole: "refs/heads/main"
	OID    string `json:"oid"`              // of what it names; of the tag object for an annotated tag
	Symref string `json:"symref,omitempty"` // the reference that it stands for
}

// Refs lists every reference, sorted by name: branches, tags, remote-tracking,
// stash, notes and all others. HEAD is not one of them.
func Refs(ctx context.Context, run Runner, dir string) ([]Ref, error) {
	// A NUL cannot be in a name; %00 is a format's way to write one.
	out, err := run.git(ctx, dir, "for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)")
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) != 3 {
			return nil, fmt.Errorf("git for-each-ref in %s: cannot be understood", dir)
		}
		refs = append(refs, Ref{Name: f[0], OID: f[1], Symref: f[2]})
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return refs, nil
}

// Stash lists the commits of the stash, newest first.
func Stash(ctx context.Context, run Runner, dir string) ([]string, error) {
	out, err := run.git(ctx, dir, "rev-list", "--walk-reflogs", "refs/stash", "--")
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// Worktree is one working tree of a repository.
type Worktree struct {
	Path string `json:"path"`
	Head Head   `json:"head"`
	Bare bool   `json:"bare,omitempty"`
	// Gone says that the directory does not exist any more.
	Gone bool `json:"gone,omitempty"`
}

// Worktrees lists the working trees of dir's repository; the first is the main
// one.
func Worktrees(ctx context.Context, run Runner, dir string) ([]Worktree, error) {
	sep := "\x00"
	out, err := run.git(ctx, dir, "worktree", "list", "--porcelain", "-z")
	if failed(err, 129) { // usage: -z came with git 2.36
		sep = "\n"
		out, err = run.git(ctx, dir, "worktree", "list", "--porcelain")
	}
	if err != nil {
		return nil, err
	}
	return worktrees(string(out), sep), nil
}

// worktrees reads the list. What follows the path up to HEAD or bare belongs to
// the path: without -z its newlines come as they are.
func worktrees(out, sep string) []Worktree {
	var all []Worktree
	var w *Worktree // the record that is read
	path := false
	for line := range strings.SplitSeq(out, sep) {
		key, value, _ := strings.Cut(line, " ")
		switch {
		case w == nil:
			if key == "worktree" {
				all = append(all, Worktree{Path: value})
				w, path = &all[len(all)-1], true
			}
		case key == "HEAD":
			path = false
			if strings.Trim(value, "0") != "" { // zeros: unborn
				w.Head.OID = value
			}
		case line == "bare":
			w.Bare, path = true, false
		case path:
			w.Path += sep + line
		case line == "":
			w = nil
		case key == "branch":
			w.Head.Ref = value
		case key == "prunable":
			w.Gone = true
		}
	}
	return all
}

// Ancestor says whether the commit old is new or one of its ancestors. Commits
// that are not there are an *ExitError.
func Ancestor(ctx context.Context, run Runner, dir, old, new string) (bool, error) {
	_, err := run.git(ctx, dir, "merge-base", "--is-ancestor", old, new)
	if failed(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// Has says whether the object is in the repository.
func Has(ctx context.Context, run Runner, dir, oid string) (bool, error) {
	_, err := run.git(ctx, dir, "cat-file", "-e", oid)
	if failed(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// Existing says which of the commits are in the repository.
func Existing(ctx context.Context, run Runner, dir string, oids []string) (map[string]bool, error) {
	there := map[string]bool{}
	for some := range slices.Chunk(oids, 500) { // well below any limit of a command line
		// The commit-graph lists commits without their objects (git 2.43.1 and
		// others believe it).
		graph := []string{"-c", "core.commitGraph=false"}
		out, err := run.gitWith(ctx, dir, graph, slices.Concat([]string{"rev-list", "--no-walk=unsorted", "--ignore-missing"}, some, []string{"--"})...)
		if err != nil {
			return nil, err
		}
		for _, oid := range strings.Fields(string(out)) {
			there[oid] = true
		}
	}
	return there, nil
}

// Containing names the references from which the commit can be reached.
func Containing(ctx context.Context, run Runner, dir, oid string) ([]string, error) {
	out, err := run.git(ctx, dir, "for-each-ref", "--contains", oid, "--format=%(refname)")
	return strings.Fields(string(out)), err // no name holds a space
}

// LastMove is the last entry in the reflog of a reference, in its own words: ""
// when it has none.
func LastMove(ctx context.Context, run Runner, dir, ref string) (string, error) {
	out, err := run.git(ctx, dir, "log", "--walk-reflogs", "--max-count=1", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--format=%gs", ref, "--")
	return strings.TrimSuffix(string(out), "\n"), err
}

// Keep makes the reference name for an object, so that nothing prunes it. It
// does not move one that is there.
func Keep(ctx context.Context, run Runner, dir, name, oid string) error {
	_, err := run.git(ctx, dir, "update-ref", "--no-deref", "-m", "rein: kept", name, oid, strings.Repeat("0", len(oid)))
	return err
}
