package transcript

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/rein-run/rein/agent"
)

type got struct {
	text   string
	elided bool
	offset int64
	size   int64
}

// split feeds data in the chunks that cut says.
func split(l *Lines, data []byte, cut func(left int) int) []got {
	var all []got
	emit := func(x agent.Line) {
		all = append(all, got{string(x.Bytes), x.Elided, x.Offset, x.Size})
	}
	for len(data) > 0 {
		n := cut(len(data))
		// A copy that is destroyed: the bytes are ours during the call only.
		chunk := bytes.Clone(data[:n])
		l.Feed(chunk, emit)
		clear(chunk)
		data = data[n:]
	}
	l.Flush(emit)
	return all
}

// want is the definition of a line, written without any thought of speed.
func want(data []byte, limit int) []got {
	var all []got
	var off int64
	for line := range bytes.SplitAfterSeq(data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		g := got{offset: off, size: int64(len(line))}
		off += g.size
		b := bytes.TrimSuffix(line, []byte("\n"))
		if len(b) > limit {
			b, g.elided = b[:min(len(b), 64<<10)], true
		}
		g.text = string(b)
		all = append(all, g)
	}
	return all
}

func check(t *testing.T, data []byte, limit int, cut func(int) int) {
	t.Helper()
	l := &Lines{limit: limit}
	have, need := split(l, data, cut), want(data, limit)
	if len(have) != len(need) {
		t.Fatalf("%d lines, want %d, of %.200q", len(have), len(need), data)
	}
	var end int64
	for i := range have {
		if have[i] != need[i] {
			t.Fatalf("line %d: %.300q, want %.300q", i, fmt.Sprint(have[i]), fmt.Sprint(need[i]))
		}
		if have[i].offset != end {
			t.Fatalf("line %d begins at %d, the one before ended at %d", i, have[i].offset, end)
		}
		end += have[i].size
	}
	if end != int64(len(data)) || l.Offset() != end {
		t.Fatalf("lines end at %d, Offset %d, want %d", end, l.Offset(), len(data))
	}
}

