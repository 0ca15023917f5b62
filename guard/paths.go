package guard

import (
	"path"
	"slices"
	"strings"
)

// What cannot be known stands in values as one of these bytes. They are taken
// out of what the agent wrote (sanitize), so that it cannot write them itself.
const (
	unknown = '\x01' // any text
	unset   = '\x02' // a variable that nobody set: nothing, most likely
	plain   = '\x03' // some name that is not known: no slash, no ".."
)

// some is a value that is not known at all.
const some = string(unknown)

// doubtful says that s is not known, or not wholly.
func doubtful(s string) bool {
	return strings.IndexByte(s, unknown) >= 0 || strings.IndexByte(s, unset) >= 0
}

// sanitize bounds a text of the agent and takes out what stands for unknowns.
func sanitize(s string) string {
	s = clipped(s)
	if strings.IndexFunc(s, marker) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if marker(r) {
			return '?'
		}
		return r
	}, s)
}

func marker(r rune) bool { return r <= plain }

// where is a Place made ready for comparing.
type where struct {
	dir, cwd, home string
	temp           []string
	trees          []string // of the protected repository
	place          Place
}

func prepare(in Place) where {
	w := where{dir: clean(in.Dir), home: clean(in.Home), place: in}
	if in.Dir == "" {
		w.dir = some
	}
	if in.Home == "" {
		w.home = "/home/" + string(plain)
	}
	w.cwd = w.dir
	if in.Cwd != "" {
		w.cwd = clean(in.Cwd)
	}
	temp := in.Temp
	if temp == nil {
		temp = []string{"/tmp", "/private/tmp"}
		if t := in.Env["TMPDIR"]; path.IsAbs(t) {
			temp = append(temp, t)
		}
	}
	for _, t := range temp {
		if t = clean(t); t != "/" && t != "." {
			w.temp = append(w.temp, t)
		}
	}
	for _, t := range append([]string{in.Tree, in.Dir}, in.Repos...) {
		if t == "" {
			continue
		}
		t = clean(t)
		w.trees = append(w.trees, t)
		if top, ok := strings.CutSuffix(t, "/.git"); ok && top != "" {
			w.trees = append(w.trees, top)
		}
	}
	return w
}

func clean(p string) string { return path.Clean(sanitize(p)) }

// below says that p is dir or inside.
func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir) && (dir == "/" || p[len(dir)] == '/')
}

// inTemp says that p is strictly inside of a directory for temporary files.
func (w *where) inTemp(p string) bool {
	return slices.ContainsFunc(w.temp, func(t string) bool { return p != t && below(p, t) })
}

// protected says that p is in the protected repository.
func (w *where) protected(p string) bool {
	return slices.ContainsFunc(w.trees, func(t string) bool { return below(p, t) })
}

// resolve makes p absolute; some when that cannot be done. A variable that
// nobody set counts as nothing: `rm -rf "$X/"` with X unset deletes /.
func resolve(dir, p string) string {
	had := strings.IndexByte(p, unset) >= 0
	if had {
		p = strings.ReplaceAll(p, string(unset), "")
	}
	switch {
	case p == "" && had, strings.HasPrefix(p, some):
		return some
	case strings.IndexByte(p, unknown) >= 0 && strings.Contains(p, ".."):
		return some
	case path.IsAbs(p):
		return path.Clean(p)
	case strings.IndexByte(dir, unknown) >= 0:
		return some
	}
	return path.Clean(dir + "/" + p)
}

// base is the name of a program: without its path, in lower case (macOS and
// Windows do not tell the cases apart) and without ".exe".
func base(arg string) string {
	if i := strings.LastIndexAny(arg, `/\`); i >= 0 {
		arg = arg[i+1:]
	}
	for i := range len(arg) {
		if c := arg[i]; c >= 'A' && c <= 'Z' {
			arg = strings.ToLower(arg)
			break
		}
	}
	return strings.TrimSuffix(arg, ".exe")
}
