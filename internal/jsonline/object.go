// Package jsonline reads single members out of one line of JSON without
// decoding the rest, and shortens lines that are too long to be held.
//
// An agent writes gigabytes of which a reader needs a few names and numbers.
// Everything here is for hostile input: no recursion, no allocation, no panic.
package jsonline

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Object walks over the members of one JSON object, or the elements of one
// array. It skips what it does not understand rather than judging it: a caller
// decodes the values it wants with encoding/json, which does, or with Text.
type Object struct {
	b    []byte
	i    int
	open byte
}

// Open returns a walker over the object or array that b holds, white space
// around it allowed. Over anything else it yields nothing.
func Open(b []byte) Object {
	o := Object{b: b}
	o.space()
	if o.i < len(b) && (b[o.i] == '{' || b[o.i] == '[') {
		o.open = b[o.i]
		o.i++
	} else {
		o.i = len(b)
	}
	return o
}

// IsObject says that the walker stands in an object.
func (o *Object) IsObject() bool { return o.open == '{' }

// Next returns the next member: its key as it is written, without the quotes
// and with escapes left alone (nil in an array), and its raw value.
func (o *Object) Next() (key, value []byte, ok bool) {
	if key, ok = o.Key(); ok {
		value, ok = o.Value()
	}
	return key, value, ok
}

// Key goes to the next member and returns its key. Value, or Enter and Leave,
// must follow: so that a long string inside is passed over only once.
func (o *Object) Key() (key []byte, ok bool) {
	for o.i < len(o.b) && (o.b[o.i] <= ' ' || o.b[o.i] == ',') {
		o.i++
	}
	if o.i >= len(o.b) || o.b[o.i] == '}' || o.b[o.i] == ']' {
		return nil, false
	}
	if o.open == '{' {
		if o.b[o.i] != '"' {
			return nil, false
		}
		end := skipString(o.b, o.i)
		if end < 0 {
			return nil, false
		}
		key = o.b[o.i+1 : end-1]
		o.i = end
		o.space()
		if o.i >= len(o.b) || o.b[o.i] != ':' {
			return nil, false
		}
		o.i++
		o.space()
	}
	return key, true
}

// Value returns the raw value of the member that Key went to.
func (o *Object) Value() (value []byte, ok bool) {
	end := skipValue(o.b, o.i)
	if end <= o.i { // nothing there, or cut off
		o.i = len(o.b)
		return nil, false
	}
	value = o.b[o.i:end]
	o.i = end
	return value, true
}

// Enter returns a walker over the object or array that Key went to. It stands
// in the same line: nothing is passed over twice.
func (o *Object) Enter() (in Object, ok bool) {
	if o.i >= len(o.b) || o.b[o.i] != '{' && o.b[o.i] != '[' {
		return in, false
	}
	return Object{b: o.b, i: o.i + 1, open: o.b[o.i]}, true
}

// Leave goes on behind what Enter returned, whether all of that was read or
// not.
func (o *Object) Leave(in *Object) {
	for {
		if _, _, ok := in.Next(); !ok {
			break
		}
	}
	o.i = len(o.b)
	if in.i < len(in.b) && (in.b[in.i] == '}' || in.b[in.i] == ']') {
		o.i = in.i + 1
	}
}

func (o *Object) space() {
	for o.i < len(o.b) && o.b[o.i] <= ' ' {
		o.i++
	}
}

// Get returns the raw value at the path of keys, nil when it is not there. The
// first of several members with one key stands.
func Get(b []byte, path ...string) []byte {
	for _, want := range path {
		o := Open(b)
		if !o.IsObject() {
			return nil
		}
		b = nil
		for {
			k, v, ok := o.Next()
			if !ok {
				return nil
			}
			if string(k) == want {
				b = v
				break
			}
		}
	}
	return b
}

// Find fills out[i] with the raw value of keys[i] of the object in b, nil when
// it is not there, in one pass that ends as soon as all are found.
func Find(b []byte, keys []string, out [][]byte) {
	clear(out)
	o := Open(b)
	if !o.IsObject() {
		return
	}
	for left := len(keys); left > 0; {
		k, v, ok := o.Next()
		if !ok {
			return
		}
		for i, want := range keys {
			if out[i] == nil && string(k) == want {
				out[i] = v
				left--
				break
			}
		}
	}
}

// Str returns the content of a raw string value as it is written, escapes left
// alone: enough to compare with a name. nil when v is no string.
func Str(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return nil
	}
	return v[1 : len(v)-1]
}

// Text decodes a raw string value, "" when it is none. Most strings stand in a
// line as they are: those are only copied.
func Text(v []byte) string {
	in := Str(v)
	if bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in) {
		return string(in)
	}
	var s string
	_ = json.Unmarshal(v, &s) // what is wrong with it is replaced, or all of it is empty
	return s
}

// Is says that the raw value is the string s.
func Is(v []byte, s string) bool { return string(Str(v)) == s && len(v) >= 2 && v[0] == '"' }

// skipString returns the index after the string that begins at i, -1 when it
// does not end.
func skipString(b []byte, i int) int {
	for j := i + 1; ; {
		n := bytes.IndexByte(b[j:], '"')
		if n < 0 {
			return -1
		}
		q := j + n
		// The quote is escaped when an odd number of backslashes stands before.
		s := q - 1
		for s > i && b[s] == '\\' {
			s--
		}
		if (q-1-s)%2 == 0 {
			return q + 1
		}
		j = q + 1
	}
}

// skipValue returns the index after the value that begins at i, -1 when it
// does not end.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				if i = skipString(b, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	}
	j := i
	for j < len(b) && b[j] > ' ' && b[j] != ',' && b[j] != '}' && b[j] != ']' && b[j] != ':' && b[j] != '"' {
		j++
	}
	return j
}
