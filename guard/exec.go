package guard

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// exec judges one command and returns what it would print.
func (w *walk) exec(s *state, argv []string, in string) string {
	if len(argv) == 0 {
		return ""
	}
	if w.depth >= maxDepth || !w.spend(len(argv)) {
		w.over = true
		return some
	}
	w.depth++
	defer func() { w.depth-- }()

	if doubtful(argv[0]) {
		// "$X git push": with X unset it is git push. "${X}git" too.
		w.hit(ruleUnresolved, argv)
		if name := strings.Trim(argv[0], string([]byte{unset, unknown})); name != "" && !doubtful(name) {
			w.exec(s, append([]string{name}, argv[1:]...), in)
		} else if len(argv) > 1 {
			w.exec(s.copy(), argv[1:], in)
		}
		return some
	}
	name := base(argv[0])
	if body, ok := s.funcs[argv[0]]; ok && !w.calling[argv[0]] {
		return w.callFunc(s, argv, func() string { return w.stmt(s, body, in) })
	}
	if text, ok := s.aliases[argv[0]]; ok {
		// Not all shells expand it, and none where it is quoted: both are
		// judged. An alias is not expanded within itself.
		delete(s.aliases, argv[0])
		w.exec(s, append(w.words(s, text), argv[1:]...), in)
		s.alias(argv[0], text)
	}
	if strings.ContainsAny(name, "*?[") {
		name = globbed(name)
	}
	if w.p.names[name] {
		w.custom(s, name, argv)
	}
	if sub, ok := strings.CutPrefix(name, "git-"); ok && sub != "lfs" {
		return w.git(s, append([]string{"git", sub}, argv[1:]...))
	}
	if name != "git" {
		w.blockKept(s, argv)
	}
	switch name {
	case "git":
		return w.git(s, argv)
	case "gh", "glab", "hub", "tea":
		return w.forge(s, forgeOf(name), argv)
	case "rm", "unlink", "rmdir", "shred":
		w.remove(s, argv)
		return ""
	case "find", "gfind", "fd", "fdfind":
		return w.find(s, argv)
	case "mix":
		w.mix(s, argv)
		return some
	case "mv", "cp", "ln", "tee", "truncate", "install", "rsync", "dd", "sed", "chmod", "touch":
		w.placesFiles(s, name, argv)
	}
	if out, ok := w.builtin(s, name, argv, in); ok {
		return out
	}
	if out, ok := w.wrapper(s, name, argv, in); ok {
		return out
	}
	// A file that was written a moment ago and is now run.
	if strings.Contains(argv[0], "/") {
		if text, ok := w.files[resolve(w.dir(s), argv[0])]; ok {
			return w.shellFile(s, text, argv[1:], in)
		}
	}
	return some
}

// blockKept judges what is started, or left in the environment, without the
// block of git: nobody can see what a script does then. git itself is judged
// by what it is asked to do.
func (w *walk) blockKept(s *state, argv []string) {
	if s.unblocked {
		w.hit(ruleSafety, argv)
	}
}

// direct is exec for what another program runs: no function, no alias.
func (w *walk) direct(s *state, argv []string, in string) string {
	funcs, aliases := s.funcs, s.aliases
	s.funcs, s.aliases = nil, nil
	out := w.exec(s, argv, in)
	s.funcs, s.aliases = funcs, aliases
	return out
}

// callFunc runs a function's body with its arguments.
func (w *walk) callFunc(s *state, argv []string, run func() string) string {
	if w.called == nil {
		w.called, w.calling = map[string]bool{}, map[string]bool{}
	}
	w.called[argv[0]], w.calling[argv[0]] = true, true
	args, known := s.args, s.known
	s.args, s.known = argv[1:], true
	out := run()
	s.args, s.known, s.over = args, known, false
	delete(w.calling, argv[0])
	return out
}

// globbed is the program that a pattern such as /bin/r? was written for.
func globbed(name string) string {
	for _, n := range [...]string{"git", "rm", "gh", "sh", "bash", "find", "env", "sudo"} {
		if ok, _ := path.Match(name, n); ok {
			return n
		}
	}
	return name
}

