package boundary

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rein-run/rein/internal/git"
)

// Tree is what is not clean in a working tree.
type Tree struct {
	Path string `json:"path"`
	// Checked says that it was looked at; else Why says why not.
	Checked bool              `json:"checked"`
	Why     string            `json:"why,omitempty"`
	Files   map[string]string `json:"files,omitempty"` // path → changes with its state
}

// mainTree looks at the user's own checkout when the run is in a linked working
// tree: an agent that is told a path writes there by mistake.
func (s *Snapshot) mainTree(ctx context.Context, run git.Runner, o *Options) error {
	if !s.linked() || len(s.Worktrees) == 0 || s.Worktrees[0].Bare {
		return nil
	}
	t := &Tree{Path: s.Worktrees[0].Path}
	s.Main = t
	var err error
	if t.Files, err = git.Dirty(ctx, run, t.Path, o.Lstat); err != nil {
		if ctx.Err() != nil {
			return err
		}
		t.Why, t.Files = err.Error(), nil
		return nil
	}
	t.Checked = true
	// Working trees and repositories inside of it are no files of it.
	for name := range t.Files {
		if strings.HasSuffix(name, "/") {
			delete(t.Files, name)
		}
	}
	return nil
}

// mainTree compares the files of the main working tree.
func (p *pair) mainTree() {
	b, a := p.before.Main, p.after.Main
	if b == nil || a == nil || !b.Checked {
		return
	}
	c := Change{What: Wrote, Ref: b.Path, kind: mainTree, path: b.Path}
	if !a.Checked {
		c.What, c.After = WroteUnseen, a.Why
		p.changes = append(p.changes, c)
		return
	}
	same := p.before.Worktrees[0].Head == p.after.Worktrees[0].Head
	var names []string
	for name, now := range a.Files {
		was, dirty := b.Files[name]
		// Where HEAD has moved, which is told by itself, the state of what was
		// dirty before is another one without anybody having touched it.
		if !dirty || same && was != now {
			names = append(names, name)
		}
	}
	for name := range b.Files {
		if _, dirty := a.Files[name]; !dirty && same {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	c.After = strings.Join(names[:min(len(names), 5)], ", ")
	if n := len(names) - 5; n > 0 {
		c.After += fmt.Sprintf(" and %d more", n)
	}
	p.changes = append(p.changes, c)
}
