package boundary

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/git"
)

// Sub is a repository in the working tree: a submodule, or one that happens to
// lie there.
type Sub struct {
	Name   string    `json:"name"`
	GitDir string    `json:"git_dir"`
	Nested bool      `json:"nested,omitempty"` // no submodule
	Gone   bool      `json:"gone,omitempty"`
	Why    string    `json:"why,omitempty"` // it cannot be read
	Head   git.Head  `json:"head,omitzero"`
	Refs   []git.Ref `json:"refs,omitempty"`
}

// maxSubs bounds how many are looked at: each is two processes at each end.
const maxSubs = 32

// submodules reads HEAD and the references of the repositories inside. After the
// run it looks at those of before: a repository that appears, as the temporary
// ones of a project's own tests do, is no business of the boundary.
func (s *Snapshot) submodules(ctx context.Context, run git.Runner, o *Options, prior *Snapshot) error {
	if prior != nil {
		s.Subs, s.SubsCut = slices.Clone(prior.Subs), prior.SubsCut
	} else {
		s.findSubs(ctx, o)
	}
	if len(s.Subs) > maxSubs {
		s.Subs, s.SubsCut = s.Subs[:maxSubs], true
	}
	slots := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for i := range s.Subs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s.Subs[i].read(ctx, run)
		})
	}
	wg.Wait()
	if prior == nil {
		// What is not there is a submodule that was never fetched.
		s.Subs = slices.DeleteFunc(s.Subs, func(m Sub) bool {
			s.SubsCut = s.SubsCut || m.Why != ""
			return m.Gone || m.Why != ""
		})
	}
	return ctx.Err()
}

func (s *Snapshot) findSubs(ctx context.Context, o *Options) {
	for _, set := range s.raw {
		name, sub := strings.CutPrefix(set.Key, "submodule.")
		name, url := strings.CutSuffix(name, ".url")
		if !sub || !url || set.Scope != "local" || slices.Contains(strings.Split(name, "/"), "..") {
			continue
		}
		// Each working tree has its own.
		s.Subs = append(s.Subs, Sub{Name: name, GitDir: s.GitDir + "/modules/" + name})
	}
	if o.Nested != nil && s.Top != "" {
		paths, cut := o.Nested(ctx, s.Top)
		s.SubsCut = cut
		for _, p := range paths {
			s.Subs = append(s.Subs, Sub{Name: strings.TrimPrefix(p, s.Top+"/"), GitDir: p + "/.git", Nested: true})
		}
	}
}

func (m *Sub) read(ctx context.Context, run git.Runner) {
	m.Head, m.Refs, m.Gone, m.Why = git.Head{}, nil, false, ""
	// With the directory named, neither core.worktree nor who owns it matters.
	at := git.Runner(func(ctx context.Context, dir string, args ...string) ([]byte, error) {
		return run(ctx, dir, append([]string{"--git-dir=.", "--work-tree=."}, args...)...)
	})
	var trees []git.Worktree
	err := together(
		func() (err error) { m.Refs, err = git.Refs(ctx, at, m.GitDir); return },
		func() (err error) { trees, err = git.Worktrees(ctx, at, m.GitDir); return },
	)
	switch {
	case errors.Is(err, driver.ErrNoDir):
		m.Gone = true
	case err != nil:
		m.Why = err.Error()
	case len(trees) > 0:
		m.Head = trees[0].Head
	}
}

// subs compares the repositories inside.
func (p *pair) subs() {
	for i, b := range p.before.Subs {
		if i >= len(p.after.Subs) || p.after.Subs[i].GitDir != b.GitDir {
			break
		}
		a := p.after.Subs[i]
		word := "submodule "
		if b.Nested {
			word = "nested repository "
		}
		if a.Gone {
			p.changes = append(p.changes, Change{What: word + "deleted", Ref: b.Name, Before: b.Head.OID, kind: sub, path: b.Name})
			continue
		}
		if a.Why != "" {
			p.changes = append(p.changes, Change{What: word + Blind, Ref: b.Name, Before: b.Head.OID, After: a.Why, kind: sub, path: b.Name})
			continue
		}
		q := pair{
			before: Snapshot{Dir: b.GitDir, Head: b.Head, Refs: b.Refs},
			after:  Snapshot{Dir: b.GitDir, Head: a.Head, Refs: a.Refs},
		}
		q.head("HEAD", b.GitDir, b.Head, a.Head)
		q.refs()
		for _, c := range q.changes {
			c.What, c.Ref, c.kind, c.path, c.sub = word+c.What, b.Name+" "+c.Ref, sub, b.Name, b.GitDir
			p.changes = append(p.changes, c)
		}
	}
}
