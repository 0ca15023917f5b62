package transcript

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// record writes a transcript and its index as a run does, and returns both
// paths and the bytes.
func record(t *testing.T, chunks int) (path, idx string, data []byte) {
	t.Helper()
	dir := t.TempDir()
	path, idx = filepath.Join(dir, "transcript"), filepath.Join(dir, "transcript.idx")
	w, err := CreateIndex(idx)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	at, lines := epoch, int64(0)
	for range chunks {
		chunk := bytes.Repeat([]byte{'x'}, 1+rng.IntN(30_000))
		for range rng.IntN(20) {
			chunk[rng.IntN(len(chunk))] = '\n'
		}
		data = append(data, chunk...)
		lines += int64(bytes.Count(chunk, []byte{'\n'}))
		at = at.Add(time.Duration(rng.IntN(60)) * time.Millisecond)
		if err := w.Note(int64(len(data)), lines, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, idx, data
}

// findsLines compares lines with a count by hand: every one of a few, and of
// many those around the marks and one of eleven. Each costs a look through what
// lies between two marks.
func findsLines(t *testing.T, x *Index, data []byte) {
	t.Helper()
	r := bytes.NewReader(data)
	off, n := int64(0), int64(0)
	for line := range bytes.Lines(data) {
		at := off
		off, n = off+int64(len(line)), n+1
		near := slices.ContainsFunc(x.Marks, func(m Mark) bool { return n-3 < m.Lines && m.Lines < n+3 })
		if n > 500 && n%11 != 0 && !near {
			continue
		}
		if have, err := x.LineOffset(r, n); err != nil || have != at {
			t.Fatalf("line %d: %d (%v), want %d", n, have, err, at)
		}
	}
	if _, err := x.LineOffset(r, n+1); err == nil {
		t.Error("there is no line", n+1)
	}
	if _, err := x.LineOffset(r, 0); err == nil {
		t.Error("there is no line 0")
	}
}

func TestIndex(t *testing.T) {
	path, idx, data := record(t, 300)
	x, err := OpenIndex(path, idx)
	if err != nil || x.TimesLost {
		t.Fatal(err, x)
	}
	findsLines(t, x, data)
	if last := x.last(); last.Offset != int64(len(data)) {
		t.Errorf("the last mark is at %d of %d", last.Offset, len(data))
	}
	for i, m := range x.Marks[1:] {
		p := x.Marks[i]
		if m.Offset-p.Offset < markBytes && m.Time.Sub(p.Time) < markTime && i+2 < len(x.Marks) {
			t.Fatalf("marks %d and %d are too near: %v, %v", i, i+1, p, m)
		}
		if m.Offset-p.Offset > markBytes+30_000 || m.Time.Sub(p.Time) > markTime+60*time.Millisecond {
			t.Fatalf("marks %d and %d are too far apart: %v, %v", i, i+1, p, m)
		}
	}
	for i, m := range x.Marks {
		if have := x.At(m.Time); have.Offset < m.Offset {
			t.Fatalf("At(mark %d) is %v", i, have)
		}
		if have := x.At(m.Time.Add(-1)); have.Offset >= m.Offset {
			t.Fatalf("just before mark %d: %v", i, have)
		}
	}
	if m := x.At(epoch.Add(-time.Hour)); m != (Mark{}) {
		t.Error("before everything:", m)
	}
}

// However much of the index a crash leaves, it can be read, and continued.
func TestIndexAnyPrefix(t *testing.T) {
	path, idx, data := record(t, 12)
	whole, _ := os.ReadFile(idx)
	for n := range len(whole) {
		os.WriteFile(idx, whole[:n], 0o600)
		x, err := OpenIndex(path, idx)
		if err != nil {
			t.Fatal(n, err)
		}
		if n < recordSize != x.TimesLost {
			t.Fatalf("%d bytes of index: TimesLost %v", n, x.TimesLost)
		}
		if n >= recordSize && len(x.Marks) != n/recordSize {
			t.Fatalf("%d bytes of index: %d marks", n, len(x.Marks))
		}
		if n%recordSize < 2 {
			findsLines(t, x, data)
		}

		w, err := CreateIndex(idx)
		if err != nil {
			t.Fatal(err)
		}
		w.Note(int64(len(data)), int64(bytes.Count(data, []byte{'\n'})), epoch.Add(time.Hour))
		w.Close()
		if x, err := OpenIndex(path, idx); err != nil || x.TimesLost || len(x.Marks) != n/recordSize+1 {
			t.Fatalf("%d bytes of index, continued: %v, %+v", n, err, x)
		}
	}
}

func TestIndexDamaged(t *testing.T) {
	path, idx, data := record(t, 40)
	whole, _ := os.ReadFile(idx)
	for i := range len(whole) {
		if i%recordSize >= 28 {
			continue // the padding
		}
		b := bytes.Clone(whole)
		b[i] ^= 0x10
		os.WriteFile(idx, b, 0o600)
		x, err := OpenIndex(path, idx)
		if err != nil || !x.TimesLost {
			t.Fatalf("byte %d flipped: %v, TimesLost %v", i, err, x.TimesLost)
		}
		if n := i / recordSize; n > 0 && len(x.Marks) != n {
			t.Fatalf("byte %d flipped: %d marks, want %d", i, len(x.Marks), n)
		}
	}
	for name, b := range map[string][]byte{
		"zeros":          make([]byte, 4096),
		"ones":           bytes.Repeat([]byte{0xff}, 4096),
		"zeros behind":   append(bytes.Clone(whole), make([]byte, 64)...),
		"twice the same": append(bytes.Clone(whole), whole...),
	} {
		os.WriteFile(idx, b, 0o600)
		x, err := OpenIndex(path, idx)
		if err != nil || !x.TimesLost {
			t.Fatalf("%s: %v, TimesLost %v", name, err, x.TimesLost)
		}
		findsLines(t, x, data)
	}

	// Of a longer transcript.
	os.WriteFile(idx, whole, 0o600)
	os.WriteFile(path, data[:len(data)/2], 0o600)
	x, err := OpenIndex(path, idx)
	if err != nil || !x.TimesLost {
		t.Fatal(err, x)
	}
	findsLines(t, x, data[:len(data)/2])
}

func TestIndexMissing(t *testing.T) {
	path, idx, data := record(t, 300)
	os.Remove(idx)
	x, err := OpenIndex(path, idx)
	if err != nil || !x.TimesLost {
		t.Fatal(err, x)
	}
	findsLines(t, x, data)
	if m := x.At(epoch.Add(time.Hour)); m != (Mark{}) {
		t.Error("a time was invented:", m)
	}

	// Short: made from the first tenth, and then the writer died.
	x.Marks = nil
	path, idx, data = record(t, 300)
	b, _ := os.ReadFile(idx)
	os.WriteFile(idx, b[:len(b)/10/recordSize*recordSize], 0o600)
	if x, err = OpenIndex(path, idx); err != nil || !x.TimesLost {
		t.Fatal(err, x)
	}
	findsLines(t, x, data)
	if m := x.At(epoch.Add(time.Hour)); m.Offset == 0 || m.Time.IsZero() {
		t.Error("the times that are left are not used:", m)
	}
}

func TestIndexNoteBackwards(t *testing.T) {
	idx := filepath.Join(t.TempDir(), "transcript.idx")
	w, err := CreateIndex(idx)
	if err != nil {
		t.Fatal(err)
	}
	w.Note(1000, 10, epoch)
	w.Note(2000, 20, epoch.Add(-time.Hour)) // the clock was set
	w.Note(1500, 15, epoch)                 // nonsense
	w.Note(3000, 30, epoch.Add(time.Second))
	w.Close()
	x, err := OpenIndex(file(t, strings.Repeat("x", 3000)), idx)
	if err != nil || x.TimesLost || x.last() != (Mark{3000, 30, epoch.Add(time.Second).Local()}) {
		t.Fatalf("%v %+v", err, x)
	}
}

func FuzzIndex(f *testing.F) {
	b := Mark{1000, 10, epoch}.record()
	f.Add(b[:], []byte("a\nb\n"))
	f.Fuzz(func(t *testing.T, idx, data []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "t")
		os.WriteFile(path, data, 0o600)
		os.WriteFile(path+".idx", idx, 0o600)
		x, err := OpenIndex(path, path+".idx")
		if err != nil {
			t.Fatal(err)
		}
		for n := range int64(5) {
			x.LineOffset(bytes.NewReader(data), n)
			x.Find(n)
		}
		x.At(epoch)
	})
}
