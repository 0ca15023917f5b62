package rein_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/internal/fakeagent"
)

// An attempt that had worked goes on in its session; each is a run of its own.
func TestRetryGoesOn(t *testing.T) {
	for _, name := range []string{"claude", "codex", "pi", "grok", "copilot"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			script, record := filepath.Join(t.TempDir(), "script"), filepath.Join(t.TempDir(), "record")
			play := func(steps ...fakeagent.Step) {
				t.Helper()
				if err := os.WriteFile(script, []byte(fakeagent.Scenario{Steps: steps}.JSON()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			task := s.scenario(name, fakeagent.Scenario{})
			task.Env[fakeagent.EnvScenario], task.Env[fakeagent.EnvRecord] = script, record
			task.ID = "task"
			play(fakeagent.Step{Do: "bash", Command: "echo one >> did"}, fakeagent.Step{Do: "result", Status: 503, Text: "503 Service Unavailable: overloaded"})
			var started []string
			var failed []*rein.Report
			rep, err := rein.Retry(context.Background(), task, &rein.RetryOptions{
				Retries: 1, Backoff: time.Millisecond,
				Started: func(r *rein.Run) { started = append(started, r.ID()) },
				Again: func(rep *rein.Report, p rein.Pause) {
					failed = append(failed, rep)
					if p.Reason != rein.FoundOverloaded || p.Session == "" || p.Session != rep.SessionID {
						t.Errorf("pause %+v after session %q", p, rep.SessionID)
					}
					play(fakeagent.Step{Do: "text", Text: "All done."}, fakeagent.Step{Do: "result"})
				},
			}, &s.opts)
			if err != nil {
				t.Fatal(err)
			}
			s.proof(rep)
			if !rep.OK || rep.Answer != "All done." || rep.Attempt != 2 || rep.RetryOf != "task" || rep.ID != "task-2" {
				t.Errorf("ok %v, answer %q, attempt %d of %q, id %s: %s", rep.OK, rep.Answer, rep.Attempt, rep.RetryOf, rep.ID, rep.Failure)
			}
			if !slices.Equal(started, []string{"task", "task-2"}) || len(failed) != 1 {
				t.Fatalf("started %q, %d failed", started, len(failed))
			}
			if len(rep.Attempts) != 2 || rep.Attempts[0].ID != "task" || rep.Attempts[1].ID != "task-2" || len(failed[0].Attempts) != 0 ||
				rep.Spent().Counted() != rep.Usage.Counted()+failed[0].Usage.Counted() || rep.Spent().ToolCalls != 1 {
				t.Errorf("attempts %+v, in all %+v", rep.Attempts, rep.Spent())
			}
			s.proof(failed[0])
			if f := failed[0]; f.Attempt != 1 || f.RetryOf != "" || !has(f, rein.FoundOverloaded) || rep.SessionID != f.SessionID {
				t.Errorf("first: attempt %d of %q, %+v, session %q then %q", f.Attempt, f.RetryOf, f.Findings, f.SessionID, rep.SessionID)
			}
			calls, err := fakeagent.Records(record)
			if err != nil || len(calls) != 2 {
				t.Fatalf("%d calls, %v", len(calls), err)
			}
			if argv := strings.Join(calls[1].Argv, " "); !strings.Contains(argv, failed[0].SessionID) ||
				name != "grok" && name != "copilot" && strings.Contains(strings.Join(calls[0].Argv, " "), failed[0].SessionID) { // whose first is named too
				t.Errorf("the session is not continued: %s", argv)
			}
		})
	}
}

// Nothing had happened yet: the task is begun anew. A deadline is no reason to.
func TestRetryBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	task := s.task(fakeagent.Step{Do: "session"}, fakeagent.Step{Do: "result", Status: 529})
	var sessions []string
	rep, err := rein.Retry(context.Background(), task, &rein.RetryOptions{Retries: 2, Backoff: time.Millisecond, Again: func(_ *rein.Report, p rein.Pause) {
		sessions = append(sessions, p.Session)
	}}, &s.opts)
	if err != nil || rep.OK || rep.Attempt != 3 || !slices.Equal(sessions, []string{"", ""}) {
		t.Errorf("%+v, %v, sessions %q", rep, err, sessions)
	}
	task = s.task(fakeagent.Step{Do: "retry", Status: 529}, fakeagent.Step{Do: "hang"})
	task.Clocks.Total = 3 * time.Second
	rep, err = rein.Retry(context.Background(), task, &rein.RetryOptions{Retries: 2, Backoff: time.Millisecond}, &s.opts)
	if err != nil || rep.End != (rein.End{Kind: rein.TimedOut, Detail: "total"}) || rep.Attempt != 1 {
		t.Errorf("%+v, %v", rep.End, err)
	}
}

// The reset that the CLI told in an event is in the report although its result
// says only "429", and is waited for until somebody does not want to any more.
func TestWaitForLimit(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	task := s.task(
		fakeagent.Step{Do: "text", Text: "I begin."},
		fakeagent.Step{Do: "raw", Text: `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":` + strconv.FormatInt(at.Unix(), 10) + `,"rateLimitType":"five_hour"}}` + "\n"},
		fakeagent.Step{Do: "result", Status: 429},
	)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var pause rein.Pause
	rep, err := rein.Retry(ctx, task, &rein.RetryOptions{LimitWait: rein.DefaultLimitWait, Again: func(_ *rein.Report, p rein.Pause) {
		pause = p
		cancel(rein.CancelledBy(rein.CancelInterrupt))
	}}, &s.opts)
	if rein.CancelledWho(err) != rein.CancelInterrupt || !pause.Limit || pause.Until.Before(at) || pause.Until.After(at.Add(time.Minute)) || pause.Session == "" {
		t.Errorf("%v, %+v, reset at %s", err, pause, at)
	}
	i := slices.IndexFunc(rep.Findings, func(f rein.Finding) bool { return f.Kind == rein.FoundRateLimited })
	if i < 0 || rep.Findings[i].Until == nil || !rep.Findings[i].Until.Equal(at) {
		t.Errorf("%+v, reset at %s", rep.Findings, at)
	}
}

// A slash command that is not there is said so, in the CLI's own words, although
// its result claims success.
func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rep := s.do(s.task(fakeagent.Step{Do: "session"}, fakeagent.Step{Do: "result", Text: "Unknown slash command: deploy"}))
	if rep.OK || !has(rep, rein.FoundUnknownCommand) || has(rep, rein.FoundNoWork) || !strings.Contains(rep.Failure, "Unknown slash command: deploy") {
		t.Errorf("ok %v, %+v: %s", rep.OK, rep.Findings, rep.Failure)
	}
}
