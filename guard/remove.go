package guard

import (
	"path"
	"slices"
	"strings"
)

// remove judges rm, rmdir, unlink and shred.
func (w *walk) remove(s *state, argv []string) {
	recursive, options := false, true
	var targets []string
	for _, a := range argv[1:] {
		switch {
		case !options || len(a) < 2 || a[0] != '-':
			targets = append(targets, a)
		case a == "--":
			options = false
		case strings.HasPrefix(a, "--"):
			// GNU takes every beginning that is not ambiguous.
			recursive = recursive || len(a) > 2 && strings.HasPrefix("--recursive", a)
		default:
			recursive = recursive || strings.ContainsAny(a, "rR")
		}
	}
	recursive = recursive && base(argv[0]) == "rm"
	for _, t := range targets {
		w.deletes(s, t, recursive, argv)
	}
}

// deletes judges the deletion of one target.
func (w *walk) deletes(s *state, target string, recursive bool, argv []string) {
	if s.foreign {
		return
	}
	for _, d := range s.dirs {
		p := resolve(d, target)
		if p == some {
			if recursive {
				w.hit(ruleUnresolved, argv)
			}
			continue
		}
		// GNU and POSIX: rm refuses "." and ".." by themselves.
		last := target[strings.LastIndexByte(strings.TrimRight(target, "/"), '/')+1:]
		last = strings.TrimRight(last, "/")
		switch {
		case w.gitFile(p), recursive && dotGlob(last) && w.tops(path.Dir(p)):
			w.hit(ruleGitDir, argv)
		case recursive && !(last == "." && w.deletable(p+"/x")) && !w.deletable(p):
			w.hit(ruleRemove, argv)
		}
	}
}

// deletable says that what is at p is the run's own.
func (w *walk) deletable(p string) bool {
	if w.in.inTemp(p) {
		// What is in a directory for temporary files belongs to many: it is
		// deleted by name.
		for _, t := range w.in.temp {
			if path.Dir(p) == t && strings.Trim(path.Base(p), "*?.") == "" {
				return false
			}
		}
		return !slices.Contains(w.in.trees, p)
	}
	for _, t := range [...]string{w.in.dir, w.in.place.Tree} {
		if t != "" && t != some && p != clean(t) && below(p, clean(t)) {
			return true
		}
	}
	return false
}

// tops says that dir holds the .git of the protected repository.
func (w *walk) tops(dir string) bool { return slices.Contains(w.in.trees, dir) }

// dotGlob says that a pattern matches .git.
func dotGlob(name string) bool {
	if !strings.HasPrefix(name, ".") || !strings.ContainsAny(name, "*?[") {
		return false
	}
	ok, err := path.Match(strings.ReplaceAll(name, "[!", "[^"), ".git")
	return ok || err != nil
}

// writes judges the writing of one file.
func (w *walk) writes(s *state, name string, argv []string) {
	if s.foreign {
		return
	}
	for _, d := range s.dirs {
		if p := resolve(d, name); p != some && w.gitFile(p) {
			w.hit(ruleGitDir, argv)
		}
	}
}

// gitFile says that p is a part of the protected repository's .git that only
// git itself may write. A lock that a dead git left behind, and what is told
// to the user alone (info/exclude), are not.
func (w *walk) gitFile(p string) bool {
	if !strings.Contains(p, "git") {
		return false
	}
	for _, t := range w.in.trees {
		rel, ok := strings.CutPrefix(p, strings.TrimSuffix(t, "/"))
		if !ok || rel != "" && rel[0] != '/' {
			continue
		}
		rel = strings.TrimPrefix(rel, "/")
		if path.Base(t) != ".git" && !strings.HasSuffix(t, ".git") {
			if rel, ok = strings.CutPrefix(rel, ".git"); !ok || rel != "" && rel[0] != '/' {
				continue
			}
		}
		rel = strings.TrimPrefix(rel, "/")
		first, _, _ := strings.Cut(rel, "/")
		switch first {
		case "", "HEAD", "packed-refs", "config", "config.worktree", "refs", "hooks", "logs", "objects", "worktrees", "modules", "commondir", "gitdir", "*":
			if !strings.HasSuffix(rel, ".lock") {
				return true
			}
		}
	}
	return false
}

