package rein

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/boundary"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/jsonline"
	"github.com/rein-run/rein/store"
	"github.com/rein-run/rein/transcript"
)

// OpenTranscript opens the transcript of a run, live or over, with a reader for
// the agent that wrote it. from, when it is not nil, is read instead of the
// file (a transcript.Follow, say).
func OpenTranscript(run *store.Run, from io.ReadCloser) (io.ReadCloser, agent.Reader, error) {
	// A live state and a report both say which agent it was.
	var who struct {
		Agent   string      `json:"agent"`
		Version string      `json:"agent_version"`
		Facts   agent.Facts `json:"facts"`
	}
	if _, err := run.ReadState(&who); err != nil {
		return nil, nil, err
	}
	a, err := Agents().Lookup(who.Agent)
	if err != nil {
		return nil, nil, err
	}
	if who.Facts.Version == "" {
		who.Facts.Version = who.Version
	}
	if from == nil {
		if from, err = os.Open(filepath.Join(run.Dir(), "transcript")); err != nil {
			return nil, nil, err
		}
	}
	return from, newReader(a, who.Facts), nil
}

// ReadTranscript reads to the end and calls emit for each reading, with the
// line it stands in. A line that is longer than transcript.MaxLine is read with
// its long strings shortened.
func ReadTranscript(r io.Reader, reader agent.Reader, emit func(agent.Line, agent.Reading)) error {
	if reader == nil {
		reader = noReader{}
	}
	lines := newLines()
	var at agent.Line
	give := func(rd agent.Reading) { emit(at, rd) }
	line := func(l agent.Line) {
		at = l
		reader.Read(l, give)
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		lines.Feed(buf[:n], line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the transcript: %w", err)
		}
	}
	lines.Flush(line)
	at = agent.Line{}
	reader.End(give)
	return nil
}

// newLines splits with the elider that keeps JSON readable.
func newLines() transcript.Lines {
	return transcript.Lines{NewElider: func() transcript.Elider { return new(jsonline.Elider) }}
}

// noReader reads nothing: an agent without a Decoder.
type noReader struct{}

func (noReader) Read(agent.Line, func(agent.Reading)) {}
func (noReader) End(func(agent.Reading))              {}

// Redact replaces the secrets that this run knows.
func (r *Run) Redact(s string) string { return r.p.redact.String(s) }

// NotStartedReport is the report of a task that Start refused.
func NotStartedReport(task Task, cause error) *Report {
	now := time.Now()
	rep := &Report{
		Schema: ReportSchema, ID: task.ID, Labels: task.Labels, Agent: task.Agent, Model: task.Model, Dir: task.Dir,
		StartedAt: now, EndedAt: now, Attempt: 1, Billing: "unknown",
		Gate:     Gate{Why: "nothing was started"},
		End:      End{Kind: NotStarted, Detail: clip(cause.Error(), maxEvidence)},
		Findings: []Finding{}, Boundary: Boundary{Changes: []Change{}, Allowed: []Change{}, Others: []Change{}, Remotes: []boundary.RemoteState{}, Unseen: []string{}, Why: "nothing was started"},
		Leftovers: []driver.Proc{}, Survivors: []driver.Proc{},
		Usage: Usage{CostSource: "none"}, Nested: []Nested{}, Attempts: []Attempt{},
	}
	if rep.Labels == nil {
		rep.Labels = map[string]string{}
	}
	rep.Failure = clip("not started: "+cause.Error(), maxEvidence)
	return rep
}
