// Package golden compares what a reader makes of recorded transcripts with
// what it made of them when a person last looked.
package golden

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
)

var update = flag.Bool("update", false, "write the .golden files anew")

// Readings are what was read from one recording, each with the number of its
// line from 1.
type Readings []Numbered

// Numbered is a reading and where it was.
type Numbered struct {
	Line int
	agent.Reading
}

// Of returns the readings of one kind.
func (rs Readings) Of(k agent.Kind) []agent.Reading {
	var out []agent.Reading
	for _, r := range rs {
		if r.Kind == k {
			out = append(out, r.Reading)
		}
	}
	return out
}

// Last returns the last reading of one kind; the test ends when there is none.
func (rs Readings) Last(t testing.TB, k agent.Kind) agent.Reading {
	t.Helper()
	all := rs.Of(k)
	if len(all) == 0 {
		t.Fatalf("no reading of kind %s", k)
	}
	return all[len(all)-1]
}

// Read runs the reader over a transcript. Every line must give a reading at
// least.
func Read(t testing.TB, r agent.Reader, transcript []byte) Readings {
	t.Helper()
	var out Readings
	line, offset := 0, int64(0)
	for len(transcript) > 0 {
		b, rest, found := bytes.Cut(transcript, []byte("\n"))
		size := int64(len(b))
		if found {
			size++
		}
		line++
		before := len(out)
		r.Read(agent.Line{Bytes: b, Offset: offset, Size: size}, func(x agent.Reading) {
			out = append(out, Numbered{line, x})
		})
		if len(out) == before {
			t.Errorf("line %d gave no reading: %.200s", line, b)
		}
		offset += size
		transcript = rest
	}
	r.End(func(x agent.Reading) { out = append(out, Numbered{line + 1, x}) })
	return out
}

// File reads testdata/name.jsonl with a new reader.
func File(t testing.TB, d agent.Decoder, f agent.Facts, name string) Readings {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return Read(t, d.NewReader(f), b)
}

// All compares every recording in testdata with its .golden file. facts gives
// the facts of one, by its name.
func All(t *testing.T, d agent.Decoder, facts func(name string) agent.Facts) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in testdata: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			for _, r := range File(t, d, facts(name), name) {
				if r.Kind == agent.KindUnknown && r.Text == "" {
					t.Errorf("line %d is unknown", r.Line)
				}
				j, err := json.Marshal(r.Reading)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "%d %s\n", r.Line, j)
			}
			golden := strings.TrimSuffix(file, ".jsonl") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v: run go test -update and look at what it wrote", err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("readings differ (-want +got):\n%s", diff)
			}
		})
	}
}
