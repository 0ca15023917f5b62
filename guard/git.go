package guard

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// gitCall is one git command, its global options taken off.
type gitCall struct {
	argv   []string // whole
	sub    string
	args   []string
	dirs   []string // where it works
	unsafe bool     // -c core.hooksPath=… and the like
	alias  map[string]string
}

// gitGuarded says that a variable is one of those through which git is kept
// safe in every shell of a run.
func gitGuarded(name string) bool {
	return strings.HasPrefix(name, "GIT_CONFIG") || name == "GIT_ALLOW_PROTOCOL" || name == "GIT_EXEC_PATH" || name == "GIT_TEMPLATE_DIR"
}

// gitBlock says that a variable carries Rein's own block of git (package
// block): without it, or with another value, the block is off for everything
// that is started from there. GIT_CONFIG_PARAMETERS is read after the others
// and wins over them. GIT_CONFIG_GLOBAL and GIT_CONFIG_NOSYSTEM, which test
// suites set, leave it alone.
func gitBlock(name string) bool {
	return name == "GIT_CONFIG_COUNT" || name == "GIT_CONFIG_PARAMETERS" ||
		strings.HasPrefix(name, "GIT_CONFIG_KEY_") || strings.HasPrefix(name, "GIT_CONFIG_VALUE_")
}

// tamper notes that a variable is set or taken away.
func (s *state) tamper(name string) {
	s.tampered = s.tampered || gitGuarded(name)
	s.unblocked = s.unblocked || gitBlock(name) && !s.foreign
}

// guardedKey says that a key of git's configuration is one of those through
// which it is kept safe, or that say where a push goes.
func guardedKey(key string) bool {
	key = strings.ToLower(key)
	section, _, _ := strings.Cut(key, ".")
	switch section {
	case "remote", "url", "credential", "protocol", "include", "includeif", "push":
		return true
	}
	return key == "core.hookspath" || key == "core.sshcommand" || key == "core.gitproxy" || key == "core.worktree" || key == "core.bare" ||
		key == "gc.pruneexpire" || key == "gc.reflogexpire" || key == "gc.reflogexpireunreachable" ||
		strings.HasPrefix(key, "branch.") && (strings.HasSuffix(key, ".pushremote") || strings.HasSuffix(key, ".remote"))
}

// runsCommand says that the value of a key is a command that git runs.
func runsCommand(key string) bool {
	switch key = strings.ToLower(key); key {
	case "core.pager", "core.editor", "core.fsmonitor", "core.sshcommand", "core.askpass", "sequence.editor", "diff.external":
		return true
	}
	return strings.HasPrefix(key, "pager.") || strings.HasSuffix(key, ".textconv") || strings.HasSuffix(key, ".cmd")
}

// gitValues are git's global options that take the next argument.
var gitValues = map[string]bool{
	"-C": true, "-c": true, "--git-dir": true, "--work-tree": true, "--namespace": true, "--super-prefix": true,
	"--config-env": true, "--attr-source": true, "--list-cmds": true, "--exec-path": false,
}

func (w *walk) git(s *state, argv []string) string {
	g := &gitCall{argv: argv, dirs: s.dirs}
	if s.foreign {
		g.dirs = []string{some}
	}
	if d := w.envText(s, "GIT_DIR"); d != "" {
		w.gitDir(g, d)
	}
	doubt := false
	i := 1
	for ; i < len(argv); i++ {
		a := argv[i]
		if a != "" && strings.Trim(a, "\x01\x02") == "" {
			doubt = true // git $OPTIONS push
			continue
		}
		if len(a) < 2 || a[0] != '-' {
			break
		}
		name, v, has := strings.Cut(a, "=")
		if takes := gitValues[name]; takes && !has {
			if i++; i < len(argv) {
				v = argv[i]
			}
		}
		switch name {
		case "-C":
			g.chdir(v)
		case "-c", "--config-env":
			g.config(v)
			if key, cmd, ok := strings.Cut(v, "="); ok && runsCommand(key) {
				w.script(s.copy(), cmd, "")
			}
		case "--git-dir":
			w.gitDir(g, v)
		case "--help", "-h", "--version", "-v", "--html-path", "--man-path", "--info-path":
			return some
		}
	}
	if i >= len(argv) {
		if doubt {
			w.hit(ruleUnresolved, argv)
		}
		return some
	}
	g.sub, g.args = strings.ToLower(argv[i]), argv[i+1:]
	w.gitSub(s, g, doubt)
	return w.gitPrints(g)
}

