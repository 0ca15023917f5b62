package guard

import (
	"path"
	"slices"
	"strings"
)

// gitRule says which rule a git command meets in the protected repository. It
// remembers repositories, remotes and aliases that the command makes.
//
// git-commit is what moves the checked-out branch the way a commit does;
// git-refs is what makes, moves or deletes other references; git-switch lets
// HEAD name something else. What destroys history that could be brought back
// (stash drop, reflog expire, prune) counts as deleting references. A reset that moves nothing, stash, checkout of
// files, restore and clean are nobody's business: they change the working tree,
// which is what an agent is for.
func (w *walk) gitRule(s *state, g *gitCall) string {
	args := g.args
	switch g.sub {
	case "push":
		return pushRule(args)
	case "send-pack", "http-push", "send-email", "imap-send":
		return rulePush
	case "svn":
		return among(args, rulePush, "dcommit", "commit-diff", "set-tree", "branch", "tag")
	case "p4":
		return among(args, rulePush, "submit")
	case "lfs":
		return among(args, rulePush, "push")
	case "subtree":
		if r := among(args, rulePush, "push"); r != "" {
			return r
		}
		return among(args, ruleCommit, "add", "merge", "pull")
	case "commit":
		if slices.Contains(args, "--dry-run") {
			return ""
		}
		return ruleCommit
	case "am", "cherry-pick", "revert", "merge", "rebase", "pull", "commit-tree", "citool", "gui":
		if slices.Contains(args, "--show-current-patch") || slices.Contains(args, "--abort") && g.sub == "am" {
			return ""
		}
		return ruleCommit
	case "reset":
		return resetRule(args)
	case "branch":
		return branchRule(args)
	case "tag":
		return tagRule(args)
	case "update-ref", "replace", "fast-import", "filter-branch", "filter-repo", "pack-refs":
		if g.sub == "replace" && (len(args) == 0 || args[0] == "-l" || args[0] == "--list") || g.sub == "pack-refs" {
			return ""
		}
		return ruleRefs
	case "symbolic-ref":
		if len(operands(args, "m")) > 1 || slices.Contains(args, "-d") || slices.Contains(args, "--delete") {
			return ruleSwitch
		}
	case "notes":
		return among(args, ruleRefs, "add", "append", "copy", "edit", "merge", "remove", "prune")
	case "reflog":
		return among(args, ruleRefs, "expire", "delete")
	case "stash":
		return among(args, ruleRefs, "clear", "drop", "branch")
	case "prune":
		if hasAny(args, "-n", "--dry-run") {
			return ""
		}
		return ruleRefs
	case "gc":
		return gcRule(args)
	case "worktree":
		return among(args, ruleRefs, "add", "remove", "move")
	case "bisect":
		return among(args, ruleSwitch, "start", "reset", "good", "bad", "new", "old", "skip", "run", "replay")
	case "checkout":
		return checkoutRule(args)
	case "switch":
		if hasAny(args, "-c", "-C", "--create", "--force-create", "--orphan") {
			return ruleRefs
		}
		return ruleSwitch
	case "fetch":
		return fetchRule(args)
	case "remote":
		return w.remoteRule(g)
	case "config":
		return w.configRule(g)
	case "submodule":
		if ops := operands(args, ""); len(ops) > 1 && ops[0] == "foreach" {
			c := s.copy()
			c.dirs = g.dirs
			w.script(c, w.join(ops[1:]), "")
		}
	case "init":
		ops := operands(args, "b")
		if len(ops) == 0 {
			ops = []string{"."}
		}
		w.made(g, ops[0], "")
	case "clone":
		w.cloned(g)
	}
	return ""
}

// among is rule when the first operand is one of the verbs.
func among(args []string, rule string, verbs ...string) string {
	if ops := operands(args, ""); len(ops) > 0 && slices.Contains(verbs, ops[0]) {
		return rule
	}
	return ""
}

