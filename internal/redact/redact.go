// Package redact replaces known secret values in everything that Rein derives
// from what an agent wrote: reports, events, errors, lines on a screen. The
// transcript is not derived and is never touched.
package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// minLen keeps short values ("1", "true", "dev") from eating ordinary text.
const minLen = 8

// Redactor replaces values by their names. The zero value replaces nothing. It
// is safe for concurrent use.
type Redactor struct {
	r     *strings.Replacer
	marks []pattern // longest first
	names []string
}

// pattern is a value as it may stand in a text, and what is shown for it.
type pattern struct {
	text []byte
	name string
}

// New makes a Redactor for the variables in env that hold secrets: those named
// in names, and those whose own name says so. A value that stands under two
// names is shown under the first in sorted order.
func New(env map[string]string, names ...string) *Redactor {
	r := &Redactor{}
	type pair struct{ value, name string }
	var pairs []pair
	seen := map[string]bool{}
	keys := make([]string, 0, len(env))
	for k := range env {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		v := env[k]
		if len(v) < minLen || !(slices.Contains(names, k) || Secret(k)) {
			continue
		}
		r.names = append(r.names, k)
		if !seen[v] {
			seen[v] = true
			pairs = append(pairs, pair{v, k})
		}
	}
	if len(pairs) == 0 {
		return r
	}
	// Longest first: of two secrets that share a beginning the whole one goes.
	slices.SortStableFunc(pairs, func(a, b pair) int { return len(b.value) - len(a.value) })
	var oldnew []string
	add := func(value, name string) {
		r.marks = append(r.marks, pattern{[]byte(value), name})
		oldnew = append(oldnew, value, Mark(name))
	}
	for _, p := range pairs {
		add(p.value, p.name)
		// The same value inside JSON text that was not decoded.
		for _, html := range []bool{true, false} {
			if esc := escaped(p.value, html); esc != p.value {
				add(esc, p.name)
			}
		}
	}
	slices.SortStableFunc(r.marks, func(a, b pattern) int { return len(b.text) - len(a.text) })
	r.r = strings.NewReplacer(oldnew...)
	return r
}

// escaped is the value as it stands between the quotes of a JSON string. Go
// escapes <, > and & too, other writers do not.
func escaped(value string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if enc.Encode(value) != nil {
		return value
	}
	s := strings.TrimSuffix(b.String(), "\n")
	return s[1 : len(s)-1]
}

// Mark is what is shown in the place of a value.
func Mark(name string) string { return "[" + name + "]" }

// Names are the variables whose values are replaced, sorted.
func (r *Redactor) Names() []string {
	if r == nil {
		return nil
	}
	return r.names
}

// Secret says whether the name of a variable says that its value is a secret.
func Secret(name string) bool {
	n := strings.ToUpper(name)
	if strings.HasPrefix(n, "GIT_CONFIG_KEY_") {
		return false // the name of a setting; its value stands in GIT_CONFIG_VALUE_…
	}
	for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PASSPHRASE"} {
		if i := strings.Index(n, word); i >= 0 {
			// KEYBOARD, MONKEY: the word must end where it ends or at "_" / "S".
			rest := n[i+len(word):]
			if rest == "" || rest[0] == '_' || rest == "S" || strings.HasPrefix(rest, "S_") {
				return true
			}
		}
	}
	return false
}

// String redacts s.
func (r *Redactor) String(s string) string {
	if r == nil || r.r == nil || s == "" {
		return s
	}
	return r.r.Replace(s)
}
