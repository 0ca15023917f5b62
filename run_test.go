package rein_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/transcript"
	"github.com/rein-run/rein/watch"
)

func hashFile(t testing.TB, path string) (int64, string) {
	t.Helper()
	n, sum, err := transcript.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	return n, sum
}

// One run of each agent, from prompt to proof.
func TestRun(t *testing.T) {
	for _, name := range []string{"claude", "codex", "pi", "gemini", "grok", "copilot"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			task := s.scenario(name, fakeagent.Scenario{Steps: []fakeagent.Step{
				{Do: "text", Text: "I will write it."},
				{Do: "write", Path: filepath.Join(s.dir, "made.txt"), Text: "made\n"},
				{Do: "bash", Command: "echo ran > ran.txt"},
				{Do: "text", Text: "All done.", Usage: &fakeagent.Usage{In: 1000, Out: 200}},
				{Do: "result"},
			}})
			task.Labels = map[string]string{"ci": "42"}
			rep := s.do(task)
			if !rep.OK || rep.End != (rein.End{Kind: rein.Exited}) || rep.ExitCode() != 0 {
				t.Fatalf("end %+v, ok %v, %s, %+v", rep.End, rep.OK, rep.Failure, rep.Findings)
			}
			if rep.Answer != "All done." {
				t.Errorf("answer %q", rep.Answer)
			}
			if rep.Usage.ToolCalls != 2 || name != "copilot" && (rep.Usage.InputTokens < 1000 || rep.Usage.OutputTokens < 200) { // copilot tells none
				t.Errorf("usage %+v", rep.Usage)
			}
			if rep.SessionID == "" || rep.AgentVersion == "" || rep.Labels["ci"] != "42" || rep.Host != "local:" {
				t.Errorf("report lacks what it should say: %+v", rep)
			}
			for _, f := range []string{"made.txt", "ran.txt"} {
				if _, err := os.Stat(filepath.Join(s.dir, f)); err != nil {
					t.Errorf("the tool did not run: %v", err)
				}
			}
			if rep.Boundary.Checked || rep.Boundary.Why == "" {
				t.Errorf("no repository, and boundary says %+v", rep.Boundary)
			}
		})
	}
}

// What an agent leaves behind is ended and named, whichever way it hid, after a
// normal exit, a clock and a cancel, and however the tree is held.
func TestNobodyIsLeft(t *testing.T) {
	ways := []string{"child", "setsid", "double_fork", "env_i", "busy", "hold_stdout", "tool"}
	for _, m := range means {
		for i, way := range ways {
			if !everyWay && m.name != "keeper" && i > 0 {
				continue // the fast loop tries every way with the keeper alone
			}
			if m.name == "in-process" && way == "env_i" {
				// Without a subreaper a reparented process that dropped the marker
				// and its session cannot be told from anybody else's. This is why
				// the report says "marker" there, and why RequireContainment exists.
				continue
			}
			t.Run(m.name+"/"+way, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.opts.Containment = m.by
				if !m.keeper {
					s.opts.Keeper = nil
				}
				rep := s.do(s.task(
					fakeagent.Step{Do: "spawn", How: way, Ignore: true},
					fakeagent.Step{Do: "text", Text: "bye"},
					fakeagent.Step{Do: "result"},
				))
				if !rep.OK || !has(rep, rein.FoundLeftovers) || len(rep.Leftovers) == 0 {
					t.Errorf("ok %v (%s), leftovers %v, findings %s", rep.OK, rep.Failure, rep.Leftovers, kinds(rep))
				}
				if rep.Answer != "bye" {
					t.Errorf("answer %q", rep.Answer)
				}
			})
		}
	}
}

