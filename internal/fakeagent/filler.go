package fakeagent

import (
	"bytes"
	"fmt"
)

// serial is a name with a number of ten digits, which patch can replace.
func serial(name string, n int) string { return fmt.Sprintf("%s%010d", name, n) }

// patch writes n over every serial of name in p, in place.
func patch(p []byte, name string, n int) {
	digits := fmt.Appendf(nil, "%010d", n)
	for at := 0; ; {
		i := bytes.Index(p[at:], []byte(name))
		if i < 0 {
			return
		}
		at += i + len(name)
		copy(p[at:], digits)
	}
}

// padTo replaces mark by as much text as makes the line size bytes long. A line
// that is longer without any stays as long as it is.
func padTo(line, mark []byte, size int) []byte {
	n := max(0, size-(len(line)-len(mark)))
	return bytes.Replace(line, mark, bytes.Repeat([]byte("x"), n), 1)
}
