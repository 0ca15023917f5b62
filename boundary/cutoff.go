package boundary

import (
	"context"
	"slices"

	"github.com/rein-run/rein/internal/git"
)

// cutOff says whether before was taken in a linked working tree that has lost
// its .git file, while its repository is where it was; then it gives the
// repository as it is now, seen from its main working tree. From the directory
// itself git finds nothing, or what is further up: the same repository with
// another HEAD, or a foreign one.
func cutOff(ctx context.Context, run git.Runner, o *Options, before, after Snapshot) (Snapshot, bool) {
	if !before.Checked || before.Top == "" || len(before.Worktrees) < 2 || after.Top == before.Top {
		return Snapshot{}, false
	}
	linked := slices.ContainsFunc(before.Worktrees[1:], func(w git.Worktree) bool { return w.Path == before.Top })
	if !linked {
		return Snapshot{}, false
	}
	main, err := take(ctx, run, before.CommonDir, o, &before)
	return main, err == nil && main.Checked && main.CommonDir == before.CommonDir
}

// checkCutOff compares before with the repository that main is. The restore
// commands run in the main working tree: in the one that is cut off they would
// fail, or change what is further up. Its own come after the repair.
func checkCutOff(ctx context.Context, run git.Runner, o *Options, before, main Snapshot) (*Result, error) {
	b := before
	b.Dir = before.Worktrees[0].Path
	main.Dir, main.Top = b.Dir, b.Top
	// HEAD of this working tree; the repository has it while it knows of it.
	main.Head = before.Head
	// What belongs to this working tree alone cannot be seen from there.
	main.GitDir, main.Reflog, main.moves, main.Main = b.GitDir, nil, nil, nil
	b.Reflog, b.Main = nil, nil
	perTree := func(s Setting) bool { return s.File != ownConfig }
	b.Config = slices.DeleteFunc(slices.Clone(b.Config), perTree)
	main.Config = slices.DeleteFunc(main.Config, perTree)
	res := &Result{After: main}
	err := check(ctx, run, o, b, main, res)
	w, fix := main.worktree(before.Top), repair(&main, before.Top)
	if w == nil || err != nil {
		return res, err
	}
	p := pair{before: before, kind: head, path: before.Top}
	p.head("HEAD", before.Top, before.Head, w.Head) // before.Dir may be gone
	for i := range p.changes {
		p.changes[i].Restore = fix + " && " + p.changes[i].Restore
	}
	res.Changes = append(p.changes, res.Changes...)
	return res, nil
}