// A clock ends the whole tree, a child that ignores TERM included, and keeps
// the tail that the agent prints on TERM.
func TestClockEndsTheTreeAndKeepsTheTail(t *testing.T) {
	for _, m := range means {
		if !everyWay && m.name != "keeper" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.opts.Containment = m.by
			if !m.keeper {
				s.opts.Keeper = nil
			}
			task := s.task(
				fakeagent.Step{Do: "on_term", Text: `{"tail":"kept"}` + "\n"},
				fakeagent.Step{Do: "spawn", How: "setsid", Ignore: true},
				fakeagent.Step{Do: "text", Text: "working"},
				fakeagent.Step{Do: "hang"},
			)
			task.Clocks = watch.Clocks{Idle: time.Second, Grace: 3 * time.Second}
			rep := s.do(task)
			if rep.End != (rein.End{Kind: rein.TimedOut, Detail: "idle"}) || rep.ExitCode() != 3 {
				t.Fatalf("end %+v: %s", rep.End, rep.Failure)
			}
			b, err := os.ReadFile(rep.Transcript.Path)
			if err != nil || !bytes.HasSuffix(b, []byte(`{"tail":"kept"}`+"\n")) {
				t.Errorf("the tail is lost: %v, …%q", err, b[max(0, len(b)-80):])
			}
			if rep.Exit.Code == nil || *rep.Exit.Code != 143 {
				t.Errorf("the agent's own code on TERM is advice and is kept: %+v", rep.Exit)
			}
		})
	}
}

