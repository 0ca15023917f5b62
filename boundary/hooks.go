package boundary

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rein-run/rein/internal/git"
	"github.com/rein-run/rein/internal/shell"
)

// Hook is one program of the repository that git may run, or another file beside
// them. Samples are not counted.
type Hook struct {
	Path string `json:"path"`
	Exec bool   `json:"exec"`
	Link bool   `json:"link,omitempty"`
	// OID is that of the content as a git object, or its size where it is larger
	// than 1 MiB; "" where it is no file.
	OID string `json:"oid"`
}

const (
	maxHooks    = 64
	maxHookSize = 1 << 20
)

// files reads the hooks and the end of HEAD's reflog.
func (s *Snapshot) files(ctx context.Context, run git.Runner, o *Options, prior *Snapshot) error {
	s.HookDirs = s.hookDirs()
	if prior != nil {
		for _, d := range prior.HookDirs {
			if !slices.Contains(s.HookDirs, d) {
				s.HookDirs = append(s.HookDirs, d)
			}
		}
	}
	look := o.Files
	if look == nil {
		look = git.ShellFiles(run, s.Dir)
	}
	// A reftable repository has no such file; its HEAD and refs are compared all
	// the same.
	dirs := append(s.storeDirs(), s.HookDirs...)
	slices.Sort(dirs)
	all, ends, err := look(ctx, slices.Compact(dirs), []string{s.GitDir + "/logs/HEAD", s.CommonDir + "/shallow"})
	if err != nil {
		return err
	}
	s.moves, s.Shallow = git.Reflog(ends[0]), strings.Fields(string(ends[1]))
	if n := len(s.moves); n > 0 {
		s.Reflog = &s.moves[n-1]
	}
	var paths []string
	var which []int // in Hooks, or in Stores counted from -1 down
	for _, f := range all {
		at := strings.LastIndexByte(f.Path, '/')
		own := s.isStore(f.Path)
		if !own && (strings.HasSuffix(f.Path, ".sample") || at < 0 || !slices.Contains(s.HookDirs, f.Path[:at])) || !f.Regular && !f.Link {
			continue
		}
		if !own && len(s.Hooks) == maxHooks {
			continue
		}
		h := Hook{Path: f.Path, Exec: f.Exec, Link: f.Link}
		switch {
		case !f.Regular:
		case f.Size > maxHookSize:
			h.OID = fmt.Sprint(f.Size, " bytes")
		case own:
			paths, which = append(paths, f.Path), append(which, -1-len(s.Stores))
		default:
			paths, which = append(paths, f.Path), append(which, len(s.Hooks))
		}
		if own {
			s.Stores = append(s.Stores, h)
		} else {
			s.Hooks = append(s.Hooks, h)
		}
	}
	// Before the run the content is kept in the repository, as an object that
	// nothing names: without it there would be nothing to restore from.
	oids, err := git.HashFiles(ctx, run, s.Dir, prior == nil, paths)
	if err != nil && prior == nil { // a repository that cannot be written to
		oids, err = git.HashFiles(ctx, run, s.Dir, false, paths)
	}
	if err != nil {
		return err
	}
	for i, oid := range oids {
		if n := which[i]; n < 0 {
			s.Stores[-1-n].OID = oid
		} else {
			s.Hooks[n].OID = oid
		}
	}
	return nil
}

// hookDirs are where git looks for the repository's hooks, as far as that is
// inside of the repository or its working tree.
func (s *Snapshot) hookDirs() []string {
	dirs := []string{s.CommonDir + "/hooks"}
	set := ""
	for _, r := range s.raw {
		if r.Key == "core.hookspath" && r.Scope != "command" { // ours is on the command line
			set = r.Value
		}
	}
	if set == "" || strings.HasPrefix(set, "~") {
		return dirs
	}
	if !absolute(set) {
		set = path.Join(cmp.Or(s.Top, s.GitDir), set)
	}
	set = path.Clean(set)
	if inside(set, s.Top) || inside(set, s.CommonDir) {
		if !slices.Contains(dirs, set) {
			dirs = append(dirs, set)
		}
	}
	return dirs
}

// absolute: as git writes paths, on every system.
func absolute(p string) bool {
	return strings.HasPrefix(p, "/") || len(p) > 2 && p[1] == ':' && (p[2] == '/' || p[2] == '\\')
}

func inside(p, dir string) bool {
	return dir != "" && (p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/"))
}

// hooks compares the hooks.
func (p *pair) hooks() {
	after := map[string]Hook{}
	for _, h := range p.after.Hooks {
		after[h.Path] = h
	}
	seen := map[string]bool{}
	for _, b := range p.before.Hooks {
		seen[b.Path] = true
		a, there := after[b.Path]
		if there && a == b {
			continue
		}
		what, now := HookRemoved, ""
		if there {
			what, now = HookChanged, a.show()
		}
		c := Change{What: what, Ref: b.Path, Before: b.show(), After: now, kind: hook, path: b.Path}
		if oid(b.OID) && !b.Link {
			mode := "-x"
			if b.Exec {
				mode = "+x"
			}
			c.Restore = p.git("cat-file", "blob", b.OID) + " > " + shell.Quote(b.Path) + " && " + line("chmod", mode, b.Path)
			c.needs = []string{b.OID}
			if there && a.Link { // never through a link to what it names
				c.Restore = line("rm", b.Path) + " && " + c.Restore
			}
		}
		p.changes = append(p.changes, c)
	}
	for _, a := range p.after.Hooks {
		if !seen[a.Path] {
			p.changes = append(p.changes, Change{
				What: HookAdded, Ref: a.Path, After: a.show(), kind: hook, path: a.Path,
				Restore: line("rm", a.Path),
			})
		}
	}
}

func (h Hook) show() string {
	s := h.OID
	if h.Exec {
		s += " executable"
	}
	if h.Link {
		s += " link"
	}
	return strings.TrimSpace(s)
}

// oid says that s is the name of an object.
func oid(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// reflogAge bounds what git gc may have taken from a reflog by itself: it keeps
// even unreachable entries for 30 days.
const reflogAge = 25 * 24 * time.Hour

// reflog finds commits that were made and taken back. That HEAD moved and where
// it is now has been told; what came back to where it was leaves its trace here
// only.
func (p *pair) reflog() {
	tip := p.before.Reflog
	moves := p.after.moves
	if tip != nil {
		i := slices.Index(moves, *tip)
		switch {
		case i >= 0:
			moves = moves[i+1:]
		case len(moves) < 100 && time.Since(time.Unix(tip.When, 0)) < reflogAge:
			p.changes = append(p.changes, Change{What: ReflogCut, Ref: "HEAD", Before: tip.New + " " + tip.Why, kind: reflog})
		}
	}
	p.moves = moves
	if p.before.Head != p.after.Head {
		return
	}
	for _, m := range moves {
		verb, _, _ := strings.Cut(m.Why, ":")
		verb, _, _ = strings.Cut(verb, " ")
		switch verb {
		case "commit", "merge", "cherry-pick", "revert", "rebase", "am", "pull":
			if m.New != m.Old {
				p.changes = append(p.changes, Change{What: Undone, Ref: "HEAD", Before: p.before.Head.OID, After: m.New, kind: reflog})
				return
			}
		}
	}
}