func TestLinesAnyChunking(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []byte("ab\n\n\r\x00\xff\xe2\x80\xa8")
	for range 3000 {
		data := make([]byte, rng.IntN(200))
		for i := range data {
			data[i] = alphabet[rng.IntN(len(alphabet))]
		}
		limit := 1 + rng.IntN(40)
		check(t, data, limit, func(left int) int { return 1 + rng.IntN(min(left, 1+rng.IntN(64))) })
		check(t, data, limit, func(int) int { return 1 })
		check(t, data, limit, func(left int) int { return left })
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\r\n\n\xe2\x80\xa8ccc"), []byte{1, 2}, 2)
	f.Add([]byte("no newline"), []byte{3}, 100)
	f.Fuzz(func(t *testing.T, data, cuts []byte, limit int) {
		i := 0
		check(t, data, max(1, limit%4096), func(left int) int {
			if len(cuts) == 0 {
				return left
			}
			i++
			return max(1, min(left, int(cuts[i%len(cuts)])))
		})
	})
}

func TestLinesNewlineOnly(t *testing.T) {
	var l Lines
	have := split(&l, []byte("a\r\n{\"x\":\"\u2028\u2029\u0085\"}\n\v\f\x1e\n"), func(n int) int { return n })
	for i, text := range []string{"a\r", "{\"x\":\"\u2028\u2029\u0085\"}", "\v\f\x1e"} {
		if i >= len(have) || have[i].text != text {
			t.Fatalf("lines %+q, want line %d to be %q", fmt.Sprint(have), i, text)
		}
	}
}

func TestLinesAtTheLimit(t *testing.T) {
	for _, c := range []struct {
		n      int
		elided bool
	}{{MaxLine - 1, false}, {MaxLine, false}, {MaxLine + 1, true}} {
		for _, chunk := range []int{1 << 30, 300_000} {
			data := append(bytes.Repeat([]byte{'x'}, c.n), '\n')
			have := split(&Lines{}, data, func(left int) int { return min(left, chunk) })
			if len(have) != 1 || have[0].elided != c.elided || have[0].size != int64(c.n)+1 {
				t.Fatalf("%d bytes in chunks of %d: %d lines, elided %v", c.n, chunk, len(have), have[0].elided)
			}
			if !c.elided && len(have[0].text) != c.n {
				t.Fatalf("%d bytes of %d", len(have[0].text), c.n)
			}
		}
	}
}

func TestLinesZeroCopy(t *testing.T) {
	chunk := []byte("one\ntwo\n")
	var l Lines
	l.Feed(chunk, func(x agent.Line) {
		p, first := uintptr(unsafe.Pointer(unsafe.SliceData(x.Bytes))), uintptr(unsafe.Pointer(&chunk[0]))
		if p != first+uintptr(x.Offset) {
			t.Errorf("line %q was copied", x.Bytes)
		}
		if cap(x.Bytes) != len(x.Bytes) {
			t.Errorf("an append to line %q would write into the next one", x.Bytes)
		}
	})
}

// An 80 MB line, and one without an end, take little memory and leave none.
func TestLinesMemory(t *testing.T) {
	var l Lines
	chunk := bytes.Repeat([]byte{'x'}, 32<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	lines := 0
	for range 80 << 20 / len(chunk) {
		l.Feed(chunk, func(agent.Line) { t.Fatal("no line has ended") })
		if cap(l.buf) > MaxLine {
			t.Fatalf("the buffer has %d bytes", cap(l.buf))
		}
	}
	runtime.ReadMemStats(&after)
	// 4 KiB doubled to 4 MiB is 8 MiB in all, of which 6 are alive at once.
	if n := after.TotalAlloc - before.TotalAlloc; n > 12<<20 {
		t.Errorf("%d bytes were allocated for one line", n)
	}
	l.Feed([]byte("\nnext\n"), func(x agent.Line) {
		lines++
		switch lines {
		case 1:
			if !x.Elided || x.Size != 80<<20+1 || x.Offset != 0 {
				t.Errorf("line 1: elided %v, size %d, offset %d", x.Elided, x.Size, x.Offset)
			}
		case 2:
			if x.Elided || string(x.Bytes) != "next" || x.Offset != 80<<20+1 {
				t.Errorf("line 2: %q at %d", x.Bytes, x.Offset)
			}
		}
	})
	if lines != 2 {
		t.Errorf("%d lines", lines)
	}

	// A long line that was still given whole leaves no 4 MiB behind.
	l.Feed(bytes.Repeat(chunk, 100), func(agent.Line) {})
	l.Feed([]byte("\n"), func(agent.Line) {})
	if cap(l.buf) > keepBuf {
		t.Errorf("%d bytes stay", cap(l.buf))
	}
}

type countElider struct{ n int }

func (c *countElider) Write(p []byte)       { c.n += len(p) }
func (c *countElider) Line() ([]byte, bool) { return fmt.Appendf(nil, "%d bytes", c.n), true }

func TestLinesElider(t *testing.T) {
	for chunk := 1; chunk < 60; chunk++ {
		l := &Lines{limit: 10, NewElider: func() Elider { return &countElider{} }}
		have := split(l, []byte("0123456789\n0123456789a\nshort\n0123456789abcdefgh"), func(left int) int { return min(left, chunk) })
		need := []got{{"0123456789", false, 0, 11}, {"11 bytes", true, 11, 12}, {"short", false, 23, 6}, {"18 bytes", true, 29, 18}}
		if fmt.Sprint(have) != fmt.Sprint(need) {
			t.Fatalf("chunks of %d: %v, want %v", chunk, have, need)
		}
	}
}

func TestLinesStart(t *testing.T) {
	var l Lines
	l.Feed([]byte("half"), func(agent.Line) { t.Error("no line") })
	l.Start(1000)
	l.Feed([]byte("whole\n"), func(x agent.Line) {
		if string(x.Bytes) != "whole" || x.Offset != 1000 {
			t.Errorf("%q at %d", x.Bytes, x.Offset)
		}
	})
	if l.Offset() != 1006 {
		t.Error("offset", l.Offset())
	}
}

func BenchmarkLines(b *testing.B) {
	// 4 KiB lines in chunks of 256 KiB; one line in 64 lies across a cut.
	stream := bytes.Repeat(append(bytes.Repeat([]byte{'x'}, 4095), '\n'), 64)
	stream = append(stream[100:], stream[:100]...)
	var l Lines
	var n int64
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		l.Feed(stream, func(x agent.Line) { n += x.Size })
	}
}