// hasAny says that one of the options is among args; a short one also within a
// cluster or with its value attached, a long one also with "=".
func hasAny(args []string, options ...string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if len(a) < 2 || a[0] != '-' {
			continue
		}
		for _, o := range options {
			switch {
			case strings.HasPrefix(o, "--"):
				if a == o || strings.HasPrefix(a, o+"=") {
					return true
				}
			case a[1] != '-' && strings.IndexByte(a[1:], o[1]) >= 0:
				return true
			}
		}
	}
	return false
}

// gcRule: with a date of its own gc deletes what is still young enough to be
// brought back. Without one it is what git does now and then by itself.
func gcRule(args []string) string {
	for _, a := range args {
		if date, ok := strings.CutPrefix(a, "--prune="); ok && date != "never" {
			return ruleRefs
		}
	}
	return ""
}

// pushRule tells a push from one that overwrites or deletes.
func pushRule(args []string) string {
	refspec := false // the first operand is the remote
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-o" || a == "--push-option" || a == "--repo" || a == "--receive-pack" || a == "--exec":
			i++
		case strings.HasPrefix(a, "--force"), strings.HasPrefix(a, "--mir"), strings.HasPrefix(a, "--del"), strings.HasPrefix(a, "--prun"):
			return rulePushForce
		case strings.HasPrefix(a, "--"):
		case len(a) > 1 && a[0] == '-':
			flags, _, _ := strings.Cut(a, "o") // -o takes the rest
			if strings.ContainsAny(flags, "fd") {
				return rulePushForce
			}
		case refspec && (strings.HasPrefix(a, "+") || len(a) > 1 && a[0] == ':'):
			return rulePushForce
		case strings.HasPrefix(a, "+"):
			return rulePushForce
		default:
			refspec = true
		}
	}
	return rulePush
}

// resetRule: a reset to another commit moves the branch.
func resetRule(args []string) string {
	mode := hasAny(args, "--soft", "--hard", "--mixed", "--keep", "--merge")
	if hasAny(args, "--pathspec-from-file") {
		return ""
	}
	var ops []string
	for i, a := range args {
		if a == "--" {
			if len(ops) > 0 && i+1 < len(args) {
				return "" // of files
			}
			break
		}
		if a != "" && a[0] != '-' {
			ops = append(ops, a)
		}
	}
	switch {
	case len(ops) == 0, ops[0] == "HEAD", ops[0] == "@":
		return ""
	case mode:
		return ruleCommit
	case len(ops) > 1:
		return "" // git reset main file, git reset a b
	case revision(ops[0]):
		return ruleCommit
	}
	return ""
}

// revision says that a word is rather a commit than a file.
func revision(a string) bool {
	if strings.ContainsAny(a, "~^") || strings.Contains(a, "@{") || strings.HasPrefix(a, "origin/") || strings.HasPrefix(a, "refs/") ||
		strings.HasSuffix(a, "_HEAD") || doubtful(a) {
		return true
	}
	switch a {
	case "main", "master", "develop", "trunk":
		return true
	}
	return len(a) >= 7 && len(a) <= 64 && strings.Trim(a, "0123456789abcdef") == ""
}

func branchRule(args []string) string {
	if hasAny(args, "-d", "-D", "-m", "-M", "-c", "-C", "-f", "--delete", "--move", "--copy", "--force", "--edit-description") {
		return ruleRefs
	}
	if hasAny(args, "-a", "-r", "-l", "-v", "--all", "--remotes", "--list", "--show-current", "--contains", "--no-contains", "--merged", "--no-merged",
		"--points-at", "--sort", "--format", "-u", "--set-upstream-to", "--unset-upstream") {
		return ""
	}
	if len(operands(args, "")) > 0 {
		return ruleRefs
	}
	return ""
}

func tagRule(args []string) string {
	if hasAny(args, "-d", "--delete") {
		return ruleRefs
	}
	if hasAny(args, "-l", "-n", "-v", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort", "--format", "--verify", "--column") {
		return ""
	}
	if len(operands(args, "mFu")) > 0 {
		return ruleRefs
	}
	return ""
}

