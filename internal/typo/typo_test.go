package typo

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "ab", 2},
		{"claude", "claude", 0},
		{"cluade", "claude", 1},
		{"totl", "total", 1},
		{"codx", "codex", 1},
		{"kitten", "sitting", 3},
		{"ca", "abc", 3},
		{strings.Repeat("a", 65), "a", 65},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
