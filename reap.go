package rein

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/boundary"
	"github.com/rein-run/rein/guard/sandbox"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/internal/git"
	"github.com/rein-run/rein/internal/redact"
	"github.com/rein-run/rein/store"
	"github.com/rein-run/rein/transcript"
)

// Reaped is what Reap did for one run.
type Reaped struct {
	ID       string        `json:"id"`
	Report   *Report       `json:"report,omitempty"`
	Ended    []driver.Proc `json:"ended,omitempty"`    // processes that were still there
	Unproven []driver.Proc `json:"unproven,omitempty"` // that look like the run's and were left alone
	Err      error         `json:"-"`
}

// keeperPatience is how long a keeper that lost its supervisor may take to end
// the tree and record the exit. Law 5 says 5 s; a loaded machine gets more.
const keeperPatience = 15 * time.Second

// Reap finishes the runs whose supervisor died: it waits for their keepers,
// ends what is left, and writes the reports. Runs that are under way, and those
// that another reaper has claimed, are left alone. An empty registry is Agents().
func Reap(ctx context.Context, s *store.Store, agents agent.Registry) ([]Reaped, error) {
	if len(agents.All()) == 0 {
		agents = Agents()
	}
	runs, err := s.Unfinished()
	if err != nil {
		return nil, err
	}
	var out []Reaped
	for _, e := range runs {
		if e.Run.Claim() != nil {
			continue // somebody else is at it, or was
		}
		out = append(out, reapOne(ctx, s, e.Run, agents))
		e.Run.Close()
	}
	return out, nil
}

func reapOne(ctx context.Context, s *store.Store, dir *store.Run, agents agent.Registry) Reaped {
	out := Reaped{ID: dir.ID()}
	var st state
	at, err := dir.ReadState(&st)
	known := err == nil && st.Schema == stateSchema
	if !known {
		// Not ours to judge, and nothing says what ran: remember it as lost.
		st = state{ID: dir.ID(), StartedAt: time.Now()}
	}
	_, err = keeper.ReadRecord(dir.Dir())
	began := err == nil || at == store.Running

	exit, ended, unproven, err := collect(ctx, dir.Dir())
	out.Ended, out.Unproven = ended, unproven
	if err != nil {
		// Something may be alive: the run stays unfinished, and the next reap
		// comes back to it.
		out.Err = err
		return out
	}

	rep := &Report{
		ID: dir.ID(), Labels: st.Labels, Parent: st.Parent, Agent: st.Agent, AgentVersion: st.Facts.Version,
		Host: st.Host, Model: st.Model, Dir: st.Dir, StartedAt: st.StartedAt, Attempt: max(st.Attempt, 1), RetryOf: st.RetryOf,
		Guard:      st.Guard,
		Sandbox:    st.Sandbox,
		Transcript: Bytes{Path: filepath.Join(dir.Dir(), "transcript")},
		Stderr:     Bytes{Path: filepath.Join(dir.Dir(), "stderr")},
	}
	d := digest{nests: readNests(dir.Dir())}
	rep.Gate = readBook(filepath.Join(dir.Dir(), gateFile), st.Gate, &d)
	rep.Rules, rep.Billing = st.Rules, st.Billing
	if st.Rules != nil && st.Rules.By == agent.RulesByFile {
		d.rulesLeft = recoverRules(s, dir) // before the repository is compared
	}
	var caps agent.Capabilities
	if a, err := agents.Lookup(st.Agent); err == nil {
		caps = a.Capabilities(st.Facts.Version)
		if err := digestFile(rep.Transcript.Path, newReader(a, st.Facts), &d); err != nil && !errors.Is(err, os.ErrNotExist) {
			out.Err = errors.Join(out.Err, err)
		}
	}
	if n, sum, err := transcript.Sum(rep.Transcript.Path); err == nil {
		rep.Transcript.Bytes, rep.Transcript.SHA256 = n, sum
	}
	if info, err := os.Stat(rep.Stderr.Path); err == nil {
		rep.Stderr.Bytes = info.Size()
	}

	sandbox.Remove(st.Stubs)
	rep.Boundary = Boundary{Why: "the run was on another host"}
	if st.Local || !known {
		var before repository
		if b, err := os.ReadFile(filepath.Join(dir.Dir(), beforeFile)); err != nil || json.Unmarshal(b, &before) != nil {
			rep.Boundary = Boundary{Why: "no agent was started"}
			if began {
				rep.Boundary.Why = "the snapshot from before the run is gone"
				// It is written before an agent is there, so somebody took the means
				// of checking away (law 8).
				rep.Boundary.Changes = []Change{{What: boundary.Blind, Ref: cmp.Or(st.Facts.GitCommonDir, st.Dir), After: rep.Boundary.Why}}
			}
		} else {
			o := boundary.Local()
			o.ID, o.Peers = st.ID, peers(s, st.Host, before.CommonDir, st.ID, st.StartedAt)
			var left *store.Left
			rep.Boundary, left = checkBoundary(ctx, git.Local, &before, o)
			s.LeaveRepo(st.Host, before.CommonDir, st.ID, left)
		}
	}

	end := End{Kind: Lost, Detail: "supervisor_died"}
	fill(rep, &d, end, exit, nil, caps, redact.New(environ(), caps.Credentials...), tail(rep.Stderr.Path))
	rep.Resources = Resources{RSSMaxBytes: exit.RSSMax, CPUSeconds: exit.CPU}
	rep.attempts(st.Attempts)
	if err := dir.WriteState(store.Ended, rep); err != nil {
		out.Err = errors.Join(out.Err, fmt.Errorf("writing the report: %w", err))
	}
	out.Report = rep
	return out
}

// collect learns how the command ended: from the keeper, which is given time to
// finish, else by ending what can be proved to be the run's.
func collect(ctx context.Context, dir string) (exit driver.Exit, ended, unproven []driver.Proc, err error) {
	rec, recErr := keeper.ReadRecord(dir)
	deadline := time.Now().Add(keeperPatience)
	for {
		if e, err := keeper.ReadExit(dir); err == nil {
			return *e, nil, nil, nil
		}
		if recErr != nil || !rec.KeeperAlive() || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return driver.Exit{Reason: driver.Lost}, nil, nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	exit = driver.Exit{Reason: driver.Lost, Detail: "supervisor and keeper died", Containment: driver.ByMarker}
	if recErr != nil {
		// Died before anything was started, or the directory is damaged.
		return exit, nil, nil, nil
	}
	return sweep(ctx, rec, exit)
}

// sweep ends what a keeper left that is dead or does not answer. Containment is
// set only when it is proved that nobody is left, or who.
func sweep(ctx context.Context, rec *keeper.Record, exit driver.Exit) (_ driver.Exit, ended, unproven []driver.Proc, err error) {
	exit.Containment = ""
	bound, cancel := context.WithTimeout(ctx, keeperPatience)
	defer cancel()
	if err := rec.EndKeeper(bound); err != nil {
		return exit, nil, nil, fmt.Errorf("ending the keeper: %w", err)
	}
	ended, survivors, unproven, err := keeper.Reap(bound, rec)
	exit.Leftovers, exit.Survivors = ended, survivors
	if err == nil {
		exit.Containment = rec.Containment
	}
	return exit, ended, unproven, err
}

// digestFile reads a whole transcript the way a live run does.
func digestFile(path string, reader agent.Reader, d *digest) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return ReadTranscript(f, reader, func(_ agent.Line, r agent.Reading) { d.read(r) })
}
