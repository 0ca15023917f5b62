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
	r *strings.Replacer
}

// New makes a Redactor for the variables in env that hold secrets: those named
// in names, and those whose own name says so. A value that stands under two
// names is shown under the first in sorted order.
func New(env map[string]string, names ...string) *Redactor {
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
		if len(v) < minLen || seen[v] || !(slices.Contains(names, k) || Secret(k)) {
			continue
		}
		seen[v] = true
		pairs = append(pairs, pair{v, k})
	}
	if len(pairs) == 0 {
		return &Redactor{}
	}
	// Longest first: of two secrets that share a beginning the whole one goes.
	slices.SortStableFunc(pairs, func(a, b pair) int { return len(b.value) - len(a.value) })
	var oldnew []string
	for _, p := range pairs {
		mark := "[" + p.name + "]"
		oldnew = append(oldnew, p.value, mark)
		// The same value inside JSON text that was not decoded.
		if q, err := json.Marshal(p.value); err == nil {
			if esc := string(bytes.Trim(q, `"`)); esc != p.value {
				oldnew = append(oldnew, esc, mark)
			}
		}
	}
	return &Redactor{strings.NewReplacer(oldnew...)}
}

// Secret says whether the name of a variable says that its value is a secret.
func Secret(name string) bool {
	n := strings.ToUpper(name)
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