func (g *gitCall) chdir(to string) {
	var dirs []string
	for _, d := range g.dirs {
		dirs = union(dirs, []string{resolve(d, to)})
	}
	g.dirs = dirs
}

func (g *gitCall) config(kv string) {
	key, v, _ := strings.Cut(kv, "=")
	if a, ok := strings.CutPrefix(strings.ToLower(key), "alias."); ok {
		if g.alias == nil {
			g.alias = map[string]string{}
		}
		g.alias[a] = v
	}
	g.unsafe = g.unsafe || guardedKey(key)
}

func (w *walk) gitDir(g *gitCall, dir string) {
	g.chdir(dir)
	for i, d := range g.dirs {
		if d = strings.TrimSuffix(d, "/.git"); d != g.dirs[i] {
			g.dirs = slices.Clone(g.dirs)
			g.dirs[i] = d
		}
	}
}

// envText is a variable of the environment as git sees it, "" when unset.
func (w *walk) envText(s *state, name string) string {
	v, ok := s.vars[name]
	if !ok {
		if e, ok := w.in.place.Env[name]; ok {
			return sanitize(e)
		}
		return ""
	}
	if len(v) != 1 || v[0] == string(unset) {
		return ""
	}
	return v[0]
}

// gitSub expands aliases and judges.
func (w *walk) gitSub(s *state, g *gitCall, doubt bool) {
	for range 8 {
		v, ok := g.alias[g.sub]
		if !ok {
			if v, ok = w.gitAliases[g.sub]; !ok {
				v, ok = w.envAlias(s, g.sub)
			}
		}
		if !ok {
			break
		}
		if script, shell := strings.CutPrefix(v, "!"); shell {
			w.script(s.copy(), script, "")
			return
		}
		f := w.words(s, v)
		if len(f) == 0 {
			return
		}
		g.sub, g.args = f[0], append(f[1:], g.args...)
	}
	if doubtful(g.sub) {
		w.hit(ruleUnresolved, g.argv)
		return
	}
	for _, a := range g.args {
		if a == "--help" || a == "-h" && g.sub != "ls-remote" && g.sub != "grep" && g.sub != "show-ref" && g.sub != "branch" {
			return
		}
		if a == "--" {
			break
		}
	}
	rule := w.gitRule(s, g)
	if rule == "" && doubt && !gitReads[g.sub] {
		rule = ruleUnresolved
	}
	place := w.gitPlace(g)
	if rule == "" {
		if (s.tampered || g.unsafe) && !gitReads[g.sub] && place != elsewhere {
			w.hit(ruleSafety, g.argv)
		}
		return
	}
	switch {
	case rule == rulePush || rule == rulePushForce:
		if !w.localPush(g, place) {
			w.hit(rule, g.argv)
		}
	case place == elsewhere:
	case place == nowhere && rule != ruleSafety && rule != ruleUnresolved:
		// The project's own tests commit in repositories of their own; the
		// blocks within git and the check afterwards stand behind this.
		w.hit(ruleUnresolved, g.argv)
	default:
		w.hit(rule, g.argv)
		if s.tampered || g.unsafe {
			w.hit(ruleSafety, g.argv)
		}
	}
}

// envAlias looks for an alias in GIT_CONFIG_KEY_n.
func (w *walk) envAlias(s *state, sub string) (string, bool) {
	if len(s.vars) == 0 {
		return "", false
	}
	for n := range 16 {
		i := strconv.Itoa(n)
		if strings.EqualFold(w.envText(s, "GIT_CONFIG_KEY_"+i), "alias."+sub) {
			return w.envText(s, "GIT_CONFIG_VALUE_"+i), true
		}
	}
	return "", false
}

