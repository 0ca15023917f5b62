package jsonline

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Limits of an Elider.
const (
	MaxString = 1 << 10 // bytes of one string, as written
	MaxElided = 4 << 20 // bytes of the whole line
)

const (
	// room is kept for the members of the outermost object that follow a large
	// one, and for what closes the containers.
	room = 1 << 18
	// maxDepth is what encoding/json takes.
	maxDepth  = 10_000
	maxScalar = 64
	rawHead   = 1 << 10
)

// Elider makes a short line of JSON out of a long one that is fed to it in
// chunks: every string is cut to its first MaxString bytes, outside of escapes
// and characters; a number of more than 64 bytes becomes null; white space
// goes. What would still make it longer than MaxElided is left out: first the
// rest of what is inside the outermost object, whose own members stay as long
// as there is room, because the type of a line may stand at its end.
//
// It makes one pass and holds little more than MaxElided bytes. The zero value
// is ready for one line.
type Elider struct {
	out   []byte
	raw   []byte // the first bytes as they came, for a line that is no JSON
	size  int64
	state state
	bad   bool // the line is no JSON
	cut   bool // something was left out

	kinds []byte // '{' or '[' of each container that is open in the line
	shown int    // how many of them, from the outermost, are open in out
	full  bool   // the outermost container has no more room

	key     bool // the string is a key
	copying bool // its content goes to out
	strAt   int  // where that begins in out
	esc     int  // 1: after a backslash; 2..5: after \u, so many digits and 2
	escAt   int  // where the escape begins in out
	pairAt  int  // where the last first half of a surrogate pair begins in out
	unit    rune // the \u that is being read
	scalar  []byte
}

type state uint8

const (
	wantValue    state = iota
	wantFirst          // a value or the end of the array
	wantKey            // a key
	wantFirstKey       // a key or the end of the object
	wantColon
	wantComma // or the end of the container
	inString
	inScalar
	over // the outermost value is complete
)

// Write takes the next bytes of the line, without its newline.
func (e *Elider) Write(p []byte) {
	e.size += int64(len(p))
	if n := rawHead - len(e.raw); n > 0 {
		e.raw = append(e.raw, p[:min(n, len(p))]...)
	}
	for len(p) > 0 && !e.bad {
		n := 1
		switch {
		case e.state == inScalar:
			n = e.word(p)
		case e.state != inString:
			e.token(p[0])
		case e.copying:
			n = e.copyString(p)
		default:
			n = e.skipString(p)
		}
		p = p[n:]
	}
}

// Line returns what is left of the line, and whether anything was left out; it
// is called once, after the last Write. A line that is no JSON is its first
// KiB as it came.
func (e *Elider) Line() (b []byte, elided bool) {
	if e.state == inScalar && !e.bad {
		e.endScalar()
	}
	if e.bad || e.state != over {
		return e.raw, e.size > int64(len(e.raw))
	}
	return e.out, e.cut
}

// writing says that what comes now goes to out.
func (e *Elider) writing() bool { return e.shown == len(e.kinds) && !e.full }

func (e *Elider) put(s string) {
	if e.writing() {
		e.out = append(e.out, s...)
	}
}

func (e *Elider) token(c byte) {
	if c == ' ' || c == '\t' || c == '\r' || c == '\n' {
		return
	}
	value := false
	switch e.state {
	case wantComma:
		switch c {
		case ',':
			e.comma()
		case '}', ']':
			e.close(c)
		default:
			e.bad = true
		}
	case wantColon:
		e.bad = c != ':'
		e.put(":")
		e.state = wantValue
	case wantFirstKey, wantKey:
		switch {
		case c == '"':
			e.begin(true)
		case c == '}' && e.state == wantFirstKey:
			e.close(c)
		default:
			e.bad = true
		}
	case wantFirst:
		if c == ']' {
			e.close(c)
			return
		}
		value = true
	case wantValue:
		value = true
	default: // something after the end
		e.bad = true
	}
	if !value {
		return
	}
	switch {
	case c == '"':
		e.begin(false)
	case c == '{' || c == '[':
		e.open(c)
	case c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
		e.scalar, e.state = append(e.scalar[:0], c), inScalar
	default:
		e.bad = true
	}
}

// comma comes between two members, where a cut leaves what is before it whole.
func (e *Elider) comma() {
	e.state = wantValue
	if e.kinds[len(e.kinds)-1] == '{' {
		e.state = wantKey
	}
	switch {
	case !e.writing():
	case len(e.kinds) == 1 && len(e.out) > MaxElided-2*MaxString-maxScalar:
		e.full, e.cut = true, true
	case len(e.kinds) > 1 && len(e.out) > MaxElided-room:
		for e.shown > 1 {
			e.hide()
		}
		e.cut = true
	default:
		e.out = append(e.out, ',')
	}
}

// hide closes the innermost container that is open in out.
func (e *Elider) hide() {
	e.shown--
	e.out = append(e.out, e.kinds[e.shown]+2) // '{'+2 is '}', '['+2 is ']'
}

