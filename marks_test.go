package rein

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein/internal/disk"
	"github.com/rein-run/rein/internal/redact"
)

// A file of several pieces, with a value across each border of them, and one
// that is known from any offset.
func TestSpansAcrossPieces(t *testing.T) {
	const value = "correct-horse/battery"
	red := redact.New(map[string]string{"A_TOKEN": value})
	data := bytes.Repeat([]byte("."), 3*maxPiece+100)
	for _, at := range []int{0, maxPiece - 5, 2*maxPiece - 1, 3*maxPiece + 100 - len(value)} {
		copy(data[at:], value)
	}
	path := filepath.Join(t.TempDir(), "transcript")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	spans, err := allSpans(path, red)
	if err != nil {
		t.Fatal(err)
	}
	if len(spans) != 4 {
		t.Fatalf("%d spans: %v", len(spans), spans)
	}
	for _, s := range spans {
		if string(data[s.At:s.End()]) != value {
			t.Errorf("%+v is %q", s, data[s.At:s.End()])
		}
	}
	f, err := disk.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, _, err := spansIn(f, red, maxPiece+3, maxPiece+50, false)
	if err != nil || len(got) != 1 || got[0] != spans[1] {
		t.Errorf("from the middle of a value: %v, %v", got, err)
	}
}

// A flood of secrets is not a flood of memory: what cannot be listed is
// withheld.
func TestTooManySpans(t *testing.T) {
	red := redact.New(map[string]string{"A_TOKEN": "12345678"})
	path := filepath.Join(t.TempDir(), "transcript")
	data := strings.Repeat("12345678 ", maxMarks+1000) + "the end"
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	spans, err := allSpans(path, red)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(spans); n != maxMarks+1 || spans[n-1].End() != int64(len(data)) {
		t.Errorf("%d spans, the last one is %+v of %d bytes", n, spans[n-1], len(data))
	}
}
