package boundary

import (
	"slices"
	"strings"

	"github.com/rein-run/rein/internal/git"
	"github.com/rein-run/rein/internal/shell"
)

// stores are the files of a repository that change which objects there are, or
// which commit is whose parent, without moving a reference: where else objects
// are found, where history was cut, and what was cut or joined by hand. Their
// replacements by reference (refs/replace) are compared with the others.
var stores = []struct{ name, word string }{
	{"info/grafts", "grafts"},
	{"objects/info/alternates", "alternates"},
	{"shallow", "shallow boundary"},
}

// Words of a store's Change are made from its own, and how it changed.
const (
	added   = " added"
	changed = " changed"
	gone    = " removed"
)

// storeDirs are the directories that the files are in.
func (s *Snapshot) storeDirs() []string {
	return []string{s.CommonDir, s.CommonDir + "/info", s.CommonDir + "/objects/info"}
}

func (s *Snapshot) isStore(path string) bool {
	name, ok := strings.CutPrefix(path, s.CommonDir+"/")
	return ok && slices.ContainsFunc(stores, func(x struct{ name, word string }) bool { return x.name == name })
}

// stores compares them.
func (p *pair) stores() {
	for _, x := range stores {
		path := p.before.CommonDir + "/" + x.name
		b, a := find(p.before.Stores, path), find(p.after.Stores, path)
		c := Change{Ref: path, kind: store, path: path}
		back := func() {
			if oid(b.OID) && !b.Link {
				c.Restore = p.git("cat-file", "blob", b.OID) + " > " + shell.Quote(path)
				c.needs = []string{b.OID}
			}
		}
		switch {
		case b == nil && a == nil, b != nil && a != nil && *b == *a:
			continue
		case b == nil:
			c.What, c.After, c.Restore = x.word+added, a.show(), line("rm", path)
		case a == nil:
			c.What, c.Before = x.word+gone, b.show()
			back()
		default:
			c.What, c.Before, c.After = x.word+changed, b.show(), a.show()
			back()
			if a.Link && c.Restore != "" { // never through a link to what it names
				c.Restore = line("rm", path) + " && " + c.Restore
			}
		}
		p.changes = append(p.changes, c)
	}
}

func find(all []Hook, path string) *Hook {
	for i := range all {
		if all[i].Path == path {
			return &all[i]
		}
	}
	return nil
}

// maxShallow bounds how many commits of a shallow boundary are asked about.
const maxShallow = 32

// fetchedDeeper says that the boundary of a shallow clone moved as a fetch moves
// it: where it was the parents are there now, and where it is new the commit came
// from elsewhere. It was not drawn nearer.
func (q *asker) fetchedDeeper(c *Change) bool {
	if !strings.HasSuffix(c.path, "/shallow") {
		return false
	}
	was, is := q.before.Shallow, q.after.Shallow
	without := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	opened, cut := without(was, is), without(is, was)
	if len(opened)+len(cut) == 0 || len(opened)+len(cut) > maxShallow {
		return false
	}
	for _, o := range opened {
		if there, err := git.Has(q.ctx, q.run, q.dir, o+"^"); err != nil || !there {
			return false
		}
	}
	for _, o := range cut {
		if there, err := q.has(o); err != nil || !there || !q.foreign(o, "") {
			return false
		}
	}
	return true
}
