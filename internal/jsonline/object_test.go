package jsonline

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	const line = ` { "x" : "a\"b\\" , "n":{"y":[1,{"z":"}"}],"type":"in"} , "e\u0041":1, "type" : "out", "last": -1.5e3 } `
	for path, want := range map[string]string{
		"type": `"out"`, "n/type": `"in"`, "x": `"a\"b\\"`, "n/y": `[1,{"z":"}"}]`, "last": `-1.5e3`, "none": "", "x/y": "", "n/none": "",
	} {
		if got := string(Get([]byte(line), strings.Split(path, "/")...)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	var out [3][]byte
	Find([]byte(line), []string{"last", "none", "type"}, out[:])
	if string(out[0]) != "-1.5e3" || out[1] != nil || !Is(out[2], "out") {
		t.Errorf("%q", out)
	}
	o := Open([]byte(`[1, "a" ,{"b":[]}]`))
	var got []string
	for {
		k, v, ok := o.Next()
		if !ok {
			break
		}
		if k != nil {
			t.Error("a key in an array")
		}
		got = append(got, string(v))
	}
	if strings.Join(got, "|") != `1|"a"|{"b":[]}` {
		t.Errorf("%q", got)
	}
}

// A line that was cut off still gives what stands before the cut.
func TestCutOff(t *testing.T) {
	if v := Get([]byte(`{"type":"user","message":{"content":"xxxx`), "type"); !Is(v, "user") {
		t.Errorf("%q", v)
	}
	for _, s := range []string{"", "{", `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"\`, "[", "[[", `{"a":}`, "null", "\x00"} {
		if v := Get([]byte(s), "a"); v != nil {
			t.Errorf("%q gives %q", s, v)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `""`: "", `"a\"b\\\n\u00e9"`: "a\"b\\\né", `"é"`: "é", "\"\xff\"": "\uFFFD",
		`"\ud83d\ude00"`: "😀", `"\x"`: "", `7`: "", `null`: "", ``: "", `"`: "", `["a"]`: "",
	} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	var v struct {
		A, B, C, D, E Count
		M             Money
	}
	if err := json.Unmarshal([]byte(`{"a":1.5e3,"b":-7,"c":"x","d":1e300,"e":null,"m":"no"}`), &v); err != nil {
		t.Fatal(err)
	}
	if v.A != 1500 || v.B != 0 || v.C != 0 || v.D != maxCount || v.E != 0 || v.M != 0 {
		t.Errorf("%+v", v)
	}
}

func FuzzGet(f *testing.F) {
	f.Add([]byte(`{"a":{"b":"\\\""},"type":[1,{"x":null}]}`))
	f.Add([]byte(`{"a":"\\`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m map[string]json.RawMessage
		valid := json.Unmarshal(b, &m) == nil && m != nil
		got := Get(b, "type")
		Get(b, "type", "a")
		// The first of several members stands here and the last there, and
		// escapes in keys are left alone here.
		if valid && bytes.Count(b, []byte("type")) <= 1 && bytes.IndexByte(b, '\\') < 0 {
			if want := m["type"]; !bytes.Equal(got, want) {
				t.Fatalf("%q, want %q in %q", got, want, b)
			}
		}
		for _, v := range m {
			var want string
			if json.Unmarshal(v, &want); Text(v) != want {
				t.Fatalf("%q is the text of %q, want %q", Text(v), v, want)
			}
		}
	})
}

func BenchmarkGetLast(b *testing.B) {
	line := []byte(`{"content":"` + strings.Repeat("x", 64<<10) + `","type":"user"}`)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		Get(line, "type")
	}
}