// The scripted agent's hostile modes. Each run has an end, a report that says
// the truth, a transcript with every byte, and leaves nobody.
func TestHostile(t *testing.T) {
	text := fakeagent.Step{Do: "text", Text: "fine"}
	result := fakeagent.Step{Do: "result"}
	zero := 0
	for _, c := range []struct {
		name  string
		steps []fakeagent.Step
		tune  func(*rein.Task)
		check func(t *testing.T, rep *rein.Report)
	}{
		{
			name: "long line", steps: []fakeagent.Step{{Do: "long_line", Bytes: longLine}, text, result},
			check: okWith(func(t *testing.T, rep *rein.Report) {
				if rep.Transcript.Bytes < longLine {
					t.Errorf("transcript has %d bytes", rep.Transcript.Bytes)
				}
			}),
		},
		{name: "chunks around 64 KiB", steps: []fakeagent.Step{{Do: "chunks"}, text, result}, check: okWith(nil)},
		{name: "invalid UTF-8", steps: []fakeagent.Step{{Do: "invalid_utf8"}, text, result}, check: okWith(nil)},
		{name: "NUL", steps: []fakeagent.Step{{Do: "nul"}, text, result}, check: okWith(nil)},
		{name: "noise between lines", steps: []fakeagent.Step{{Do: "noise"}, text, {Do: "noise"}, result}, check: okWith(nil)},
		{
			name: "second result replaces the first", steps: []fakeagent.Step{{Do: "text", Text: "one"}, result, {Do: "text", Text: "two"}, result},
			check: okWith(func(t *testing.T, rep *rein.Report) {
				if rep.Answer != "two" {
					t.Errorf("answer %q", rep.Answer)
				}
			}),
		},
		{
			name: "never exits after its result", steps: []fakeagent.Step{text, result, {Do: "hang"}},
			tune: func(task *rein.Task) { task.Clocks.Completion = 300 * time.Millisecond },
			check: okWith(func(t *testing.T, rep *rein.Report) {
				if !rep.End.Forced {
					t.Errorf("end %+v", rep.End)
				}
			}),
		},
		{
			name: "exits 0 with no output", steps: []fakeagent.Step{{Do: "exit", Code: &zero}},
			check: failedWith(rein.FoundTerminalMissing),
		},
		{
			name: "killed by a stranger", steps: []fakeagent.Step{text, {Do: "signal", Signal: "SIGKILL"}},
			check: failedWith(rein.FoundSignaled),
		},
		{
			name: "half a line at the end", steps: []fakeagent.Step{text, result, {Do: "half_line"}}, check: okWith(nil),
		},
		{
			name: "stdout held by a grandchild", steps: []fakeagent.Step{{Do: "spawn", How: "hold_stdout", Millis: 60_000}, text, result},
			check: okWith(func(t *testing.T, rep *rein.Report) {
				if len(rep.Leftovers) == 0 {
					t.Error("it is not named")
				}
			}),
		},
		{
			name: "ignores TERM", steps: []fakeagent.Step{{Do: "ignore_term"}, text, {Do: "hang"}},
			tune: func(task *rein.Task) { task.Clocks.Idle, task.Clocks.Grace = time.Second, 200*time.Millisecond },
			check: func(t *testing.T, rep *rein.Report) {
				if rep.End.Kind != rein.TimedOut || rep.Exit.Signal == nil || *rep.Exit.Signal != "SIGKILL" {
					t.Errorf("end %+v exit %+v", rep.End, rep.Exit)
				}
			},
		},
		{
			name: "silent from the start", steps: []fakeagent.Step{{Do: "hang"}},
			tune: func(task *rein.Task) { task.Clocks.Startup = time.Second },
			check: func(t *testing.T, rep *rein.Report) {
				if rep.End != (rein.End{Kind: rein.TimedOut, Detail: "startup"}) {
					t.Errorf("end %+v", rep.End)
				}
			},
		},
		{
			name: "chatty for ever", steps: []fakeagent.Step{text, {Do: "chatty"}},
			tune: func(task *rein.Task) { task.Clocks.Total = 2 * time.Second },
			check: func(t *testing.T, rep *rein.Report) {
				if rep.End != (rein.End{Kind: rein.TimedOut, Detail: "total"}) {
					t.Errorf("end %+v", rep.End)
				}
			},
		},
		{
			name: "too much output", steps: []fakeagent.Step{text, {Do: "flood", Bytes: 1 << 30}, result},
			tune: func(task *rein.Task) { task.Limits.Output = 20 << 20 },
			check: func(t *testing.T, rep *rein.Report) {
				if rep.End != (rein.End{Kind: rein.OverBudget, Detail: "output"}) || rep.ExitCode() != 5 {
					t.Errorf("end %+v", rep.End)
				}
			},
		},
		{
			name: "too many processes", steps: []fakeagent.Step{text, {Do: "spawn", How: "tree", Count: 100}, {Do: "hang"}},
			tune: func(task *rein.Task) { task.Limits.Procs = 50 },
			check: func(t *testing.T, rep *rein.Report) {
				if rep.End != (rein.End{Kind: rein.OverBudget, Detail: "processes"}) {
					t.Errorf("end %+v", rep.End)
				}
			},
		},
		{
			name: "too much memory", steps: []fakeagent.Step{text, {Do: "spawn", How: "tree", Count: 20}, {Do: "hang"}},
			tune: func(task *rein.Task) { task.Limits.Memory = 8 << 20 },
			check: func(t *testing.T, rep *rein.Report) {
				if rep.End != (rein.End{Kind: rein.OverBudget, Detail: "memory"}) || rep.Resources.RSSMaxBytes < 8<<20 {
					t.Errorf("end %+v, %d bytes", rep.End, rep.Resources.RSSMaxBytes)
				}
			},
		},
		{
			name: "short children", steps: []fakeagent.Step{{Do: "spawn", How: "many", Count: shortChildren}, text, result}, check: okWith(nil),
		},
		{
			name: "stream", steps: []fakeagent.Step{{Do: "flood", Bytes: streamBytes, Size: 4096, Every: 50}, text, result},
			check: okWith(func(t *testing.T, rep *rein.Report) {
				if rep.Transcript.Bytes < streamBytes {
					t.Errorf("transcript has %d bytes", rep.Transcript.Bytes)
				}
			}),
		},
		{
			name: "401 for ever", steps: []fakeagent.Step{{Do: "retry", Status: 401, Count: 10, Millis: 100}, {Do: "hang"}},
			check: func(t *testing.T, rep *rein.Report) {
				if rep.End != (rein.End{Kind: rein.GaveUp, Detail: "auth"}) || rep.ExitCode() != 11 || !has(rep, rein.FoundAuth) {
					t.Errorf("end %+v, %s", rep.End, kinds(rep))
				}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			task := s.task(c.steps...)
			if c.tune != nil {
				c.tune(&task)
			}
			c.check(t, s.do(task))
		})
	}
}