// gitReads are the commands that change nothing that is protected.
var gitReads = set("status diff log show blame annotate grep ls-files ls-tree ls-remote cat-file rev-parse rev-list describe " +
	"shortlog name-rev merge-base for-each-ref show-ref count-objects fsck var version help diff-tree diff-index diff-files " +
	"check-ignore check-attr check-ref-format range-diff whatchanged archive format-patch bugreport verify-commit verify-tag " +
	"merge-tree hash-object write-tree read-tree mktree patch-id interpret-trailers stripspace get-tar-commit-id column cherry " +
	"add rm mv restore clean apply diagnose")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, f := range strings.Fields(words) {
		m[f] = true
	}
	return m
}

// Places of a git command.
type place int

const (
	ours      place = iota // the protected repository, or one that may be the user's
	elsewhere              // a repository that this run made, or one in a directory for temporary files
	nowhere                // not known
)

func (w *walk) gitPlace(g *gitCall) place {
	at := elsewhere
	for _, d := range g.dirs {
		switch p := w.placeOf(d); {
		case p == ours:
			return ours
		case p == nowhere:
			at = nowhere
		}
	}
	return at
}

func (w *walk) placeOf(d string) place {
	if doubtful(d) {
		return nowhere
	}
	best := ""
	for top := range w.fresh {
		if below(d, top) && len(top) > len(best) && !slices.ContainsFunc(w.in.trees, func(t string) bool { return below(t, top) }) {
			best = top
		}
	}
	switch {
	case best != "":
		return elsewhere
	case w.in.protected(d):
		return ours
	case w.in.inTemp(d):
		return elsewhere
	}
	return ours
}

// made remembers a repository that this command makes.
func (w *walk) made(g *gitCall, dir, from string) {
	const most = 64
	for _, d := range g.dirs {
		p := resolve(d, dir)
		if p == some || len(w.fresh) >= most {
			continue
		}
		if w.fresh == nil {
			w.fresh = map[string]string{}
		}
		w.fresh[p] = from
	}
}

// localPush says that a push goes from a repository of the run's own to
// another on this machine that is nobody else's: tests of git tools do that.
func (w *walk) localPush(g *gitCall, at place) bool {
	if at != elsewhere || len(g.dirs) != 1 || g.unsafe || g.sub != "push" {
		return false
	}
	to := "origin"
	for i := 0; i < len(g.args); i++ {
		a := g.args[i]
		if v, ok := strings.CutPrefix(a, "--repo="); ok {
			to = v
			break
		}
		if a == "-o" || a == "--push-option" || a == "--repo" || a == "--receive-pack" || a == "--exec" {
			if i++; a == "--repo" && i < len(g.args) {
				to = g.args[i]
				break
			}
			continue
		}
		if a == "" || a[0] != '-' {
			to = a
			break
		}
	}
	d := g.dirs[0]
	if !strings.ContainsAny(to, "/.") {
		top := d
		for top != "/" && top != "." {
			if url, ok := w.remotes[top+"\x00"+to]; ok {
				to = url
				break
			}
			if url, ok := w.fresh[top]; ok && to == "origin" {
				to = url
				break
			}
			top = path.Dir(top)
		}
		if !strings.Contains(to, "/") {
			return false
		}
	}
	p := resolve(d, strings.TrimPrefix(to, "file://"))
	if doubtful(to) || strings.Contains(strings.TrimPrefix(to, "file://"), ":") || p == some {
		return false
	}
	for _, r := range w.in.place.Remotes {
		if r = strings.TrimPrefix(r, "file://"); strings.TrimSuffix(clean(r), ".git") == strings.TrimSuffix(p, ".git") {
			return false
		}
	}
	return w.placeOf(p) == elsewhere
}

// gitPrints is what a git command prints, where that is known.
func (w *walk) gitPrints(g *gitCall) string {
	switch g.sub {
	case "rev-parse":
		if slices.Contains(g.args, "--show-toplevel") && len(g.dirs) == 1 {
			d := g.dirs[0]
			if doubtful(d) {
				return some
			}
			for _, t := range w.in.trees {
				if below(d, t) {
					return t + "\n"
				}
			}
			return d + "\n"
		}
	case "ls-files", "diff", "status":
		return string(plain) + "\n"
	}
	return some
}
