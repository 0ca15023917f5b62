//go:build unix

package rein_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/host/keeper/proctree"
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

// The agent runs as the same user, and can write the record that the keeper
// leaves. One that names process 1, which nothing here signals, makes the sweep
// after a dead keeper impossible: the report says that nothing is proved, and
// the run stays unfinished until a reap can finish it.
func TestUnsweptStaysUnfinished(t *testing.T) {
	t.Parallel()
	first, err := proctree.Read(1)
	if err != nil || os.Getpid() == 1 {
		t.Fatal("process 1 has to be another one that can be seen: docker run --init, or /proc without hidepid: ", err)
	}
	s := newStage(t)
	r := s.start(s.task(hiding...))
	rec := recorded(t, r.Dir(), 3)
	t.Cleanup(func() { keeper.Reap(context.Background(), rec) })
	// Stopped first: else it might write the record again.
	if err := syscall.Kill(rec.Keeper.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		if p, err := proctree.Read(rec.Keeper.PID); err == nil && p.State == 'T' {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the keeper cannot be stopped")
		}
	}
	file := filepath.Join(r.Dir(), "keeper.json")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	forged := *rec
	forged.Keeper = driver.Proc{PID: first.PID, Name: first.Name, Start: first.Start}
	b, err := json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(rec.Keeper.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rep, err := r.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if rep.OK || rep.End.Kind != rein.Lost || rep.Containment != "" || !strings.Contains(rep.Failure, "ending the keeper") {
		t.Errorf("ok %v, end %+v, containment %q: %s", rep.OK, rep.End, rep.Containment, rep.Failure)
	}
	if len(s.alive()) == 0 {
		t.Fatal("nobody has outlived the keeper: nothing is tested")
	}
	if left, err := s.store.Unfinished(); err != nil || len(left) != 1 || left[0].Run.ID() != r.ID() {
		t.Fatalf("unfinished: %+v, %v", left, err)
	}

	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := rein.Reap(ctx, s.store, agent.Registry{})
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
			rep := s.do(s.task(fakeagent.Step{Do: "bash", Command: command, Sly: true}, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"}))
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

// Two state directories know nothing of each other: the reaper of one, which
// looks for marks where a keeper is dead, ends nobody in a run of the other that
// has the same name.
func TestOneNameInTwoStores(t *testing.T) {
	t.Parallel()
	dead, lives := newStage(t), newStage(t)
	cmd, id := dead.supervisor(fakeagent.Scenario{Steps: hiding})
	run, err := dead.store.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	rec := recorded(t, run.Dir(), 3)

	task := lives.task(hiding...)
	task.ID = id
	other := lives.start(task)
	recorded(t, other.Dir(), 3)

	if err := syscall.Kill(rec.Keeper.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	syscall.Kill(rec.Keeper.PID, syscall.SIGKILL)
	done, err := rein.Reap(context.Background(), dead.store, agent.Registry{})
	if err != nil || len(done) != 1 || done[0].Err != nil || done[0].Report == nil {
		t.Fatalf("reaped %+v, %v", done, err)
	}
	dead.proof(done[0].Report)
	other.Cancel(rein.CancelStop)
	other.Cancel(rein.CancelStop)
	if rep := lives.wait(other); rep.End.Kind != rein.Cancelled {
		t.Errorf("end %+v: %s", rep.End, rep.Failure)
	}
}