func okWith(more func(*testing.T, *rein.Report)) func(*testing.T, *rein.Report) {
	return func(t *testing.T, rep *rein.Report) {
		t.Helper()
		if !rep.OK || rep.End.Kind != rein.Exited {
			t.Errorf("ok %v, end %+v: %s (%s)", rep.OK, rep.End, rep.Failure, kinds(rep))
		}
		if more != nil {
			more(t, rep)
		}
	}
}

func failedWith(kind string) func(*testing.T, *rein.Report) {
	return func(t *testing.T, rep *rein.Report) {
		t.Helper()
		if rep.OK || rep.End.Kind != rein.Exited || !has(rep, kind) || rep.ExitCode() != 1 {
			t.Errorf("ok %v, end %+v, findings %s, want %s", rep.OK, rep.End, kinds(rep), kind)
		}
	}
}

// The owner's context, Cancel, and a second Cancel that does not wait.
func TestCancel(t *testing.T) {
	hang := []fakeagent.Step{{Do: "ignore_term"}, {Do: "spawn", How: "env_i", Ignore: true}, {Do: "text", Text: "x"}, {Do: "hang"}}
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		task := s.task(hang...)
		task.Clocks.Grace = 100 * time.Millisecond
		s.opts.Hooks = &rein.Hooks{Spawned: func(*rein.Run) { cancel(rein.CancelledBy(rein.CancelHangup)) }}
		r, err := rein.Start(ctx, task, &s.opts)
		if err != nil {
			t.Fatal(err)
		}
		rep := s.wait(r)
		if rep.End != (rein.End{Kind: rein.Cancelled, Detail: rein.CancelHangup}) || rep.ExitCode() != rein.ExitHangup {
			t.Errorf("end %+v", rep.End)
		}
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		task := s.task(hang...)
		task.Clocks.Grace = 24 * time.Hour
		r := s.start(task)
		r.Cancel(rein.CancelInterrupt)
		r.Cancel(rein.CancelInterrupt)
		rep := s.wait(r) // would take a day with the grace
		if rep.End != (rein.End{Kind: rein.Cancelled, Detail: rein.CancelInterrupt}) {
			t.Errorf("end %+v", rep.End)
		}
	})
}

// Another process reaches the run through its socket.
func TestControl(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.start(s.task(fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "hang"}))
	m, err := rein.Attach(s.store, r.ID()[:len(r.ID())-1])
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	left := func() time.Duration {
		st, err := m.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range st.Watch.Clocks {
			if c.Clock == "total" {
				return c.Limit
			}
		}
		t.Fatalf("no total clock in %+v", st)
		return 0
	}
	before := left()
	if err := m.Extend(ctx, "total", time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != before+time.Hour {
		t.Errorf("total is %s after an hour more than %s", got, before)
	}
	if err := m.Extend(ctx, "lunch", time.Hour); err == nil {
		t.Error("an unknown clock was extended")
	}
	if err := m.Stop(ctx, false); err != nil {
		t.Fatal(err)
	}
	rep := s.wait(r)
	if rep.End != (rein.End{Kind: rein.Cancelled, Detail: rein.CancelStop}) || rep.ExitCode() != 143 {
		t.Errorf("end %+v", rep.End)
	}
	if _, err := rein.Attach(s.store, r.ID()); !errors.Is(err, rein.ErrNotLive) {
		t.Errorf("attach after the end: %v", err)
	}
}

// A hook that blocks delays nothing, and one that panics harms nothing.
func TestHooksCannotHurt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	release := make(chan struct{})
	defer close(release)
	s.opts.Hooks = &rein.Hooks{
		Spawned: func(*rein.Run) { panic("mine") },
		Output:  func(driver.Stream, []byte) { <-release },
		Reading: func(agent.Reading) { <-release },
	}
	rep := s.do(s.task(fakeagent.Step{Do: "flood", Bytes: 16 << 20}, fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "result"}))
	if !rep.OK {
		t.Errorf("%s", rep.Failure)
	}
}

