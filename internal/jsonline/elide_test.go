package jsonline

import (
	"bytes"
	"encoding/json"
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
	for _, c := range []struct {
		name, begin, unit, end string
		n                      int
	}{
		{"80 MB string", `{"a":"`, "x", `","type":"end"}`, 80 * mb},
		{"escapes", `{"a":"`, `\n`, `","type":"end"}`, 3 * mb},
		{"escaped quotes", `{"a":"`, `\"`, `","type":"end"}`, 3 * mb},
		{"escaped backslashes", `{"a":"`, `\\`, `","type":"end"}`, 3 * mb},
		{"many numbers", `{"a":[0`, ",1", `],"type":"end"}`, 3 * mb},
		{"many strings", `{"a":[0`, `,"` + strings.Repeat("y", 2000) + `"`, `],"type":"end"}`, 5000},
		{"a long number", `{"a":1`, "1", `,"type":"end"}`, 5 * mb},
		{"white space", `{"a":"` + strings.Repeat("x", 2000) + `",`, " ", `"type":"end"}`, 5 * mb},
		{"deep", `{"a":`, `{"` + strings.Repeat("k", 1000) + `":`, "1" + strings.Repeat("}", 9000) + `,"type":"end"}`, 9000},
		{"many members", `{"type":"end"`, `,"k":"` + strings.Repeat("z", 1024) + `"`, `}`, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e Elider
			e.Write([]byte(c.begin))
			chunk := []byte(strings.Repeat(c.unit, max(1, 64<<10/len(c.unit))))
			for left := c.n * len(c.unit); left > 0; left -= min(left, len(chunk)) {
				e.Write(chunk[:min(left, len(chunk))])
			}
			e.Write([]byte(c.end))
			got, elided := e.Line()
			if !elided || len(got) > MaxElided || cap(e.out) > 2*MaxElided || !json.Valid(got) {
				t.Fatalf("%d bytes (%d held), valid %v, elided %v", len(got), cap(e.out), json.Valid(got), elided)
			}
			if !Is(Get(got, "type"), "end") {
				t.Error("the type is lost")
			}
		})
	}
	for name, s := range map[string]string{
		"text": strings.Repeat("no json ", 1000), "too deep": strings.Repeat("[", mb), "cut off": `{"a":"` + strings.Repeat("x", mb), "two": `{} {}`,
	} {
		got, _ := elide(64<<10, []byte(s))
		if len(got) > rawHead || !strings.HasPrefix(s, string(got)) {
			t.Errorf("%s: %d bytes", name, len(got))
		}
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
			// What is cut away is not judged.
			if !bytes.HasPrefix(b, got) && !(elided && json.Valid(got)) {
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
