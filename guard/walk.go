package guard

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of one judgement. Where one is met the rest is searched for words.
const (
	maxOps    = 20_000   // commands and words
	maxBytes  = 32 << 20 // of values that are built
	maxValue  = 1 << 20  // of one value
	maxDepth  = 64       // scripts in scripts, commands behind commands
	maxFields = 4096     // words of one command
	maxItems  = 32       // of a loop that are tried one by one
)

// walk is one judgement: a shell that runs nothing. It follows directories,
// variables, functions, what is written to files and what is piped, as far as
// the text says, and hands every command that would be run to exec.
type walk struct {
	p    *Policy
	in   where
	best Verdict

	ops, bytes, depth int
	over              bool

	// What the command changes outside of the shell; a subshell's stays.
	files      map[string]string // content, by absolute path
	fresh      map[string]string // repositories made here: top, and what it is a clone of
	remotes    map[string]string // "top\x00name": URL of a remote added here
	gitAliases map[string]string
	called     map[string]bool // functions that were called
	calling    map[string]bool // and those that are
	nextFile   int
}

// hit records a rule that was met; the gravest counts, of equals the first.
func (w *walk) hit(name string, argv []string) {
	l := w.p.levels[name]
	if l.rank() <= w.best.Level.rank() {
		return
	}
	w.best = Verdict{Level: l, Rule: name, Reason: w.p.reason(name), Evidence: evidence(argv)}
}

func (p *Policy) reason(name string) string {
	if r, ok := p.builtin[name]; ok {
		return r.Reason
	}
	for _, r := range p.rules {
		if r.Name == name {
			return r.Reason
		}
	}
	return ""
}

// spend counts work; false when there was too much.
func (w *walk) spend(bytes int) bool {
	w.ops++
	w.bytes += bytes
	if w.ops > maxOps || w.bytes > maxBytes {
		w.over = true
	}
	return !w.over
}

// script runs text as a shell would and returns what it would print.
func (w *walk) script(s *state, text, in string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	if w.depth >= maxDepth || !w.spend(len(text)) {
		w.over = true
		return some
	}
	w.depth++
	defer func() { w.depth-- }()
	stmts, whole := parse(text)
	out := w.stmts(s, stmts, in)
	if !whole {
		w.hit(ruleUnparsed, []string{text[:min(len(text), 512)]})
		w.scan(s, text)
	}
	return out
}

// program is the script of a shell of its own.
func (w *walk) program(s *state, text, in string) string {
	s.funcs, s.aliases = nil, nil
	out := w.script(s, text, in)
	w.uncalled(s)
	return out
}

// uncalled runs the functions that were defined and not called: something that
// we do not follow may call them (a trap, xargs, a file that is sourced).
func (w *walk) uncalled(s *state) {
	for _, name := range slices.Sorted(keysOf(s.funcs)) {
		if !w.called[name] {
			c := s.copy()
			c.over, c.known, c.args = false, false, nil
			w.stmt(c, s.funcs[name], "")
		}
	}
}

func (w *walk) stmts(s *state, list []*syntax.Stmt, in string) string {
	var out string
	for _, st := range list {
		// What stands behind exit is not run, but `trap … EXIT` and a branch
		// that we took for sure and is not may be: it is followed all the same.
		out = w.concat(out, w.stmt(s, st, in))
		if w.over {
			break
		}
	}
	return out
}

func (w *walk) concat(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	case len(a)+len(b) > maxValue:
		return a + some
	}
	w.bytes += len(a) + len(b)
	return a + b
}

func (w *walk) stmt(s *state, st *syntax.Stmt, in string) string {
	if st == nil || !w.spend(0) {
		return ""
	}
	var to []string
	appends := false
	for _, r := range st.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = ""
			if r.Hdoc != nil {
				in = w.heredoc(s, r)
			}
		case syntax.WordHdoc:
			in = w.text(s, r.Word) + "\n"
		case syntax.RdrIn, syntax.RdrInOut:
			in = w.read(s, w.text(s, r.Word))
		case syntax.DplIn, syntax.DplOut:
			w.text(s, r.Word)
		default:
			name := w.text(s, r.Word)
			if name == "/dev/null" {
				continue
			}
			w.writes(s, name, []string{r.Op.String(), name})
			if r.N == nil || r.N.Value == "1" {
				to, appends = append(to, name), r.Op == syntax.AppOut || r.Op == syntax.AppAll
			}
		}
	}
	run := s
	if st.Background || st.Coprocess {
		run = s.copy()
	}
	out := w.command(run, st.Cmd, in)
	if to != nil {
		for _, name := range to {
			w.store(s, name, out, appends)
		}
		out = ""
	}
	return out
}

