package guard

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rein-run/rein/agent"
)

// maxFrames is how deep the parser may stand. It is recursive, and a stack that
// overflows ends a Go program: that cannot be recovered from. Depth cannot be
// counted in the text (quotes and here-documents hide and fake brackets), but
// the parser reads 1 KiB at a time from where it stands, so its reader can look
// how deep that is.
const maxFrames = 3000

// parseTime bounds the parsing of what is longer than one argument may be
// (agent.MaxArg), so that no clock decides over anything that a shell can be
// given by -c: 1 MiB of `a|a|…` took v3.14.1 of the parser 5 s, 128 KiB of it
// 0.6 s.
const parseTime = 2 * time.Second

var errParse = errors.New("too deep or too long to parse")

type source struct {
	text  string
	read  int
	until time.Time // zero: no limit
}

func (r *source) Read(p []byte) (int, error) {
	// Every level costs at least a byte: the first 4 KiB cannot be too deep, and
	// most commands end there.
	if r.read >= 4<<10 {
		var pc [1]uintptr
		if runtime.Callers(maxFrames, pc[:]) > 0 || !r.until.IsZero() && time.Now().After(r.until) {
			return 0, errParse
		}
	}
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	r.read += n
	return n, nil
}

// parse reads text as bash, and where it is none as one of the other shells. It
// returns what it could read, since a shell runs the lines before the one that
// it does not understand, and whether that is everything.
func parse(text string) (stmts []*syntax.Stmt, whole bool) {
	r := source{text: text}
	if len(text) >= agent.MaxArg {
		r.until = time.Now().Add(parseTime)
	}
	for _, lang := range [...]syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX, syntax.LangMirBSDKorn, syntax.LangZsh} {
		var got []*syntax.Stmt
		var err error
		in := r
		// No break: v3.14.1 goes on after it when the text is not valid UTF-8,
		// and a range that is continued after its end panics.
		for st, e := range syntax.NewParser(syntax.Variant(lang)).StmtsSeq(&in) {
			if err == nil {
				err = e
			}
			if err == nil && st != nil {
				got = append(got, st)
			}
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
func segments(text string, each func(argv []string)) {
	var argv []string
	flush := func() {
		if len(argv) > 0 {
			each(argv)
		}
		argv = nil
	}
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			argv = append(argv, word.String())
			word.Reset()
		}
	}
	for i := range len(text) {
		switch c := text[i]; c {
		case ' ', '\t', '\r':
			end()
		case '\n', ';', '&', '|', '(', ')', '{', '}', '`', '<', '>', ',':
			end()
			flush()
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
