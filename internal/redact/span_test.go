package redact_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rein-run/rein/internal/redact"
)

var spanEnv = map[string]string{
	"A_TOKEN":  "sk-abcdefgh",
	"B_TOKEN":  "sk-abcdefgh-longer",
	"C_SECRET": `pa"ss\word`,
	"D_SECRET": "abcabcabX",
	"E_KEY":    "line one\nline two",
}

// apply reads text in pieces of n bytes, as a viewer reads a file.
func apply(r *redact.Redactor, text string, n int) string {
	var out strings.Builder
	at, have := 0, 0
	for {
		have = min(have+n, len(text))
		last := have == len(text)
		spans, decided := r.Find([]byte(text[at:have]), int64(at), last)
		end := at + decided
		for _, s := range spans {
			out.WriteString(text[at:s.At])
			out.WriteString(redact.Mark(s.Name))
			at = int(s.End())
		}
		out.WriteString(text[at:end])
		if at = end; last {
			return out.String()
		}
	}
}

func TestFind(t *testing.T) {
	r := redact.New(spanEnv)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"nothing", "nothing"},
		{"the key sk-abcdefgh was", "the key [A_TOKEN] was"},
		{"sk-abcdefgh-longer", "[B_TOKEN]"},
		{"sk-abcdefgh-long", "[A_TOKEN]-long"},
		{`{"v":"pa\"ss\\word"}`, `{"v":"[C_SECRET]"}`},
		{"sk-abcdefghsk-abcdefgh", "[A_TOKEN][A_TOKEN]"},
		{"abcabcabcabX", "abc[D_SECRET]"},
		{"x line one\nline two y", "x [E_KEY] y"},
		{`"line one\nline two"`, `"[E_KEY]"`},
		{"sk-abcdefg", "sk-abcdefg"},
	} {
		for n := 1; n <= len(c.in)+1; n++ {
			if got := apply(r, c.in, n); got != c.want {
				t.Errorf("in pieces of %d: %q became %q, want %q", n, c.in, got, c.want)
			}
		}
	}
}

// However a text is cut into pieces, no value is seen.
func TestFindInPieces(t *testing.T) {
	r := redact.New(spanEnv)
	var values []string
	for _, v := range spanEnv {
		values = append(values, v)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b strings.Builder
		for range 6 {
			v := values[rnd.IntN(len(values))]
			b.WriteString(v[:1+rnd.IntN(len(v))])
		}
		got := apply(r, b.String(), 1+rnd.IntN(12))
		for _, v := range values {
			if strings.Contains(got, v) {
				t.Fatalf("%q became %q", b.String(), got)
			}
		}
	}
}

func TestNames(t *testing.T) {
	r := redact.New(map[string]string{"A_TOKEN": "one-and-the-same", "B_TOKEN": "one-and-the-same", "SHORT_TOKEN": "x", "HOME": "/home/somebody"})
	if got := strings.Join(r.Names(), " "); got != "A_TOKEN B_TOKEN" {
		t.Errorf("names %s", got)
	}
	if r.Longest() != len("one-and-the-same") {
		t.Errorf("longest %d", r.Longest())
	}
}