// custom judges the rules of packs and of the user.
func (w *walk) custom(s *state, name string, argv []string) {
	for _, r := range w.p.rules {
		if matches(strings.Fields(r.Command), name, argv) {
			w.hit(r.Name, argv)
		}
	}
}

// matches says that argv begins with the words of a rule. Between the words
// there may be options, each with a value: that an option takes none is not
// known here, so `npm -s run publish` is taken for `npm publish` as well.
func matches(rule []string, name string, argv []string) bool {
	if !strings.EqualFold(rule[0], name) {
		return false
	}
	args := argv[1:]
	for _, a := range args {
		if a == "--help" || a == "--dry-run" || strings.HasPrefix(a, "--dry-run=") {
			return false
		}
	}
	i := 0
	behindOption := false
	for _, want := range rule[1:] {
		if strings.HasPrefix(want, "-") {
			found := false
			for _, a := range args {
				found = found || a == want || strings.HasPrefix(a, want+"=")
			}
			if !found {
				return false
			}
			continue
		}
		for {
			if i >= len(args) {
				return false
			}
			a := args[i]
			i++
			if a == want {
				behindOption = false
				break
			}
			if strings.HasPrefix(a, "-") {
				behindOption = !strings.Contains(a, "=")
				continue
			}
			if strings.HasPrefix(a, "+") && name == "cargo" {
				continue
			}
			if !behindOption {
				return false
			}
			behindOption = false
		}
	}
	return true
}

// mix runs several tasks in one: mix do deps.clean --all, compile.
func (w *walk) mix(s *state, argv []string) {
	if len(argv) < 2 || argv[1] != "do" {
		return
	}
	task := []string{"mix"}
	flush := func() {
		if len(task) > 1 && w.p.names["mix"] {
			w.custom(s, "mix", task)
		}
		task = []string{"mix"}
	}
	for _, a := range argv[2:] {
		for i, part := range strings.Split(a, ",") {
			if i > 0 || part == "+" {
				flush()
			}
			if part != "" && part != "+" {
				task = append(task, part)
			}
		}
	}
	flush()
}

// words cuts a text into words as a shell would.
func (w *walk) words(s *state, text string) []string {
	if stmts, whole := parse(text); whole && len(stmts) == 1 {
		if c, ok := stmts[0].Cmd.(*syntax.CallExpr); ok {
			var all []string
			for _, a := range c.Assigns {
				if a.Name != nil {
					all = append(all, a.Name.Value+"="+w.text(s, a.Value))
				}
			}
			for _, word := range c.Args {
				all = append(all, w.fields(s, word)...)
			}
			return all
		}
	}
	return splitWords(text)
}

// splitWords cuts a text into words with no regard to the grammar of shells.
func splitWords(text string) []string {
	var all []string
	segments(text, func(argv []string) { all = append(all, argv...) })
	return all
}

// scan searches text that could not be read for what is judged by name, up to
// the next such name.
func (w *walk) scan(s *state, text string) {
	segments(text, func(argv []string) {
		for i := 0; i < len(argv); {
			next := i + 1
			for next < len(argv) && !w.interesting(base(argv[next])) {
				next++
			}
			if w.interesting(base(argv[i])) {
				w.judged(s.copy(), argv[i:next])
			}
			i = next
		}
	})
}

// judged is exec for the names that are judged, and for nothing else: what was
// cut out of a text is not followed any further.
func (w *walk) judged(s *state, argv []string) {
	was := w.over
	w.over = false
	switch name := base(argv[0]); name {
	case "git":
		w.git(s, argv)
	case "gh", "glab", "hub", "tea":
		w.forge(s, forgeOf(name), argv)
	case "rm":
		w.remove(s, argv)
	case "mix":
		w.mix(s, argv)
		fallthrough
	default:
		w.custom(s, name, argv)
	}
	w.over = w.over || was
}

func (w *walk) interesting(name string) bool {
	switch name {
	case "git", "gh", "glab", "hub", "tea", "rm":
		return true
	}
	return w.p.names[name]
}
