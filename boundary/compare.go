package boundary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rein-run/rein/internal/git"
	"github.com/rein-run/rein/internal/shell"
)

// Change is one difference between two snapshots.
type Change struct {
	What string `json:"what"` // in words: one of the constants, or "tag created", "notes moved" …
	Ref  string `json:"ref"`  // what changed: a full reference name, HEAD, or a path
	// Before and After are object ids, or full reference names where HEAD or a
	// symbolic reference points; "" is nothing.
	Before string `json:"before"`
	After  string `json:"after"`
	// Restore is the command that undoes it, for a POSIX shell where the
	// repository is; "" when there is none. It touches references only, never a
	// file of the working tree but its .git, and fails where the reference has
	// moved since.
	Restore string `json:"restore,omitempty"`
	// Kept is the reference that keeps what Restore needs, where there is one.
	Kept string `json:"kept,omitempty"`
	// By says to whom a change belongs that is not this run's.
	By string `json:"by,omitempty"`

	kind  kind
	path  string   // the working tree, hook, remote … that it is about
	name  string   // of a remote's reference
	sub   string   // git directory of the repository inside, where it is there
	needs []string // objects without which Restore fails
}

// kind says what a change is about.
type kind int

const (
	whole kind = iota // the repository
	head
	ref
	stash
	worktree
	config
	hook
	store
	reflog
	mainTree
	sub
	remote
)

// The words of What that are not made from the kind of reference.
const (
	Committed = "committed"       // a branch has new commits on top
	Reset     = "reset"           // a branch went back
	Rewritten = "rewritten"       // a branch was amended, rebased or forced elsewhere
	Switched  = "branch switched" // HEAD names something else
	HeadMoved = "HEAD moved"      // a detached HEAD
	Stashed   = "stash changed"
	Deleted   = "repository deleted"
	Replaced  = "repository replaced"
	Created   = "repository created"

	ConfigAdded   = "config key added"
	ConfigChanged = "config key changed"
	ConfigRemoved = "config key removed"
	HookAdded     = "hook added"
	HookChanged   = "hook changed"
	HookRemoved   = "hook removed"
	Wrote         = "wrote into the main checkout"
	WroteUnseen   = "the main checkout can no longer be compared"
	Undone        = "committed and undone" // HEAD is where it was; the commit is in the reflog
	ReflogCut     = "reflog cut"           // and with it the trace of what was undone
	// Blind is all that can be said where the means of checking are gone.
	Blind = "can no longer be checked"
	// CommitGone: HEAD or a branch names a commit whose object is not there.
	CommitGone = "commit gone"
	// A linked working tree is cut off from its repository, which is intact.
	GitFileRemoved = "worktree's .git file removed"

	// Lost ends a word of What where the object that was named before is gone
	// from the repository, so that nothing brings it back.
	Lost = "; the old object is gone"

	removed = "worktree removed"
	moved   = "branch moved" // Compare cannot tell how; Check can
)

const stashRef = "refs/stash"

// Compare names every difference, in a stable order: commits that are gone, HEAD, then the
// references by name, the stash, the working trees, configuration, hooks, stores, the
// reflog, the main working tree, repositories inside, remotes. Snapshots that
// could not be taken (no git, not trusted) have none.
func Compare(before, after Snapshot) []Change {
	switch {
	case !before.Checked && !after.Checked:
		return nil
	case !before.Checked:
		if before.Why != NoRepo {
			return nil
		}
		return []Change{{What: Created, Ref: after.CommonDir, After: after.Head.OID}}
	case !after.Checked:
		if after.Why != NoRepo {
			return nil
		}
		return []Change{{What: Deleted, Ref: before.CommonDir, Before: before.Head.OID}}
	case before.CommonDir != after.CommonDir:
		return []Change{replaced(before, after)}
	}
	p := pair{before: before, after: after}
	p.compare()
	return p.changes
}

// compare is for two snapshots of one repository.
func (p *pair) compare() {
	before, after := &p.before, &p.after
	p.tips()
	p.kind, p.path = head, before.Top
	p.head("HEAD", before.Dir, before.Head, after.Head)
	p.kind = ref
	p.refs()
	p.kind = stash
	p.stash()
	p.kind = worktree
	p.worktrees()
	p.config()
	p.hooks()
	p.stores()
	p.reflog()
	p.mainTree()
	p.subs()
	p.remotes()
}

func replaced(before, after Snapshot) Change {
	return Change{What: Replaced, Ref: before.CommonDir, Before: before.Head.OID, After: after.Head.OID}
}

type pair struct {
	before, after Snapshot
	changes       []Change
	moves         []git.Move // of HEAD since before

	kind kind // of what is being compared
	path string
}

func (p *pair) add(what, ref, before, after string, restore ...string) {
	p.changes = append(p.changes, Change{
		What: what, Ref: ref, Before: before, After: after, Restore: strings.Join(restore, " && "),
		kind: p.kind, path: p.path,
	})
}

// git writes a git command for a shell.
func (p *pair) git(args ...string) string { return command(p.before.Dir, args...) }

// head compares where HEAD of one working tree points. A branch that moved
// under a HEAD that stayed on it is told once, as the branch.
func (p *pair) head(name, dir string, b, a git.Head) {
	switch {
	case b.Ref != a.Ref:
		back := command(dir, "symbolic-ref", "HEAD", b.Ref)
		if b.Detached() {
			back = command(dir, "update-ref", "--no-deref", "HEAD", b.OID)
		}
		p.add(Switched, name, cmp.Or(b.Ref, b.OID), cmp.Or(a.Ref, a.OID), back)
	case b.Detached() && b.OID != a.OID:
		p.add(HeadMoved, name, b.OID, a.OID, command(dir, "update-ref", "--no-deref", "HEAD", b.OID, a.OID))
	}
}