// find judges the deletions and commands of find, and returns the names that
// it prints.
func (w *walk) find(s *state, argv []string) string {
	args := argv[1:]
	if name := base(argv[0]); strings.HasPrefix(name, "fd") {
		return w.fd(s, args)
	}
	i := 0
	for i < len(args) {
		switch a := args[i]; {
		case a == "-H" || a == "-L" || a == "-P" || strings.HasPrefix(a, "-O"):
			i++
			continue
		case a == "-D":
			i += 2
			continue
		}
		break
	}
	var roots []string
	for ; i < len(args); i++ {
		if a := args[i]; a != "" && (a[0] == '-' && len(a) > 1 || a == "(" || a == "!" || a == ")") {
			break
		}
		roots = append(roots, args[i])
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	expr := args[min(i, len(args)):]
	filtered := false
	for j := 0; j < len(expr); j++ {
		switch expr[j] {
		case "-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-wholename", "-mtime", "-mmin", "-newer", "-empty", "-user", "-size", "-inum":
			filtered = true
		case "-delete":
			for _, r := range roots {
				w.deletesBelow(s, r, filtered, argv)
			}
		case "-fprint", "-fprintf", "-fls", "-fprint0":
			if j+1 < len(expr) {
				w.writes(s, expr[j+1], argv)
			}
		case "-exec", "-execdir", "-ok", "-okdir":
			end := j + 1
			for end < len(expr) && expr[end] != ";" && !(expr[end] == "+" && expr[end-1] == "{}") {
				end++
			}
			for _, r := range roots {
				w.direct(s.copy(), braced(expr[j+1:end], r, filtered), "")
			}
			j = end
		}
	}
	var out strings.Builder
	for _, r := range roots {
		out.WriteString(found(r) + "\n")
		if !filtered && !slices.Contains(expr, "-mindepth") {
			out.WriteString(r + "\n")
		}
	}
	return out.String()
}

// found is a name below a root of find.
func found(root string) string { return strings.TrimRight(root, "/") + "/" + string(plain) }

func braced(cmd []string, root string, filtered bool) []string {
	var argv []string
	for _, a := range cmd {
		if a == "{}" && !filtered {
			argv = append(argv, found(root), root)
			continue
		}
		argv = append(argv, strings.ReplaceAll(a, "{}", found(root)))
	}
	return argv
}

// deletesBelow judges find's -delete: the root goes only when it is empty.
func (w *walk) deletesBelow(s *state, root string, filtered bool, argv []string) {
	if s.foreign {
		return
	}
	for _, d := range s.dirs {
		p := resolve(d, root)
		switch {
		case p == some:
			w.hit(ruleUnresolved, argv)
		case w.gitFile(p), w.tops(p) && !filtered:
			w.hit(ruleGitDir, argv)
		case !w.deletable(p) && !w.deletable(p+"/"+string(plain)):
			w.hit(ruleRemove, argv)
		case slices.Contains(w.in.temp, p) && !filtered:
			w.hit(ruleRemove, argv)
		}
	}
}

// fd runs a command for what it finds below the current directory.
func (w *walk) fd(s *state, args []string) string {
	for i, a := range args {
		if a == "-x" || a == "-X" || a == "--exec" || a == "--exec-batch" {
			cmd := braced(args[i+1:], ".", true)
			if !slices.Contains(args[i+1:], "{}") {
				cmd = append(cmd, found("."))
			}
			w.direct(s.copy(), cmd, "")
			break
		}
	}
	return found(".") + "\n"
}
