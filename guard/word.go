package guard

import (
	"iter"
	"maps"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func keysOf[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// fields expands a word to the arguments that it becomes.
func (w *walk) fields(s *state, word *syntax.Word) []string {
	if word == nil {
		return nil
	}
	if len(word.Parts) == 1 {
		if l, ok := word.Parts[0].(*syntax.Lit); ok && strings.IndexAny(l.Value, `\{~`) < 0 {
			w.spend(len(l.Value))
			return []string{l.Value}
		}
	}
	if hasBrace(word) {
		// SplitBraces changes the word: a loop's body is expanded again.
		c := &syntax.Word{Parts: append([]syntax.WordPart(nil), word.Parts...)}
		if syntax.SplitBraces(c) {
			return w.braces(s, c)
		}
	}
	e := expansion{w: w, s: s, split: true}
	e.parts(word.Parts, false)
	return e.end()
}

// text expands a word to one string: assignments, redirections, [[ ]].
func (w *walk) text(s *state, word *syntax.Word) string {
	if word == nil {
		return ""
	}
	if len(word.Parts) == 1 {
		if l, ok := word.Parts[0].(*syntax.Lit); ok && strings.IndexAny(l.Value, `\~`) < 0 {
			w.spend(len(l.Value))
			return l.Value
		}
	}
	e := expansion{w: w, s: s}
	e.parts(word.Parts, false)
	return e.cur.String()
}

func (w *walk) heredoc(s *state, r *syntax.Redirect) string {
	quoted := false
	for _, p := range r.Word.Parts {
		l, ok := p.(*syntax.Lit)
		quoted = quoted || !ok || strings.Contains(l.Value, `\`)
	}
	e := expansion{w: w, s: s}
	for _, p := range r.Hdoc.Parts {
		if l, ok := p.(*syntax.Lit); ok && quoted {
			e.add(l.Value)
			continue
		}
		e.part(p, true)
	}
	return e.cur.String()
}

func hasBrace(word *syntax.Word) bool {
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.Contains(l.Value, "{") {
			return true
		}
	}
	return false
}

// braces expands {a,b} and {1..3}: `{git,push}` is git push.
func (w *walk) braces(s *state, word *syntax.Word) []string {
	const most = 256
	sets := [][]syntax.WordPart{nil}
	for _, p := range word.Parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			for i := range sets {
				sets[i] = append(sets[i][:len(sets[i]):len(sets[i])], p)
			}
			continue
		}
		elems := b.Elems
		if b.Sequence {
			elems = []*syntax.Word{{Parts: []syntax.WordPart{&syntax.Lit{Value: string(plain)}}}}
		}
		var next [][]syntax.WordPart
		for _, set := range sets {
			for _, el := range elems {
				next = append(next, append(set[:len(set):len(set)], el.Parts...))
				if len(next) > most || !w.spend(len(set)) {
					w.over = true
					return []string{some}
				}
			}
		}
		sets = next
	}
	var out []string
	for _, set := range sets {
		sub := &syntax.Word{Parts: set}
		nested := false
		for _, p := range set {
			_, b := p.(*syntax.BraceExp)
			nested = nested || b
		}
		if nested && w.depth < maxDepth {
			w.depth++
			out = append(out, w.braces(s, sub)...)
			w.depth--
			continue
		}
		e := expansion{w: w, s: s, split: true}
		e.parts(set, false)
		out = append(out, e.end()...)
		if len(out) > maxFields {
			return append(out[:maxFields], some)
		}
	}
	return out
}

// expansion builds the arguments of one word.
type expansion struct {
	w     *walk
	s     *state
	split bool // unquoted values are split at white space
	out   []string
	cur   strings.Builder
	some  bool // the current argument exists, even when empty
}

func (e *expansion) end() []string {
	if e.some || e.cur.Len() > 0 {
		e.out = append(e.out, e.cur.String())
	}
	return e.out
}

func (e *expansion) next() {
	if e.some || e.cur.Len() > 0 {
		if len(e.out) < maxFields {
			e.out = append(e.out, e.cur.String())
		}
		e.cur.Reset()
		e.some = false
	}
}

func (e *expansion) add(text string) {
	if e.cur.Len()+len(text) > maxValue {
		text = some
		if e.cur.Len() > maxValue {
			return
		}
	}
	e.w.bytes += len(text)
	e.cur.WriteString(text)
}

// value adds the value of an expansion.
func (e *expansion) value(text string, quoted bool) {
	if quoted || !e.split || strings.IndexAny(text, " \t\n") < 0 {
		e.add(text)
		return
	}
	for i, f := range strings.Fields(text) {
		if i > 0 || strings.IndexByte(" \t\n", text[0]) >= 0 {
			e.next()
		}
		e.add(f)
	}
	if strings.IndexByte(" \t\n", text[len(text)-1]) >= 0 {
		e.next()
	}
}

// list adds "$@" and "${a[@]}".
func (e *expansion) list(vals []string, quoted bool) {
	for i, v := range vals {
		if i > 0 {
			if !e.split {
				e.add(" ")
			} else {
				e.next()
			}
		}
		e.value(v, quoted)
		if quoted {
			e.some = true
		}
	}
}

func (e *expansion) parts(parts []syntax.WordPart, quoted bool) {
	for i, p := range parts {
		if l, ok := p.(*syntax.Lit); ok && i == 0 && !quoted && strings.HasPrefix(l.Value, "~") {
			e.tilde(l.Value)
			continue
		}
		e.part(p, quoted)
	}
}

func (e *expansion) tilde(v string) {
	user, rest, slash := strings.Cut(v, "/")
	switch user {
	case "~":
		e.add(e.w.variable(e.s, "HOME")[0])
	case "~+":
		e.add(e.w.dir(e.s))
	case "~-":
		e.add(some)
	default:
		e.add("/home/" + string(plain))
	}
	if slash {
		e.add("/" + unescape(rest))
	}
}

func (e *expansion) part(p syntax.WordPart, quoted bool) {
	if !e.w.spend(0) {
		e.add(some)
		return
	}
	switch p := p.(type) {
	case *syntax.Lit:
		switch {
		case strings.IndexByte(p.Value, '\\') < 0:
			e.add(p.Value)
		case quoted:
			e.add(unescapeQuoted(p.Value))
		default:
			e.add(unescape(p.Value))
		}
	case *syntax.SglQuoted:
		e.some = true
		if p.Dollar {
			e.add(ansi(p.Value))
		} else {
			e.add(p.Value)
		}
	case *syntax.DblQuoted:
		e.some = len(p.Parts) != 1 || !isList(p.Parts[0]) || e.some
		for _, q := range p.Parts {
			e.part(q, true)
		}
	case *syntax.ParamExp:
		e.param(p, quoted)
	case *syntax.CmdSubst:
		out := e.w.stmts(e.s.copy(), p.Stmts, "")
		e.value(strings.TrimRight(out, "\n"), quoted)
	case *syntax.ProcSubst:
		e.add(e.w.process(e.s, p))
	case *syntax.ArithmExp:
		e.w.arithm(e.s, p.X, 0)
		e.add(string(plain))
	case *syntax.ExtGlob:
		e.add(string(plain))
	case *syntax.BraceExp:
		e.add(string(plain))
	default:
		e.add(some)
	}
}

// process is <(…) and >(…): a file that only this command sees.
func (w *walk) process(s *state, p *syntax.ProcSubst) string {
	out := w.stmts(s.copy(), p.Stmts, "")
	w.nextFile++
	name := "/dev/fd/" + strconv.Itoa(1000+w.nextFile)
	if p.Op == syntax.CmdIn || p.Op == syntax.CmdInTemp {
		w.keep(name, out)
	}
	return name
}

func isList(p syntax.WordPart) bool {
	e, ok := p.(*syntax.ParamExp)
	if !ok || e.Param == nil {
		return false
	}
	if e.Param.Value == "@" {
		return true
	}
	i, ok := e.Index.(*syntax.Word)
	return ok && i.Lit() == "@"
}

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

func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unescapeQuoted is unescape within double quotes.
func unescapeQuoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ansi decodes $'…'.
func ansi(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; {
		case c == 'n':
			b.WriteByte('\n')
		case c == 't':
			b.WriteByte('\t')
		case c == 'x' || c == 'u' || c == 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			j := i + 1
			for j < len(s) && j <= i+n && isHex(s[j]) {
				j++
			}
			v, _ := strconv.ParseUint(s[i+1:j], 16, 32)
			b.WriteRune(rune(v))
			i = j - 1
		case c >= '0' && c <= '7':
			j := i
			for j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7' {
				j++
			}
			v, _ := strconv.ParseUint(s[i:j], 8, 16)
			b.WriteByte(byte(v))
			i = j - 1
		case strings.IndexByte(`abeEfrv`, c) >= 0:
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}
	return sanitize(b.String())
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
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
	case "TMPDIR":
		if len(w.in.temp) > 0 {
			return w.in.temp[:1]
		}
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