// checkoutRule: a branch, or files? Where both could be meant it is files: what
// was switched is found by the check after the run.
func checkoutRule(args []string) string {
	if hasAny(args, "-b", "-B", "--orphan", "--track", "-t") {
		return ruleRefs
	}
	if hasAny(args, "--detach") || slices.Contains(args, "-") {
		return ruleSwitch
	}
	if hasAny(args, "-p", "--patch", "--ours", "--theirs", "--pathspec-from-file") {
		return ""
	}
	ops := operands(args, "")
	if slices.Contains(args, "--") || len(ops) != 1 {
		return ""
	}
	switch a := ops[0]; {
	case revision(a):
		if a == "HEAD" {
			return ""
		}
		return ruleSwitch
	case strings.HasPrefix(a, ".") || strings.HasPrefix(a, "/") || strings.HasPrefix(a, ":") || strings.HasSuffix(a, "/") ||
		strings.ContainsAny(a, "*?["+string(plain)), path.Ext(a) != "", a == "HEAD", a == "@", a == "Makefile", a == "Dockerfile":
		return ""
	}
	return ruleSwitch
}

// fetchRule: a fetch into something else than remote-tracking references moves
// them.
func fetchRule(args []string) string {
	ops := operands(args, "jo")
	for i, a := range ops {
		if i == 0 {
			continue
		}
		if _, to, ok := strings.Cut(a, ":"); ok && to != "" && !strings.HasPrefix(to, "refs/remotes/") && !strings.HasPrefix(to, "refs/pull/") {
			return ruleRefs
		}
	}
	return ""
}

func (w *walk) remoteRule(g *gitCall) string {
	ops := operands(g.args, "tm")
	if len(ops) == 0 {
		return ""
	}
	switch ops[0] {
	case "add":
		if len(ops) > 2 && len(w.remotes) < 64 {
			if w.remotes == nil {
				w.remotes = map[string]string{}
			}
			for _, d := range g.dirs {
				w.remotes[d+"\x00"+ops[1]] = ops[2]
			}
		}
		return ruleSafety
	case "set-url", "rename", "remove", "rm", "set-branches", "set-head":
		return ruleSafety
	}
	return ""
}

func (w *walk) configRule(g *gitCall) string {
	ops := operands(g.args, "ft")
	if len(ops) > 0 && (ops[0] == "set" || ops[0] == "unset" || ops[0] == "rename-section" || ops[0] == "remove-section" || ops[0] == "edit") {
		// git 2.46 has verbs.
		ops = append(ops[1:], "")
		if ops[0] == "" {
			return ruleSafety
		}
	} else if len(ops) > 0 && (ops[0] == "get" || ops[0] == "list") || hasAny(g.args, "--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l") {
		return ""
	}
	if hasAny(g.args, "-e", "--edit") {
		return ruleSafety
	}
	changes := len(ops) > 1 || hasAny(g.args, "--unset", "--unset-all", "--add", "--replace-all", "--rename-section", "--remove-section")
	if !changes || len(ops) == 0 {
		return ""
	}
	key := ops[0]
	if a, ok := strings.CutPrefix(strings.ToLower(key), "alias."); ok && len(ops) > 1 && len(w.gitAliases) < 64 {
		if w.gitAliases == nil {
			w.gitAliases = map[string]string{}
		}
		w.gitAliases[a] = ops[1]
	}
	if guardedKey(key) || doubtful(key) {
		return ruleSafety
	}
	return ""
}

func (w *walk) cloned(g *gitCall) {
	ops := operands(g.args, "bcoujs")
	for _, long := range []string{"--branch", "--depth", "--origin", "--config", "--reference", "--template", "--jobs", "--filter", "--upload-pack"} {
		if i := slices.Index(g.args, long); i >= 0 && i+1 < len(g.args) {
			if j := slices.Index(ops, g.args[i+1]); j >= 0 {
				ops = slices.Delete(slices.Clone(ops), j, j+1)
			}
		}
	}
	if len(ops) == 0 {
		return
	}
	from := ops[0]
	to := strings.TrimSuffix(path.Base(strings.TrimSuffix(from, "/.git")), ".git")
	if len(ops) > 1 {
		to = ops[1]
	}
	if !strings.Contains(from, ":") {
		from = resolve(g.dirs[0], from)
	}
	w.made(g, to, from)
}
