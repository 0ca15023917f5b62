//go:build unix

package rein_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/internal/fakeagent"
)

// recorded waits for the keeper's record of a run, with all its sessions.
func recorded(t *testing.T, dir string, sessions int) *keeper.Record {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		rec, err := keeper.ReadRecord(dir)
		if err == nil && len(rec.Sessions) >= sessions {
			return rec
		}
		if time.Now().After(end) {
			t.Fatalf("record %+v, %v", rec, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

var hiding = []fakeagent.Step{
	{Do: "spawn", How: "setsid", Ignore: true},
	{Do: "spawn", How: "env_i", Ignore: true},
	{Do: "text", Text: "working"},
	{Do: "hang"},
}

// A keeper that was stopped does not answer. Rein ends it and what it kept, and
// says what it proved.
func TestKeeperDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.start(s.task(hiding...))
	rec := recorded(t, r.Dir(), 3)
	if err := syscall.Kill(rec.Keeper.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.Cancel(rein.CancelStop)
	r.Cancel(rein.CancelStop)
	rep := s.wait(r) // and nobody is left: proof
	if rep.End.Kind != rein.Lost || rep.ExitCode() != rein.ExitLost || rep.Containment == "" {
		t.Errorf("end %+v, containment %q: %s", rep.End, rep.Containment, rep.Failure)
	}
}

// The same when the supervisor was killed: the reaper waits, and then does it.
func TestReapEndsAStoppedKeeper(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	cmd, id := s.supervisor(fakeagent.Scenario{Steps: hiding})
	run, err := s.store.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	rec := recorded(t, run.Dir(), 3)
	if err := syscall.Kill(rec.Keeper.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	done, err := rein.Reap(context.Background(), s.store, agent.Registry{})
	if err != nil || len(done) != 1 || done[0].Err != nil || done[0].Report == nil {
		t.Fatalf("reaped %+v, %v", done, err)
	}
	s.proof(done[0].Report)
}

// Whoever takes the means of checking away is not called clean for it.
func TestBlindIsNotClean(t *testing.T) {
	for name, command := range map[string]string{
		"broken config":      "echo '[[[' > .git/config",
		"newer format":       "git config core.repositoryformatversion 99",
		"broken packed-refs": "echo g > .git/packed-refs",
		"removed":            "cd / && rm -rf \"$OLDPWD\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.dir = filepath.Join(s.dir, "repo")
			if err := os.Mkdir(s.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			git(t, s.dir, "init", "-q")
			git(t, s.dir, "commit", "-q", "--allow-empty", "-m", "one")
			rep := s.do(s.task(fakeagent.Step{Do: "bash", Command: command}, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"}))
			if rep.OK || rep.ExitCode() != rein.ExitBoundary || !has(rep, rein.FoundBoundary) {
				t.Errorf("ok %v, exit %d, boundary %+v, %s", rep.OK, rep.ExitCode(), rep.Boundary, kinds(rep))
			}
		})
	}
}

// An agent runs as the same user and can reach its transcript.
func TestTranscriptDamaged(t *testing.T) {
	for name, command := range map[string]string{
		"removed":   "rm \"$T\"",
		"truncated": ": > \"$T\"",
		"replaced":  "mv \"$T\" \"$T.old\"; cp \"$T.old\" \"$T\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			task := s.task(
				fakeagent.Step{Do: "text", Text: strings.Repeat("long ", 1000)},
				fakeagent.Step{Do: "bash", Command: command},
				fakeagent.Step{Do: "text", Text: "done"}, fakeagent.Step{Do: "result"},
			)
			task.ID = "damaged"
			task.Env["T"] = filepath.Join(s.store.RunDir(task.ID), "transcript")
			rep, err := rein.Do(context.Background(), task, &s.opts)
			if err != nil {
				t.Fatal(err)
			}
			if rep.OK || !has(rep, rein.FoundTranscript) {
				t.Errorf("ok %v: %s", rep.OK, kinds(rep))
			}
		})
	}
}