func (w *walk) command(s *state, cmd syntax.Command, in string) string {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return w.call(s, c, in)
	case *syntax.Block:
		return w.stmts(s, c.Stmts, in)
	case *syntax.Subshell:
		return w.stmts(s.copy(), c.Stmts, in)
	case *syntax.BinaryCmd:
		return w.binary(s, c, in)
	case *syntax.IfClause:
		return w.branch(s, c, in)
	case *syntax.WhileClause:
		return w.while(s, c, in)
	case *syntax.ForClause:
		return w.forLoop(s, c, in)
	case *syntax.CaseClause:
		w.text(s, c.Word)
		start := s.copy()
		var out string
		for _, item := range c.Items {
			b := start.copy()
			out = w.concat(out, w.stmts(b, item.Stmts, in))
			s.merge(b)
		}
		return out
	case *syntax.FuncDecl:
		if c.Name != nil {
			s.define(c.Name.Value, c.Body)
		}
		for _, n := range c.Names {
			s.define(n.Value, c.Body)
		}
	case *syntax.DeclClause:
		hides := false
		for _, a := range c.Args {
			w.assign(s, a)
			switch {
			case a.Name == nil:
				o := w.text(s, a.Value)
				hides = hides || o == "-n" || o == "+x" // programs see it no longer
			case hides && a.Naked:
				s.tamper(a.Name.Value)
			}
		}
		w.blockKept(s, []string{c.Variant.Value})
	case *syntax.TimeClause:
		return w.stmt(s, c.Stmt, in)
	case *syntax.CoprocClause:
		return w.stmt(s.copy(), c.Stmt, in)
	case *syntax.TestClause:
		w.test(s, c.X, 0)
	case *syntax.ArithmCmd:
		w.arithm(s, c.X, 0)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			w.arithm(s, x, 0)
		}
	}
	return ""
}

// binary follows a chain of && and ||, or of pipes. The parser builds chains to
// the left, as deep as they are long: no recursion here.
func (w *walk) binary(s *state, c *syntax.BinaryCmd, in string) string {
	pipe := c.Op == syntax.Pipe || c.Op == syntax.PipeAll
	chain := []*syntax.BinaryCmd{c}
	first := c.X
	for {
		b, ok := first.Cmd.(*syntax.BinaryCmd)
		if !ok || len(first.Redirs) > 0 || (b.Op == syntax.Pipe || b.Op == syntax.PipeAll) != pipe {
			break
		}
		chain = append(chain, b)
		first = b.X
	}
	if pipe {
		out := w.stmt(s.copy(), first, in)
		for _, b := range slices.Backward(chain) {
			// An empty text would read as "no input at all".
			out = w.stmt(s.copy(), b.Y, orNewline(out))
			if w.over {
				break
			}
		}
		return out
	}
	was := s.dirs
	out := w.stmt(s, first, in)
	for _, b := range slices.Backward(chain) {
		if w.over {
			break
		}
		if b.Op == syntax.AndStmt {
			was = s.dirs
			out = w.concat(out, w.stmt(s, b.Y, in))
			continue
		}
		// Behind || the command before has failed: its cd did nothing.
		alt := s.copy()
		alt.dirs, alt.over = was, false
		out = w.concat(out, w.stmt(alt, b.Y, in))
		was = s.dirs
		s.merge(alt)
	}
	return out
}

func orNewline(s string) string {
	if s == "" {
		return "\n"
	}
	return s
}

func (w *walk) branch(s *state, c *syntax.IfClause, in string) string {
	out := w.stmts(s, c.Cond, in)
	other := s.copy()
	out = w.concat(out, w.stmts(s, c.Then, in))
	if c.Else != nil {
		out = w.concat(out, w.branch(other, c.Else, in))
	}
	s.merge(other)
	return out
}

// loop runs a body that may run any number of times. A second time shows what
// the first one's cd leads to.
func (w *walk) loop(s *state, body []*syntax.Stmt, in string) string {
	before := s.copy()
	out := w.stmts(s, body, in)
	if !slices.Equal(before.dirs, s.dirs) {
		w.stmts(s, body, in)
	}
	s.over = false
	s.merge(before)
	return out
}

// while follows a loop; one that reads lines which are known, line by line.
func (w *walk) while(s *state, c *syntax.WhileClause, in string) string {
	if len(c.Cond) == 1 && reads(c.Cond[0]) && known(in) != "" {
		lines := strings.Split(strings.TrimRight(in, "\n"), "\n")
		if len(lines) > maxItems {
			lines = append(slices.Clip(lines[:maxItems]), some)
		}
		var out string
		for _, l := range lines {
			w.stmts(s, c.Cond, l)
			out = w.concat(out, w.stmts(s, c.Do, ""))
			s.over = false
		}
		return out
	}
	out := w.stmts(s, c.Cond, in)
	return w.concat(out, w.loop(s, c.Do, in))
}

