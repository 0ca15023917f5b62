package rein_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/internal/disktest"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/store"
)

// A full disk ends the run as aborted, with the cause, an intact prefix of the
// transcript, and the report on that very disk.
func TestFullDisk(t *testing.T) {
	disktest.Small(t, 4<<20, func(dir string) {
		s := newStage(t)
		st, err := store.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.store, s.opts.Store = st, st
		rep := s.do(s.task(
			fakeagent.Step{Do: "spawn", How: "env_i", Ignore: true},
			fakeagent.Step{Do: "text", Text: "working", Usage: &fakeagent.Usage{In: 7, Out: 3}},
			fakeagent.Step{Do: "flood", Bytes: 1 << 30},
		))
		if rep.End.Kind != rein.Aborted || !strings.Contains(rep.End.Detail, "no space left") || rep.ExitCode() != rein.ExitAborted {
			t.Errorf("end %+v: %s", rep.End, rep.Failure)
		}
		// A person reads which disk it is, and what helps.
		for _, want := range []string{"could not be written in " + filepath.Dir(rep.Transcript.Path) + ": no space left on device", "--state-dir"} {
			if !strings.Contains(rep.Failure, want) {
				t.Errorf("%q is not in %q", want, rep.Failure)
			}
		}
		if rep.Usage.InputTokens < 7 {
			t.Errorf("what was spent is lost: %+v", rep.Usage)
		}
		b, err := os.ReadFile(rep.Transcript.Path)
		if err != nil || len(b) < 1<<20 {
			t.Fatalf("transcript of %d bytes: %v", len(b), err)
		}
		// Every line but the last is whole.
		for line := range bytes.Lines(b[:bytes.LastIndexByte(b, '\n')+1]) {
			if line[0] != '{' || line[len(line)-2] != '}' {
				t.Fatalf("a broken line: %.80q", line)
			}
		}
	})
}