func TestHooksAreCalled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var spawned int
	var out bytes.Buffer
	var said []string
	s.opts.Hooks = &rein.Hooks{
		Spawned: func(*rein.Run) { spawned++ },
		Output:  func(st driver.Stream, p []byte) { out.Write(p) },
		Reading: func(r agent.Reading) {
			if r.Kind == agent.KindText {
				said = append(said, r.Text)
			}
		},
	}
	rep := s.do(s.task(fakeagent.Step{Do: "text", Text: "hello"}, fakeagent.Step{Do: "result"}))
	b, err := os.ReadFile(rep.Transcript.Path)
	if err != nil || !bytes.Equal(b, out.Bytes()) {
		t.Errorf("the hook saw %d bytes of %d: %v", out.Len(), len(b), err)
	}
	if spawned != 1 || strings.Join(said, "|") != "hello" {
		t.Errorf("spawned %d times, said %q", spawned, said)
	}
}

// HEAD and refs are compared on every way out.
func TestBoundary(t *testing.T) {
	commit := []fakeagent.Step{{Do: "commit", Path: "work.txt", Sly: true}, {Do: "text", Text: "committed"}}
	for _, c := range []struct {
		name string
		last fakeagent.Step
		tune func(*rein.Task)
		end  rein.EndKind
	}{
		{"exit", fakeagent.Step{Do: "result"}, func(*rein.Task) {}, rein.Exited},
		{"clock", fakeagent.Step{Do: "hang"}, func(task *rein.Task) { task.Clocks.Idle = 2 * time.Second }, rein.TimedOut},
		{"killed by a stranger", fakeagent.Step{Do: "signal", Signal: "SIGKILL"}, func(*rein.Task) {}, rein.Exited},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			git(t, s.dir, "init", "-q", "-b", "main")
			git(t, s.dir, "commit", "-q", "--allow-empty", "-m", "one")
			head := git(t, s.dir, "rev-parse", "HEAD")
			task := s.task(append(commit, c.last)...)
			c.tune(&task)
			rep := s.do(task)
			if rep.End.Kind != c.end || rep.OK || rep.ExitCode() != rein.ExitBoundary || !has(rep, rein.FoundBoundary) {
				t.Fatalf("end %+v, exit %d, %s", rep.End, rep.ExitCode(), kinds(rep))
			}
			if len(rep.Boundary.Changes) == 0 || rep.Boundary.Changes[0].Restore == "" {
				t.Fatalf("boundary %+v", rep.Boundary)
			}
			restore := rep.Boundary.Changes[0].Restore
			git(t, s.dir, strings.Fields(strings.TrimPrefix(restore, "git "))...)
			if got := git(t, s.dir, "rev-parse", "HEAD"); got != head {
				t.Errorf("%q did not restore %s, HEAD is %s", restore, head, got)
			}
		})
	}
	t.Run("work without a commit is clean", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		git(t, s.dir, "init", "-q")
		rep := s.do(s.task(fakeagent.Step{Do: "write", Path: filepath.Join(s.dir, "x"), Text: "x"}, fakeagent.Step{Do: "result"}))
		if !rep.OK || !rep.Boundary.Checked || !rep.Boundary.Clean {
			t.Errorf("ok %v, boundary %+v", rep.OK, rep.Boundary)
		}
	})
}