func (p *pair) refs() {
	b, a := p.before.Refs, p.after.Refs
	for len(b) > 0 || len(a) > 0 {
		switch {
		case len(a) == 0 || len(b) > 0 && b[0].Name < a[0].Name:
			p.ref(b[0].Name, &b[0], nil)
			b = b[1:]
		case len(b) == 0 || a[0].Name < b[0].Name:
			p.ref(a[0].Name, nil, &a[0])
			a = a[1:]
		default:
			if b[0] != a[0] {
				p.ref(a[0].Name, &b[0], &a[0])
			}
			b, a = b[1:], a[1:]
		}
	}
}

// ref tells one reference that was created (b is nil), deleted (a is nil) or
// moved. The restore commands give the old value too, so that they fail rather
// than destroy what somebody else did in the meantime; zeros say "must not
// exist".
func (p *pair) ref(name string, b, a *git.Ref) {
	if name == stashRef {
		return // told with its whole list
	}
	kind := kindOf(name)
	switch {
	case b == nil && a.Symref != "":
		p.add(kind+" created", name, "", a.Symref, p.git("symbolic-ref", "-d", name))
	case b == nil:
		what := kind + " created"
		if name == p.before.Head.Ref && p.before.Head.Unborn() {
			what = Committed // the first commit of an empty repository
		}
		p.add(what, name, "", a.OID, p.git("update-ref", "--no-deref", "-d", name, a.OID))
	case a == nil && b.Symref != "":
		p.add(kind+" deleted", name, b.Symref, "", p.git("symbolic-ref", name, b.Symref))
	case a == nil:
		p.add(kind+" deleted", name, b.OID, "", p.git("update-ref", "--no-deref", name, b.OID, strings.Repeat("0", len(b.OID))))
	case b.Symref != a.Symref:
		back := p.git("symbolic-ref", name, b.Symref)
		if b.Symref == "" {
			back = p.git("update-ref", "--no-deref", name, b.OID)
		}
		p.add(kind+" moved", name, cmp.Or(b.Symref, b.OID), cmp.Or(a.Symref, a.OID), back)
	case a.Symref != "":
		// what it stands for moved, and is told by its own name
	default:
		p.add(kind+" moved", name, b.OID, a.OID, p.git("update-ref", "--no-deref", name, b.OID, a.OID))
	}
}

// stash compares the whole stash: what was dropped from below the top moves no
// reference.
func (p *pair) stash() {
	b, a := p.before.Stash, p.after.Stash
	if slices.Equal(b, a) {
		return
	}
	var back []string
	for i := len(a) - 1; i >= 0; i-- { // from below: dropping renumbers what is above only
		if !slices.Contains(b, a[i]) {
			back = append(back, p.git("stash", "drop", fmt.Sprintf("stash@{%d}", i)))
		}
	}
	for _, oid := range slices.Backward(b) {
		if !slices.Contains(a, oid) {
			back = append(back, p.git("stash", "store", "-m", "restored", oid))
		}
	}
	p.add(Stashed, stashRef, first(b), first(a), back...)
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// worktrees compares which working trees there are and where the HEAD of the
// others points: an agent in a linked worktree that switches the branch of the
// user's own checkout is seen here.
func (p *pair) worktrees() {
	after := map[string]git.Worktree{}
	for _, w := range p.after.Worktrees {
		after[w.Path] = w
	}
	before := map[string]bool{}
	for _, b := range p.before.Worktrees {
		before[b.Path] = true
		p.path = b.Path
		a, there := after[b.Path]
		switch {
		case !there || a.Gone && !b.Gone:
			add := []string{"worktree", "add", "--force", b.Path, strings.TrimPrefix(b.Head.Ref, "refs/heads/")}
			if b.Head.Detached() {
				add = []string{"worktree", "add", "--force", "--detach", b.Path, b.Head.OID}
			}
			p.add(removed, b.Path, cmp.Or(b.Head.Ref, b.Head.OID), "", p.git(add...))
		case b.Path != p.before.Top && !b.Bare && !a.Bare:
			p.head("HEAD of "+b.Path, b.Path, b.Head, a.Head)
		}
	}
	for _, a := range p.after.Worktrees {
		if p.path = a.Path; !before[a.Path] {
			p.add("worktree added", a.Path, "", cmp.Or(a.Head.Ref, a.Head.OID), p.git("worktree", "remove", a.Path))
		}
	}
}

// kindOf says in words what a reference is.
func kindOf(name string) string {
	for _, k := range []struct{ prefix, word string }{
		{"refs/heads/", "branch"},
		{"refs/tags/", "tag"},
		{"refs/remotes/", "remote-tracking ref"}, // moves with a push or a fetch
		{"refs/notes/", "notes"},
		{"refs/replace/", "replacement"},
	} {
		if strings.HasPrefix(name, k.prefix) {
			return k.word
		}
	}
	return "ref"
}

// command writes a git command for a POSIX shell. Names of branches may hold
// any of $ ` ( ) ; & | ' " and come from the agent.
func command(dir string, args ...string) string {
	return line(append([]string{"git", "-C", dir}, args...)...)
}

func line(args ...string) string {
	return shell.Join(args)
}