func (e *Elider) open(c byte) {
	if len(e.kinds) >= maxDepth {
		e.bad = true
		return
	}
	switch {
	case !e.writing():
	case len(e.out) > MaxElided-room:
		e.out, e.cut = append(e.out, "null"...), true
	default:
		e.out = append(e.out, c)
		e.shown++
	}
	e.kinds = append(e.kinds, c)
	e.state = wantFirst
	if c == '{' {
		e.state = wantFirstKey
	}
}

func (e *Elider) close(c byte) {
	last := len(e.kinds) - 1
	if last < 0 || e.kinds[last]+2 != c {
		e.bad = true
		return
	}
	if e.shown > last {
		e.hide()
	}
	e.kinds = e.kinds[:last]
	e.value()
}

// value comes after each complete value.
func (e *Elider) value() {
	e.state = wantComma
	if len(e.kinds) == 0 {
		e.state = over
	}
}

func (e *Elider) begin(key bool) {
	e.key, e.copying, e.esc, e.pairAt, e.state = key, e.writing(), 0, -1, inString
	e.put(`"`)
	e.strAt = len(e.out)
}

func (e *Elider) endString() {
	e.put(`"`)
	if e.key {
		e.state = wantColon
		return
	}
	e.value()
}

// copyString copies the string up to its limit and returns how much of p it
// took.
func (e *Elider) copyString(p []byte) int {
	for i, c := range p {
		switch {
		case e.esc > 0:
			e.out = append(e.out, c)
			e.escape(c)
		case c == '"':
			e.endString()
			return i + 1
		case c == '\\':
			e.escAt, e.esc, e.unit = len(e.out), 1, 0
			e.out = append(e.out, c)
		case c < ' ':
			e.bad = true
		default:
			e.out = append(e.out, c)
			if len(e.out)-e.strAt > MaxString {
				e.cutString(e.strAt + MaxString)
			}
		}
		if e.bad || !e.copying {
			return i + 1
		}
	}
	return len(p)
}

// escape takes the next byte of an escape.
func (e *Elider) escape(c byte) {
	if e.esc == 1 {
		switch c {
		case 'u':
			e.esc = 2
			return
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		default:
			e.bad = true
		}
	} else {
		switch {
		case c >= '0' && c <= '9':
			e.unit = e.unit<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			e.unit = e.unit<<4 | rune(c|0x20-'a'+10)
		default:
			e.bad = true
		}
		if e.esc++; e.esc < 6 {
			return
		}
		if e.unit >= 0xD800 && e.unit < 0xDC00 {
			e.pairAt = e.escAt
		}
	}
	e.esc = 0
	if len(e.out)-e.strAt > MaxString {
		e.cutString(e.escAt)
	}
}

// cutString ends the string in out at n, or before that when a character or
// the half of a surrogate pair would be left.
func (e *Elider) cutString(n int) {
	e.out, e.copying, e.cut = e.out[:n], false, true
	if e.pairAt >= e.strAt && e.pairAt+len(`\uD800`) == n {
		e.out = e.out[:e.pairAt]
		return
	}
	for k := 1; k < utf8.UTFMax && n-k >= e.strAt; k++ {
		if tail := e.out[n-k:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				e.out = e.out[:n-k]
			}
			break
		}
	}
}

// skipString looks for the end of the string and returns how much of p it
// took. Between quotes and backslashes it runs at the speed of memory.
func (e *Elider) skipString(p []byte) int {
	i := 0
	quote := -1 // the next one, at i or later
	for i < len(p) {
		if e.esc > 0 {
			e.esc = 0
			i++
			continue
		}
		// The quote that was found stays good while backslashes before it are
		// passed: looking anew each time would be quadratic.
		if quote < i {
			quote = bytes.IndexByte(p[i:], '"')
			if quote < 0 {
				quote = len(p)
			} else {
				quote += i
			}
		}
		if b := bytes.IndexByte(p[i:quote], '\\'); b >= 0 {
			i += b + 1
			e.esc = 1
			continue
		}
		if quote == len(p) {
			return len(p)
		}
		e.endString()
		return quote + 1
	}
	return i
}

// word takes a number, true, false or null.
func (e *Elider) word(p []byte) int {
	for i, c := range p {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.' {
			if len(e.scalar) <= maxScalar {
				e.scalar = append(e.scalar, c)
			}
			continue
		}
		e.endScalar()
		return i
	}
	return len(p)
}

func (e *Elider) endScalar() {
	switch {
	case len(e.scalar) > maxScalar && e.scalar[0] <= '9':
		// No number is that long but one that is meant to be a burden.
		e.put("null")
		e.cut = true
	case !json.Valid(e.scalar):
		e.bad = true
		return
	default:
		if e.writing() {
			e.out = append(e.out, e.scalar...)
		}
	}
	e.value()
}
