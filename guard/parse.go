package guard

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

// The parser is recursive, and a stack that overflows ends a Go program: it
// cannot be recovered from. Depth cannot be counted in the text (quotes and
// here-documents hide and fake brackets), but the parser reads 1 KiB at a time
// from where it stands, so its reader can look how deep that is.
const (
	maxFrames = 3000
	// A chain of 300,000 pipes took the parser (v3.14.1) two seconds.
	parseChunk = 1 << 10
)

var errParse = errors.New("too deep or too long to parse")

type source struct {
	text  string
	until time.Time
}

func (r *source) Read(p []byte) (int, error) {
	var pc [1]uintptr
	if runtime.Callers(maxFrames, pc[:]) > 0 || time.Now().After(r.until) {
		return 0, errParse
	}
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}

// parse reads text as bash, and where it is none as one of the other shells. It
// returns what it could read, since a shell runs the lines before the one that
// it does not understand, and whether that is everything.
func parse(text string, limit time.Duration) (stmts []*syntax.Stmt, whole bool) {
	for _, lang := range [...]syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX, syntax.LangMirBSDKorn, syntax.LangZsh} {
		p := syntax.NewParser(syntax.Variant(lang))
		var got []*syntax.Stmt
		var err error
		for st, e := range p.StmtsSeq(&source{text, time.Now().Add(limit)}) {
			if e != nil {
				err = e
				break
			}
			got = append(got, st)
		}
		if err == nil {
			return got, true
		}
		if len(got) > len(stmts) {
			stmts = got
		}
		if errors.Is(err, errParse) {
			break
		}
	}
	return stmts, false
}

// segments cuts text into commands and words by what separates them, with no
// regard to quotes: for text that no parser understood.
func segments(text string, each func(argv []string) bool) {
	var argv []string
	flush := func() bool {
		if len(argv) == 0 {
			return true
		}
		ok := each(argv)
		argv = nil
		return ok
	}
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			if len(argv) < maxFields {
				argv = append(argv, word.String())
			}
			word.Reset()
		}
	}
	for i := range len(text) {
		switch c := text[i]; c {
		case ' ', '\t', '\r':
			end()
		case '\n', ';', '&', '|', '(', ')', '{', '}', '`', '<', '>', ',':
			end()
			if !flush() {
				return
			}
		case '\'', '"', '\\', '^':
			// \git, g"i"t, and ^ of cmd.exe
			if c == '\\' && i+1 < len(text) && isPathByte(text[i+1]) && word.Len() > 0 {
				word.WriteByte(c)
			}
		case unknown, unset, plain:
			word.WriteByte('?')
		default:
			if word.Len() < 4096 {
				word.WriteByte(c)
			}
		}
	}
	end()
	flush()
}

func isPathByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '_'
}
