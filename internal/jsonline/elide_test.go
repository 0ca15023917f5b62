package jsonline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func elide(chunk int, line []byte) ([]byte, bool) {
	var e Elider
	for len(line) > 0 {
		n := min(chunk, len(line))
		e.Write(line[:n])
		line = line[n:]
	}
	return e.Line()
}

func TestElideShortIsCompact(t *testing.T) {
	for _, s := range []string{
		`{}`, `[]`, `{"a":[]}`, ` { "a" : [ 1 , -2.5e+3 , true , false , null , "x\"\\\u00e9é" ] , "b" : { } } `, `"x"`, `12`,
	} {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(s)); err != nil {
			t.Fatal(err)
		}
		for chunk := 1; chunk <= len(s); chunk++ {
			if got, elided := elide(chunk, []byte(s)); string(got) != want.String() || elided {
				t.Errorf("%s in chunks of %d: %s %v", s, chunk, got, elided)
			}
		}
	}
}

func TestElideStrings(t *testing.T) {
	pad := func(n int) string { return strings.Repeat("a", n) }
	for name, c := range map[string]struct{ in, want string }{
		"exact":          {pad(MaxString), pad(MaxString)},
		"one more":       {pad(MaxString + 1), pad(MaxString)},
		"escape":         {pad(MaxString-1) + `\n` + "b", pad(MaxString - 1)},
		"unicode escape": {pad(MaxString-3) + `\u00e9b`, pad(MaxString - 3)},
		"half a pair":    {pad(MaxString-6) + `\ud83d\ude00b`, pad(MaxString - 6)},
		"whole pair":     {pad(MaxString-12) + `\ud83d\ude00b`, pad(MaxString-12) + `\ud83d\ude00`},
		"character":      {pad(MaxString-2) + "日本", pad(MaxString - 2)},
		"whole char":     {pad(MaxString-3) + "日本", pad(MaxString-3) + "日"},
		"quotes":         {strings.Repeat(`\"`, MaxString), strings.Repeat(`\"`, MaxString/2)},
		"backslash last": {pad(MaxString) + `\\`, pad(MaxString)},
	} {
		line := []byte(`{"s":"` + c.in + `","type":"x"}`)
		want := `{"s":"` + c.want + `","type":"x"}`
		for _, chunk := range []int{1, 2, 3, 7, 1000, len(line)} {
			got, elided := elide(chunk, line)
			if string(got) != want || elided != (c.in != c.want) {
				t.Errorf("%s in chunks of %d: …%s %v", name, chunk, got[max(0, len(got)-60):], elided)
			}
		}
	}
}

// What an agent may do to be a burden, and the type stands at the end.
func TestElideHostile(t *testing.T) {
	const mb = 1 << 20
	for name, s := range map[string]string{
		"80 MB string":      strings.Repeat("x", 80*mb),
		"escapes":           strings.Repeat(`\n`, 8*mb),
		"escaped quotes":    strings.Repeat(`\"`, 8*mb),
		"escaped backslash": strings.Repeat(`\\`, 8*mb),
	} {
		testBig(t, name, `{"a":"`+s+`","type":"end"}`)
	}
	testBig(t, "many numbers", `{"a":[`+strings.Repeat("1,", 8*mb)+`1],"type":"end"}`)
	testBig(t, "many strings", `{"a":[`+strings.Repeat(`"`+strings.Repeat("y", 2000)+`",`, 8000)+`1],"type":"end"}`)
	testBig(t, "long number", `{"a":`+strings.Repeat("1", 8*mb)+`,"type":"end"}`)
	testBig(t, "white space", `{`+strings.Repeat(" ", 8*mb)+`"type":"end"}`)
	deep := 9000
	testBig(t, "deep", `{"a":`+strings.Repeat(`{"`+strings.Repeat("k", 1000)+`":`, deep)+"1"+strings.Repeat("}", deep)+`,"type":"end"}`)

	// Too many members in the outermost object: the rest goes, it stays JSON.
	var b strings.Builder
	b.WriteString(`{"type":"begin"`)
	for i := range 8000 {
		fmt.Fprintf(&b, `,"k%d":"%s"`, i, strings.Repeat("z", 1024))
	}
	b.WriteString(`}`)
	got, elided := elide(64<<10, []byte(b.String()))
	if !elided || len(got) > MaxElided || !json.Valid(got) || !Is(Get(got, "type"), "begin") {
		t.Errorf("members: %d bytes, valid %v", len(got), json.Valid(got))
	}

	for name, s := range map[string]string{
		"text": strings.Repeat("no json ", mb), "too deep": strings.Repeat("[", 8*mb), "cut off": `{"a":"` + strings.Repeat("x", mb), "two": `{} {}`,
	} {
		got, _ := elide(64<<10, []byte(s))
		if len(got) > rawHead || !strings.HasPrefix(s, string(got)) {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
}

func testBig(t *testing.T, name, s string) {
	t.Helper()
	got, elided := elide(64<<10, []byte(s))
	if len(got) > MaxElided || !json.Valid(got) {
		t.Errorf("%s: %d bytes, valid %v", name, len(got), json.Valid(got))
		return
	}
	if !Is(Get(got, "type"), "end") {
		t.Errorf("%s: the type at the end is lost", name)
	}
	if !elided && len(s) > len(got) && name != "white space" {
		t.Errorf("%s: not told as elided", name)
	}
}

func FuzzElide(f *testing.F) {
	for _, s := range []string{
		`{"a":"\ud83d\ude00","b":[1,{"c":null}]}`, `[[],{}]`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,]`, `{"a"}`, `"\u12`, `01`, `{}{}`, `]`, "\"\xff\"", `tru`, `{"a":1]`,
		`"` + strings.Repeat("é", 600) + `"`,
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, chunk int) {
		if bytes.IndexByte(b, '\n') >= 0 {
			return
		}
		got, elided := elide(max(1, chunk), b)
		one, elidedOne := elide(len(b)+1, b)
		if !bytes.Equal(got, one) || elided != elidedOne {
			t.Fatalf("chunks make a difference: %q and %q", got, one)
		}
		if !json.Valid(b) {
			if !bytes.HasPrefix(b, got) {
				t.Fatalf("no JSON, and not its head: %q", got)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("made %q of %q", got, b)
		}
		if !elided {
			var want bytes.Buffer
			json.Compact(&want, b)
			if got, want := got, want.Bytes(); !bytes.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
		} else if utf8.Valid(b) && !utf8.Valid(got) {
			t.Fatalf("a character was cut: %q", got)
		}
	})
}

func BenchmarkElide(b *testing.B) {
	line := []byte(`{"type":"user","message":{"content":[{"type":"tool_result","content":"` + strings.Repeat(strings.Repeat("some output of a tool, ", 40)+`\n`, 8000) + `"}]}}`)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		elide(64<<10, line)
	}
}
