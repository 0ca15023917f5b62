package guard

import (
	"encoding/base64"
	"path"
	"slices"
	"strings"
)

// builtin follows what changes the shell and what prints something that can be
// known. false: the name is none of them.
func (w *walk) builtin(s *state, name string, argv []string, in string) (string, bool) {
	args := argv[1:]
	switch name {
	case "cd", "pushd", "chdir":
		w.cd(s, args)
		return "", true
	case "popd":
		s.dirs, s.oldDirs = []string{some}, s.dirs
		return "", true
	case "pwd":
		return w.dir(s) + "\n", true
	case "echo":
		i := 0
		escapes := false
		for i < len(args) && len(args[i]) > 1 && args[i][0] == '-' && strings.Trim(args[i][1:], "neE") == "" {
			escapes = escapes || strings.Contains(args[i], "e")
			i++
		}
		out := w.join(args[i:]) + "\n"
		if escapes {
			out = ansi(out)
		}
		return out, true
	case "printf":
		return w.printf(args), true
	case "cat", "tac", "head", "tail", "sort", "uniq", "shuf", "grep", "egrep", "rg", "nl":
		return w.filter(s, name, args, in), true
	case "tee":
		for _, f := range operands(args, "") {
			w.store(s, f, in, slices.Contains(args, "-a"))
		}
		return in, true
	case "base64":
		return w.base64(args, in), true
	case "dirname", "basename":
		if ops := operands(args, ""); len(ops) > 0 && !doubtful(ops[0]) {
			if name == "dirname" {
				return path.Dir(ops[0]) + "\n", true
			}
			return strings.TrimSuffix(path.Base(ops[0]), slices.Concat(ops, []string{"", ""})[1]) + "\n", true
		}
		return some, true
	case "realpath", "readlink":
		if ops := operands(args, ""); len(ops) > 0 {
			return resolve(w.dir(s), ops[len(ops)-1]) + "\n", true
		}
		return some, true
	case "mktemp":
		return w.mktemp(s, args), true
	case "which", "type", "whereis":
		if ops := operands(args, ""); len(ops) > 0 {
			return ops[0] + "\n", true
		}
		return "", true
	case "ls":
		return string(plain) + "\n", true
	case "export", "declare", "local", "typeset", "readonly":
		for _, a := range args {
			if n, v, ok := strings.Cut(a, "="); ok {
				w.setVar(s, n, []string{v})
			}
		}
		return "", true
	case "unset":
		for _, a := range args {
			s.tamper(a)
			s.set(a, []string{string(unset)})
			delete(s.funcs, a)
		}
		w.blockKept(s, argv)
		return "", true
	case "read", "mapfile", "readarray":
		ops := operands(args, "dinNptu")
		rest := strings.TrimSpace(in)
		if name == "read" && strings.Contains(rest, "\n") {
			rest = "" // the first line only, and it is not known which that is
		}
		for i, a := range ops {
			v := orSome(rest)
			if i < len(ops)-1 {
				v, rest, _ = strings.Cut(rest, " ")
				v, rest = orSome(v), strings.TrimSpace(rest)
			}
			w.setVar(s, a, []string{v})
		}
		return "", true
	case "set":
		if i := slices.Index(args, "--"); i >= 0 {
			s.args, s.known = args[i+1:], true
		} else if ops := operands(args, "o"); len(ops) > 0 {
			s.args, s.known = ops, true
		}
		return "", true
	case "shift":
		if s.known && len(s.args) > 0 {
			s.args = s.args[1:]
		}
		return "", true
	case "exit", "return", "break", "continue":
		s.over = true
		return "", true
	case "eval":
		return w.script(s, w.join(args), in), true
	case "source", ".":
		if ops := operands(args, ""); len(ops) > 0 {
			if text, ok := w.files[resolve(w.dir(s), ops[0])]; ok {
				return w.script(s, text, in), true
			}
		}
		return some, true
	case "trap":
		if ops := operands(args, ""); len(ops) > 1 {
			return w.script(s.copy(), ops[0], ""), true
		}
		return "", true
	case "alias":
		for _, a := range args {
			if n, v, ok := strings.Cut(a, "="); ok {
				s.alias(n, v)
			}
		}
		return "", true
	case "true", "false", ":", "test", "[", "sleep", "wait", "kill", "umask", "ulimit", "hash", "shopt", "mkdir", "chmod", "touch":
		return "", true
	}
	return "", false
}

func orSome(s string) string {
	if s == "" {
		return some
	}
	return s
}

// operands are the arguments that are no options. withValue are the short
// options that take the next argument.
func operands(args []string, withValue string) []string {
	var ops []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return append(ops, args[i+1:]...)
		case len(a) > 1 && a[0] == '-':
			if len(a) == 2 && strings.IndexByte(withValue, a[1]) >= 0 {
				i++
			}
		default:
			ops = append(ops, a)
		}
	}
	return ops
}

