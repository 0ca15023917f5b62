package boundary

import (
	"slices"
	"strings"

	"github.com/rein-run/rein/internal/git"
)

// verdict says what a change means.
type verdict int

const (
	counts verdict = iota
	allowed
	others
	ignored
)

// judge says whether a change counts, and in its By whose it is else.
func (q *asker) judge(c *Change) verdict {
	own := q.before.Head.Ref
	by := func(who string) verdict { c.By = who; return others }
	switch c.kind {
	case ref:
		if id, ok := strings.CutPrefix(c.Ref, KeptRefs); ok && c.Before == "" {
			id, _, _ = strings.Cut(id, "/")
			if id == q.o.ID || slices.ContainsFunc(q.o.Peers, func(p Peer) bool { return p.ID == id }) {
				return ignored // a check of Rein's kept something
			}
		}
		switch {
		case strings.HasPrefix(c.Ref, "refs/heads/"):
			if c.Ref == own {
				if q.o.Grants.Commits && c.What == Committed {
					return allowed
				}
				return counts
			}
			if id := q.peerOf(c.Ref); id != "" {
				return by("run " + id)
			}
			if q.o.Grants.OthersWorkHere && c.Ref != q.after.Head.Ref {
				return by(Others)
			}
		case strings.HasPrefix(c.Ref, "refs/remotes/"):
			if q.fetched(c) {
				return by(Others)
			}
		case strings.HasPrefix(c.Ref, "refs/tags/") && c.Before == "":
			if q.arrived[c.Ref] && q.foreign(c.After, "") {
				return by(Others)
			}
		}
	case stash:
		if q.o.Grants.OthersWorkHere {
			return by(Others)
		}
	case worktree, mainTree:
		for _, p := range q.o.Peers {
			// A run that is over answers for what it left. What it wrote into
			// the main checkout nobody has listed at its end.
			if p.Top == c.path && (p.Left == nil || c.kind == mainTree || q.leftTree(&p)) {
				return by("run " + p.ID)
			}
		}
		if q.o.Grants.OthersWorkHere && c.path != q.before.Top {
			return by(Others)
		}
	case config:
		section, rest, _ := strings.Cut(c.path, ".")
		name := rest[:max(0, strings.LastIndexByte(rest, '.'))]
		switch {
		case section == "branch" && name != "":
			if id := q.peerWithConfig("refs/heads/" + name); id != "" {
				return by("run " + id)
			}
			if q.o.Grants.OthersWorkHere && "refs/heads/"+name != own {
				return by(Others)
			}
		case section == "submodule" && c.What == ConfigAdded && (strings.HasSuffix(rest, ".url") || strings.HasSuffix(rest, ".active")):
			return by("git submodule init") // a step of many builds
		}
	case store:
		if q.fetchedDeeper(c) {
			return by("git fetch")
		}
	case reflog:
		if q.o.Grants.Commits && c.What == Undone {
			return allowed
		}
	case remote:
		if c.After != "" && q.foreign(c.After, "refs/remotes/"+c.path+"/"+strings.TrimPrefix(c.name, "refs/heads/")) {
			return by(Others)
		}
	}
	return counts
}

// Others is Change.By where nobody can be named.
const Others = "others"

// peerOf is the run whose branch that is, as it is now.
func (q *asker) peerOf(branch string) string {
	return q.peer(branch, func(l *Left) bool {
		tip, its := l.Tips[branch]
		return its && tip == q.after.oid(branch)
	})
}

// peerWithConfig is the run whose branch that is, with the settings that it has
// now.
func (q *asker) peerWithConfig(branch string) string {
	return q.peer(branch, func(l *Left) bool {
		sum, its := l.Config[branch]
		return its && sum == q.after.branchConfig(branch)
	})
}

// peer is the run whose branch that is: the one that it had at the start, or that
// its working tree is on now. A run that is over answers only for how it left the
// branch: any other could hide behind it for the rest of its own time.
func (q *asker) peer(branch string, asLeft func(*Left) bool) string {
	if branch == q.before.Head.Ref {
		return ""
	}
	for _, p := range q.o.Peers {
		if p.Left != nil {
			if asLeft(p.Left) {
				return p.ID
			}
			continue
		}
		if p.Branch == branch {
			return p.ID
		}
		if w := q.after.worktree(p.Top); w != nil && w.Head.Ref == branch {
			return p.ID
		}
	}
	return ""
}

