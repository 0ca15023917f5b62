package rein_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/claude"
	"github.com/rein-run/rein/internal/fakeagent"
)

// written polls until the run's transcript satisfies ok and returns its size.
func written(t *testing.T, r *rein.Run, ok func(size int64) bool) int64 {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if fi, err := os.Stat(r.Dir() + "/transcript"); err == nil && ok(fi.Size()) {
			return fi.Size()
		}
	}
	t.Fatal("the transcript did not come that far")
	return 0
}

// A run that is killed in the middle of a flood has the hash of what is on
// disk: all of it was hashed, and no more.
func TestKilledInTheFlood(t *testing.T) {
	for _, m := range means {
		t.Run(m.name, func(t *testing.T) {
			s := newStage(t)
			if !m.keeper {
				s.opts.Keeper = nil
			}
			s.opts.Containment = m.by
			r := s.start(s.task(fakeagent.Step{Do: "flood", Bytes: 1 << 40}))
			written(t, r, func(size int64) bool { return size > 12<<20 }) // some windows
			if err := r.Kill(context.Background()); err != nil {
				t.Error(err)
			}
			rep := s.wait(r) // compares the hash
			if rep.Transcript.Bytes < 12<<20 || rep.Usage.OutputTokens == 0 {
				t.Errorf("%d bytes, usage %+v", rep.Transcript.Bytes, rep.Usage)
			}
		})
	}
}

// A reader that is at a loss holds the agent back within 8 MiB, and not one
// byte is missing when it goes on.
func TestReaderHoldsTheAgentBack(t *testing.T) {
	s := newStage(t)
	slow := &slowAgent{gate: make(chan struct{})}
	s.opts.Agents = agent.New(slow)
	const size = 24 << 20
	r := s.start(s.task(fakeagent.Step{Do: "flood", Bytes: size}, fakeagent.Step{Do: "result"}))
	held := written(t, r, func(size int64) bool { return size >= 4<<20 })
	for still := 0; still < 20; { // for 0.1 s nothing came
		now := written(t, r, func(int64) bool { return true })
		if still++; now != held {
			held, still = now, 0
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n := slow.lines.Load(); held > 8<<20 || n != 1 {
		t.Errorf("the transcript has %d bytes although the reader stands at line %d", held, n)
	}
	close(slow.gate)
	if rep := s.wait(r); !rep.OK || rep.Transcript.Bytes < size {
		t.Errorf("ok %v, %d bytes: %s", rep.OK, rep.Transcript.Bytes, rep.Failure)
	}
}

// slowAgent is claude, read by someone who waits for the gate.
type slowAgent struct {
	claude.Agent
	gate  chan struct{}
	lines atomic.Int64
}

func (a *slowAgent) NewReader(f agent.Facts) agent.Reader {
	return &slowReader{a.Agent.NewReader(f), a}
}

type slowReader struct {
	agent.Reader
	a *slowAgent
}

func (r *slowReader) Read(l agent.Line, emit func(agent.Reading)) {
	r.a.lines.Add(1)
	<-r.a.gate
	r.Reader.Read(l, emit)
}