func (w *walk) join(args []string) string {
	n := 0
	for i, a := range args {
		if n += len(a) + 1; n > maxValue {
			args = append(slices.Clip(args[:i]), some)
			break
		}
	}
	w.bytes += n
	return strings.Join(args, " ")
}

func (w *walk) cd(s *state, args []string) {
	was := s.dirs
	ops := operands(args, "")
	to := w.in.home
	if len(ops) > 0 {
		to = ops[0]
	}
	switch {
	case to == "-" || slices.Contains(args, "-"):
		s.dirs = s.oldDirs
		if s.dirs == nil {
			s.dirs = []string{some}
		}
	default:
		var dirs []string
		for _, d := range was {
			dirs = union(dirs, []string{resolve(d, to)})
		}
		s.dirs = dirs
	}
	s.oldDirs = was
}

func (w *walk) printf(args []string) string {
	if len(args) > 1 && args[0] == "-v" {
		return ""
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return ""
	}
	format, args := ansi(args[0]), args[1:]
	var b strings.Builder
	for {
		used := 0
		for i := 0; i < len(format); i++ {
			if format[i] != '%' {
				b.WriteByte(format[i])
				continue
			}
			for i++; i < len(format) && strings.IndexByte("-+ #0123456789.", format[i]) >= 0; i++ {
			}
			switch {
			case i >= len(format) || format[i] == '%':
				b.WriteByte('%')
			case used < len(args):
				b.WriteString(args[used])
				used++
			}
			if b.Len() > maxValue || !w.spend(0) {
				return some
			}
		}
		args = args[used:]
		if used == 0 || len(args) == 0 {
			break
		}
	}
	w.bytes += b.Len()
	return b.String()
}

// filter is a program that passes on what it reads, or less of it.
func (w *walk) filter(s *state, name string, args []string, in string) string {
	values := map[string]string{"head": "nc", "tail": "nc", "sort": "kto", "grep": "efmABC", "egrep": "efmABC", "rg": "efmABCgt"}[name]
	ops := operands(args, values)
	if strings.HasSuffix(name, "grep") || name == "rg" {
		for _, a := range args {
			if a == "-l" || a == "-rl" || a == "-lr" || a == "--files-with-matches" || a == "--files" {
				return string(plain) + "\n"
			}
		}
		if !slices.Contains(args, "-e") && len(ops) > 0 {
			ops = ops[1:]
		}
	}
	if len(ops) == 0 {
		return in
	}
	var out string
	for _, f := range ops {
		if f == "-" {
			out = w.concat(out, in)
		} else {
			out = w.concat(out, w.read(s, f))
		}
	}
	return out
}

func (w *walk) base64(args []string, in string) string {
	for _, a := range args {
		if a == "-d" || a == "-D" || a == "--decode" || a == "-di" || a == "-id" {
			b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(in), ""))
			if err != nil {
				return some
			}
			return sanitize(string(b))
		}
	}
	return some
}

// mktemp names a file that does not exist yet, so it is nobody else's.
func (w *walk) mktemp(s *state, args []string) string {
	dir := string(unset)
	if len(w.in.temp) > 0 {
		dir = w.in.temp[0]
	}
	name := "mktemp-" + string(plain)
	inDir := false
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-p" || a == "--tmpdir" && i+1 < len(args) && strings.HasPrefix(args[i+1], "/"):
			if i++; i < len(args) {
				dir, inDir = args[i], true
			}
		case strings.HasPrefix(a, "--tmpdir="):
			dir, inDir = strings.TrimPrefix(a, "--tmpdir="), true
		case a == "--tmpdir" || a == "-t":
			inDir = true
		case strings.HasPrefix(a, "-"):
		default:
			name = strings.ReplaceAll(a, "X", string(plain))
			if !inDir && !path.IsAbs(name) {
				dir = w.dir(s)
			}
		}
	}
	return resolve(dir, name) + "\n"
}

// read is the content of a file, as far as this command wrote it.
func (w *walk) read(s *state, name string) string {
	if text, ok := w.files[resolve(w.dir(s), name)]; ok {
		return text
	}
	return some
}

// store remembers what was written to a file: it may be run next.
func (w *walk) store(s *state, name, text string, appends bool) {
	p := resolve(w.dir(s), name)
	if p == some {
		return
	}
	if appends {
		text = w.concat(w.files[p], text)
	}
	w.keep(p, text)
}

func (w *walk) keep(p, text string) {
	const most = 256
	if w.files == nil {
		w.files = map[string]string{}
	}
	if len(w.files) < most {
		w.files[p] = text
	}
}