// fetched says that a remote-tracking reference changed because somebody
// fetched, and not because this run pushed.
func (q *asker) fetched(c *Change) bool {
	if c.After != "" && !oid(c.After) || c.After == "" && !oid(c.Before) {
		return false // the symbolic ones are set by hand
	}
	// What the remote had before the run cannot have been pushed by it.
	for _, m := range q.before.Remotes {
		name, ok := strings.CutPrefix(c.Ref, "refs/remotes/"+m.Name+"/")
		if !ok || !m.Checked {
			continue
		}
		i := slices.IndexFunc(m.Refs, func(r git.Ref) bool { return r.Name == "refs/heads/"+name })
		if c.After == "" && i < 0 || c.After != "" && i >= 0 && m.Refs[i].OID == c.After {
			return true
		}
	}
	return c.After != "" && q.foreign(c.After, c.Ref)
}

// foreign says that a commit came from elsewhere: it is not here, or it can be
// reached only from what a fetch brought. tracking is the remote-tracking
// reference that a push from here would have moved.
func (q *asker) foreign(commit, tracking string) bool {
	if there, err := q.has(commit); err != nil || !there {
		return err == nil
	}
	if slices.ContainsFunc(q.moves, func(m git.Move) bool { return m.New == commit }) {
		return false // HEAD was there
	}
	if q.questions++; q.questions > maxQuestions {
		return false
	}
	if tracking != "" && q.after.oid(tracking) != "" {
		if why, err := git.LastMove(q.ctx, q.run, q.dir, tracking); err != nil || strings.HasPrefix(why, "update by push") {
			return false
		}
	}
	refs, err := git.Containing(q.ctx, q.run, q.dir, commit)
	if err != nil {
		return false
	}
	came := false
	for _, r := range refs {
		if q.symref(r) {
			continue // origin/HEAD: what it stands for is here by its own name
		}
		switch {
		case q.arrived[r]:
			came = true
		case r == q.before.Head.Ref || r == q.after.Head.Ref:
			return false
		case q.o.Grants.OthersWorkHere && strings.HasPrefix(r, "refs/heads/"), q.peerOf(r) != "":
			// they may pull
		default:
			return false
		}
	}
	return came
}

// symref says that a reference stands for another one.
func (q *asker) symref(name string) bool {
	i, ok := slices.BinarySearchFunc(q.after.Refs, name, func(r git.Ref, name string) int { return strings.Compare(r.Name, name) })
	return ok && q.after.Refs[i].Symref != ""
}

// learn finds what appeared in the way that a fetch makes it appear, and asks at
// once for the commits that will be asked for.
func (q *asker) learn(changes []Change) {
	var oids []string
	for _, c := range changes {
		if oid(c.After) && c.kind == remote {
			oids = append(oids, c.After)
		}
		if oid(c.Before) && (c.kind == remote || c.kind == ref) {
			oids = append(oids, c.Before)
		}
		if c.kind != ref || !oid(c.After) {
			continue
		}
		switch {
		case strings.HasPrefix(c.Ref, "refs/remotes/"):
			q.arrived[c.Ref] = true
		case strings.HasPrefix(c.Ref, "refs/tags/") && c.Before == "":
			for _, m := range q.after.Remotes {
				if slices.Contains(m.Refs, git.Ref{Name: c.Ref, OID: c.After}) {
					q.arrived[c.Ref] = true
				}
			}
		}
	}
	slices.Sort(oids)
	if oids = slices.Compact(oids); len(oids) == 0 {
		return
	}
	there, err := git.Existing(q.ctx, q.run, q.dir, oids)
	if err != nil {
		return // then each is asked for alone
	}
	tags := map[string]bool{} // objects that a commit stands for in the answer
	for _, c := range changes {
		if strings.HasPrefix(c.Ref, "refs/tags/") || strings.HasPrefix(c.name, "refs/tags/") {
			tags[c.After], tags[c.Before] = true, true
		}
	}
	for _, o := range oids {
		if there[o] || !tags[o] {
			q.known[o] = there[o]
		}
	}
}
