package guard

import (
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (e *expansion) param(p *syntax.ParamExp, quoted bool) {
	if p.Index != nil {
		if i, ok := p.Index.(*syntax.Word); !ok || i.Lit() != "@" && i.Lit() != "*" {
			e.w.arithm(e.s, p.Index, 0)
		}
	}
	if p.Param == nil || p.Length || p.Width || p.IsSet {
		e.add(string(plain)) // a number
		return
	}
	if p.Excl || p.Names != 0 || p.Flags != nil || p.NestedParam != nil || len(p.Modifiers) > 0 {
		if p.Excl && p.Names == 0 && p.Index == nil {
			// ${!x}: the variable that x names.
			if v := e.w.variable(e.s, p.Param.Value); len(v) == 1 && syntax.ValidName(v[0]) {
				e.value(e.w.variable(e.s, v[0])[0], quoted)
				return
			}
		}
		e.add(some)
		return
	}
	vals := e.w.variable(e.s, p.Param.Value)
	var list bool
	switch {
	case p.Param.Value == "@" || p.Param.Value == "*":
		list = true
	case p.Index != nil:
		i, ok := p.Index.(*syntax.Word)
		switch n, err := strconv.Atoi(litOf(i)); {
		case ok && (i.Lit() == "@" || i.Lit() == "*"):
			list = true
		case err == nil && n >= 0 && n < len(vals):
			vals = vals[n : n+1]
		default:
			vals = []string{some}
		}
	}
	if list && p.Exp == nil && p.Slice == nil && p.Repl == nil {
		e.list(vals, quoted)
		return
	}
	v := string(unset)
	if len(vals) > 0 {
		v = vals[0]
	}
	if list && len(vals) > 1 {
		v = some
	}
	e.value(e.w.modify(e.s, p, v), quoted)
}

func litOf(word *syntax.Word) string {
	if word == nil {
		return ""
	}
	return word.Lit()
}

// modify is ${x:-y}, ${x%y}, ${x/y/z}, ${x:1:2}.
func (w *walk) modify(s *state, p *syntax.ParamExp, v string) string {
	switch {
	case p.Exp != nil:
		arg := w.text(s, p.Exp.Word)
		empty := v == "" || v == string(unset)
		switch p.Exp.Op {
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
			if empty {
				return arg
			}
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if empty {
				s.set(p.Param.Value, []string{arg})
				return arg
			}
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
			if empty {
				return ""
			}
			return arg
		case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
			if empty {
				// The shell stops where it is not set.
				s.set(p.Param.Value, []string{some})
				return some
			}
		case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
			return trimPattern(v, arg, p.Exp.Op)
		case syntax.LowerAll, syntax.LowerFirst:
			return strings.ToLower(v)
		case syntax.UpperAll, syntax.UpperFirst:
			return strings.ToUpper(v)
		default:
			return some
		}
		return v
	case p.Slice != nil:
		off, length := number(p.Slice.Offset), number(p.Slice.Length)
		if doubtful(v) || off < 0 || off > len(v) || p.Slice.Length != nil && length < 0 {
			return some
		}
		if p.Slice.Length == nil {
			return v[off:]
		}
		return v[off:min(off+length, len(v))]
	case p.Repl != nil:
		from, to := w.text(s, p.Repl.Orig), w.text(s, p.Repl.With)
		if doubtful(v) || from == "" || strings.ContainsAny(from, `*?[#%`) {
			return some
		}
		n := 1
		if p.Repl.All {
			n = -1
		}
		if strings.Count(v, from)*len(to)+len(v) > maxValue {
			return some
		}
		return strings.Replace(v, from, to, n)
	}
	return v
}

func number(x syntax.ArithmExpr) int {
	word, ok := x.(*syntax.Word)
	if !ok {
		return -1
	}
	n, err := strconv.Atoi(word.Lit())
	if err != nil {
		return -1
	}
	return n
}

// trimPattern removes a prefix or suffix that matches a pattern.
func trimPattern(v, pattern string, op syntax.ParExpOperator) string {
	const most = 4096
	if doubtful(v) || doubtful(pattern) || len(v) > most || len(pattern) > 64 {
		return some
	}
	prefix := op == syntax.RemSmallPrefix || op == syntax.RemLargePrefix
	if !strings.ContainsAny(pattern, `*?[\`) {
		if prefix {
			return strings.TrimPrefix(v, pattern)
		}
		return strings.TrimSuffix(v, pattern)
	}
	// path.Match does not let * cross a slash, a shell does here.
	flat, pat := strings.ReplaceAll(v, "/", "\x04"), strings.ReplaceAll(pattern, "/", "\x04")
	large := op == syntax.RemLargePrefix || op == syntax.RemLargeSuffix
	for i := range len(v) + 1 {
		n := i // length of what is removed
		if large {
			n = len(v) - i
		}
		part := flat[len(flat)-n:]
		if prefix {
			part = flat[:n]
		}
		if ok, err := path.Match(pat, part); err != nil {
			return some
		} else if ok {
			if prefix {
				return v[n:]
			}
			return v[:len(v)-n]
		}
	}
	return v
}

// variable is the value of a variable: one, more for an array, none for an
// empty list of arguments.
func (w *walk) variable(s *state, name string) []string {
	if v, ok := s.vars[name]; ok {
		return v
	}
	switch name {
	case "@", "*":
		if !s.known {
			return []string{some}
		}
		return s.args
	case "PWD":
		return []string{w.dir(s)}
	case "OLDPWD":
		if len(s.oldDirs) == 1 {
			return s.oldDirs
		}
		return []string{some}
	case "?", "$", "!", "#", "-", "_", "RANDOM", "SECONDS", "UID", "EUID", "PPID", "BASHPID", "LINENO", "HOSTNAME", "EPOCHSECONDS":
		return []string{string(plain)}
	}
	if c := name[0]; c >= '0' && c <= '9' {
		n, _ := strconv.Atoi(name)
		switch {
		case n == 0:
			return []string{"sh"}
		case !s.known:
			return []string{some}
		case n <= len(s.args):
			return []string{s.args[n-1]}
		}
		return []string{string(unset)}
	}
	if v, ok := w.in.place.Env[name]; ok {
		return []string{sanitize(v)}
	}
	switch name {
	case "HOME":
		return []string{w.in.home}
	case "IFS":
		return []string{" "}
	case "USER", "LOGNAME":
		return []string{string(plain)}
	case "SHELL", "BASH":
		return []string{"sh"}
	}
	return []string{string(unset)}
}

// dir is where the shell is, when that is known.
func (w *walk) dir(s *state) string {
	if len(s.dirs) == 1 {
		return s.dirs[0]
	}
	return some
}
