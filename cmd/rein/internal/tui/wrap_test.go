package tui

import "testing"

func TestWrap(t *testing.T) {
	red := paint(true).red("one two three")
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"short", 10, "short"},
		{"one two three", 13, "one two three"},
		{"one two three", 12, "one two\n  three"},
		{"one two three", 0, "one two three"},
		{"one two three four", 9, "one two\n  three\n  four"},
		{"  ✗ größe: one two", 12, "  ✗ größe:\n    one two"},
		{red, 13, red},
		{red, 12, "\x1b[31mone two\n  three\x1b[0m"},
		{"see /a/path/that/is/longer/than/all of it", 12, "see\n  /a/path/that/is/longer/than/all\n  of it"},
		{"a  b", 3, "a \n  b"},
	} {
		if got := Wrap(c.in, c.width); got != c.want {
			t.Errorf("%q at %d: %q, want %q", c.in, c.width, got, c.want)
		}
	}
}
