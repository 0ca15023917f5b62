package tui

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Wrap breaks a line of more than width columns between words; what follows is
// indented by two more than the line. A terminal would break inside a word. Every
// rune counts as one column and colour as none. A word that is too long stays
// whole: it is a path or a command, and to be copied. 0 or less is no limit.
func Wrap(line string, width int) string {
	if width <= 0 || columns(line) <= width {
		return line
	}
	indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " ")))
	var b strings.Builder
	b.WriteString(indent)
	at, first := len(indent), true
	for word := range strings.SplitSeq(line[len(indent):], " ") {
		n := columns(word)
		switch {
		case first:
		case at+1+n > width:
			b.WriteString("\n  " + indent)
			at = len(indent) + 2
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at, first = at+n, false
	}
	return b.String()
}

// columns of a line that may have colours of package tui in it.
func columns(s string) int {
	n, escape := 0, false
	for _, r := range s {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			n++
		}
	}
	return n
}

// Width of the terminal that w is, 0 when it is none.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil || n < 20 {
		return 0
	}
	return n
}