// Two runs in two working trees of one repository, and somebody who works in the
// main checkout: each answers for itself alone, and for what leaves the machine.
func TestEachRunAnswersForItself(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	git(t, s.dir, "init", "-q", "-b", "main")
	git(t, s.dir, "commit", "-q", "--allow-empty", "-m", "one")
	origin := filepath.Join(t.TempDir(), "origin.git")
	git(t, s.dir, "init", "-q", "--bare", origin)
	git(t, s.dir, "remote", "add", "origin", origin)
	at := func(name string) string {
		dir := filepath.Join(t.TempDir(), name)
		git(t, s.dir, "worktree", "add", "-q", "-b", name, dir)
		return dir
	}
	one, two := at("one"), at("two")
	s.opts.OthersWorkHere = true
	task := s.task(fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "hang"})
	task.Dir = one
	r := s.start(task)

	task = s.task(
		fakeagent.Step{Do: "commit", Path: "work.txt", Sly: true},
		fakeagent.Step{Do: "bash", Command: "git push -q origin two", Sly: true},
		fakeagent.Step{Do: "result"},
	)
	task.Dir = two
	bad := s.do(task)
	if bad.ExitCode() != rein.ExitBoundary || len(bad.Boundary.Changes) != 3 {
		t.Errorf("exit %d, %+v", bad.ExitCode(), bad.Boundary)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Cancel(rein.CancelContext)
	good := s.wait(r)
	var whose []string
	for _, c := range good.Boundary.Others {
		whose = append(whose, c.What+" by "+c.By)
	}
	slices.Sort(whose)
	// What leaves the machine cannot be told from this run's own, and counts.
	want := []string{"committed by run " + bad.ID, "wrote into the main checkout by others"}
	if !slices.Equal(whose, want) || !has(good, rein.FoundMovedByOthers) {
		t.Errorf("others %q, %s", whose, kinds(good))
	}
	for _, c := range good.Boundary.Changes {
		if !strings.HasPrefix(c.What, "remote") {
			t.Errorf("%+v counts", c)
		}
	}
	if len(good.Boundary.Remotes) != 1 || !good.Boundary.Remotes[0].Checked {
		t.Errorf("remotes %+v", good.Boundary.Remotes)
	}
}

// Two runs that write in one directory: the second is refused and told by whom.
func TestOneWriterPerDirectory(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.start(s.task(fakeagent.Step{Do: "text", Text: "x"}, fakeagent.Step{Do: "hang"}))
	_, err := rein.Start(context.Background(), s.task(), &s.opts)
	if err == nil || !strings.Contains(err.Error(), r.ID()) {
		t.Errorf("second run in one directory: %v", err)
	}
	r.Cancel(rein.CancelContext)
	s.wait(r)
	if rep := s.do(s.task()); !rep.OK {
		t.Errorf("after the first one ended: %s", rep.Failure)
	}
}

// A secret that the agent prints stays in the transcript alone.
func TestSecretStaysInTheTranscript(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3a9c2e51"
	s := newStage(t)
	task := s.task(fakeagent.Step{Do: "text", Text: "the key is " + canary}, fakeagent.Step{Do: "stderr", Text: canary}, fakeagent.Step{Do: "result", Error: true, Status: 401, Text: "bad key " + canary})
	task.Env["ANTHROPIC_API_KEY"] = canary
	task.Labels = map[string]string{"note": "it is " + canary}
	rep := s.do(task)
	err := filepath.WalkDir(filepath.Dir(rep.Transcript.Path), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		found := bytes.Contains(b, []byte(canary))
		if exact := d.Name() == "transcript" || d.Name() == "stderr"; found && !exact {
			t.Errorf("the secret is in %s", d.Name())
		} else if !found && exact {
			t.Errorf("the secret is not in %s: nothing was proved", d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A resumed conversation is charged for its own run alone, though codex tells
// only the sum of all.
func TestResumeIsChargedOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	steps := []fakeagent.Step{{Do: "text", Text: "x", Usage: &fakeagent.Usage{In: 100, Out: 50}}, {Do: "result"}}
	first := s.do(s.scenario("codex", fakeagent.Scenario{Session: "thread-1", Steps: steps}))
	task := s.scenario("codex", fakeagent.Scenario{Session: "thread-1", Before: fakeagent.Usage{In: 100, Out: 50}, Steps: steps})
	task.Session.Resume = first.SessionID
	second := s.do(task)
	for _, rep := range []*rein.Report{first, second} {
		if rep.Usage.InputTokens != 100 || rep.Usage.OutputTokens != 50 {
			t.Errorf("%s: usage %+v", rep.ID, rep.Usage)
		}
	}
}