// reads says that a condition is read.
func reads(st *syntax.Stmt) bool {
	c, ok := st.Cmd.(*syntax.CallExpr)
	return ok && len(c.Args) > 0 && c.Args[0].Lit() == "read"
}

func (w *walk) forLoop(s *state, c *syntax.ForClause, in string) string {
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		if l, ok := c.Loop.(*syntax.CStyleLoop); ok {
			w.arithm(s, l.Init, 0)
			w.arithm(s, l.Cond, 0)
			w.arithm(s, l.Post, 0)
		}
		return w.loop(s, c.Do, in)
	}
	var items []string
	switch {
	case iter.InPos.IsValid():
		for _, word := range iter.Items {
			items = append(items, w.fields(s, word)...)
		}
	case s.known:
		items = s.args
	default:
		items = []string{some}
	}
	if len(items) > maxItems {
		items = append(slices.Clip(items[:maxItems]), some)
	}
	var out string
	before := s.copy()
	for _, item := range items {
		if iter.Name != nil {
			s.set(iter.Name.Value, []string{item})
		}
		out = w.concat(out, w.stmts(s, c.Do, in))
		s.over = false
		if w.over {
			break
		}
	}
	if !slices.Equal(before.dirs, s.dirs) {
		s.dirs = union(s.dirs, before.dirs)
	}
	return out
}

// call expands one simple command and runs it.
func (w *walk) call(s *state, c *syntax.CallExpr, in string) string {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			w.assign(s, a)
			if a.Name != nil {
				w.blockKept(s, []string{a.Name.Value + "="})
			}
		}
		return ""
	}
	argv := make([]string, 0, len(c.Args))
	for _, word := range c.Args {
		argv = append(argv, w.fields(s, word)...)
		if len(argv) > maxFields {
			w.over = true
			return some
		}
	}
	if len(c.Assigns) == 0 || len(argv) > 0 && argv[0] == "read" { // IFS= read -r line
		return w.exec(s, argv, in)
	}
	// X=1 command: seen by the command, gone afterwards.
	t := s.copy()
	for _, a := range c.Assigns {
		w.assign(t, a)
	}
	out := w.exec(t, argv, in)
	s.dirs = t.dirs
	return out
}

func (w *walk) assign(s *state, a *syntax.Assign) {
	if a.Name == nil {
		// declare "$x": may set anything, the text is a word like any other.
		if v := w.text(s, a.Value); strings.Contains(v, "=") {
			name, val, _ := strings.Cut(v, "=")
			w.setVar(s, name, []string{val})
		}
		return
	}
	name := a.Name.Value
	if a.Naked {
		return
	}
	var v []string
	switch {
	case a.Array != nil:
		if a.Append {
			v = slices.Clip(s.vars[name])
		}
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				v = append(v, w.fields(s, e.Value)...)
			}
		}
	case a.Value != nil:
		v = []string{w.text(s, a.Value)}
		if was := s.vars[name]; a.Append && len(was) == 1 {
			v[0] = w.concat(was[0], v[0])
		}
	default:
		v = []string{""}
	}
	if a.Index != nil {
		v = []string{some}
	}
	w.setVar(s, name, v)
}

func (w *walk) setVar(s *state, name string, v []string) {
	s.tamper(name)
	if !w.spend(len(v)) {
		return
	}
	s.set(name, v)
}

func (w *walk) test(s *state, x syntax.TestExpr, depth int) {
	if depth > 1000 || !w.spend(0) {
		w.over = true
		return
	}
	switch x := x.(type) {
	case *syntax.BinaryTest:
		w.test(s, x.X, depth+1)
		w.test(s, x.Y, depth+1)
	case *syntax.UnaryTest:
		w.test(s, x.X, depth+1)
	case *syntax.ParenTest:
		w.test(s, x.X, depth+1)
	case *syntax.Word:
		w.text(s, x)
	}
}

// arithm looks for commands inside of arithmetic.
func (w *walk) arithm(s *state, x syntax.ArithmExpr, depth int) {
	if depth > 1000 || !w.spend(0) {
		w.over = true
		return
	}
	switch x := x.(type) {
	case *syntax.BinaryArithm:
		w.arithm(s, x.X, depth+1)
		w.arithm(s, x.Y, depth+1)
	case *syntax.UnaryArithm:
		w.arithm(s, x.X, depth+1)
	case *syntax.ParenArithm:
		w.arithm(s, x.X, depth+1)
	case *syntax.FlagsArithm:
		w.arithm(s, x.X, depth+1)
	case *syntax.Word:
		w.text(s, x)
	}
}
