package redact

import (
	"bytes"
	"cmp"
	"slices"
)

// Span is where a value stands in a file: a place, and never the value.
type Span struct {
	At   int64  `json:"at"`  // offset of its first byte
	Len  int64  `json:"len"` // bytes
	Name string `json:"name"`
}

// End is the offset behind the span.
func (s Span) End() int64 { return s.At + s.Len }

// Longest is the length of the longest text that is looked for, in bytes.
func (r *Redactor) Longest() int {
	if r == nil || len(r.marks) == 0 {
		return 0
	}
	return len(r.marks[0].text)
}

// Find gives the spans in b, which begins at the offset at of its file, in
// order and without overlaps, and how many bytes of b are decided. The rest may
// be the beginning of a value: more of the file tells. With last there is no
// more, and all is decided.
func (r *Redactor) Find(b []byte, at int64, last bool) (spans []Span, decided int) {
	if r == nil {
		return nil, len(b)
	}
	open := 0
	for _, p := range r.marks {
		for i := 0; ; {
			n := bytes.Index(b[i:], p.text)
			if n < 0 {
				break
			}
			spans = append(spans, Span{At: at + int64(i+n), Len: int64(len(p.text)), Name: p.name})
			i += n + len(p.text)
		}
		if !last {
			open = max(open, overlap(b, p.text))
		}
	}
	slices.SortFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(b.Len, a.Len))
	})
	spans = flatten(spans)
	decided = len(b) - open
	end := at + int64(decided)
	for i, s := range spans {
		if s.At >= end { // found again when more is known
			return spans[:i], decided
		}
		if s.End() > end { // a value for certain, whatever else begins inside of it
			return spans[:i+1], int(s.End() - at)
		}
	}
	return spans, decided
}

// overlap is the length of the longest end of b that text begins with, text
// itself excluded.
func overlap(b, text []byte) int {
	for n := min(len(b), len(text)-1); n > 0; n-- {
		if bytes.HasPrefix(text, b[len(b)-n:]) {
			return n
		}
	}
	return 0
}

// flatten cuts what overlaps an earlier span.
func flatten(spans []Span) []Span {
	out := spans[:0]
	var end int64
	for _, s := range spans {
		if s.End() <= end {
			continue
		}
		if s.At < end {
			s.Len -= end - s.At
			s.At = end
		}
		end = s.End()
		out = append(out, s)
	}
	return out
}
