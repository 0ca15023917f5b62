package guard

import (
	"iter"
	"maps"
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
		if l, ok := word.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(l.Value, `\{~`) {
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
		if l, ok := word.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(l.Value, `\~`) {
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
	if quoted || !e.split || !strings.ContainsAny(text, " \t\n") {
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
