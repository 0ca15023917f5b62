//go:build real

package real

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/internal/fakemodel"
	"github.com/rein-run/rein/store"
	"github.com/rein-run/rein/transcript"
)

// patience bounds what a test waits for on a loaded machine.
const patience = 3 * time.Minute

// build makes the commands once, as a user has them.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rein-real-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir, "github.com/rein-run/rein/cmd/rein", "github.com/rein-run/rein/cmd/rein-keeper")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

// stage is a private place for one run of a real CLI.
type stage struct {
	t     *testing.T
	s     subject
	dir   string
	model *fakemodel.Server
	store *store.Store
	bin   string
	task  rein.Task
	opts  rein.Options
}

func newStage(t *testing.T, s subject, script fakemodel.Script) *stage {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := fakemodel.New(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	home := t.TempDir()
	setup, err := s.setup(srv, filepath.Join(home, "home"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(stateDir(t))
	if err != nil {
		t.Fatal(err)
	}
	cli := s.cli(t)
	env := driver.Env{"PATH": cli.Path(os.Getenv("PATH"))}
	for k, v := range setup.Env {
		env[k] = v
	}
	name, _, _ := strings.Cut(s.name, "-")
	g := &stage{
		t: t, s: s, dir: t.TempDir(), model: srv, store: st, bin: bin,
		task: rein.Task{Prompt: "do the work", Agent: name, Env: env},
		opts: rein.Options{Store: st, Keeper: []string{filepath.Join(bin, "rein-keeper")}, Exes: map[string]string{name: cli.Exe}},
	}
	g.task.Dir = g.dir
	g.task.Args = setup.Args
	if i := slices.Index(g.task.Args, "--model"); i >= 0 {
		g.task.Model = g.task.Args[i+1]
		g.task.Args = slices.Delete(slices.Clone(g.task.Args), i, i+2)
	}
	return g
}

// stateDir is where a user has it: not below the temporary folder, where gemini
// takes no settings from.
func stateDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "rein")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "test-state-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (g *stage) start() *rein.Run {
	g.t.Helper()
	r, err := rein.Start(context.Background(), g.task, &g.opts)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { r.Kill(context.Background()) })
	return r
}

func (g *stage) wait(r *rein.Run) *rein.Report {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rep, err := r.Wait(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	n, sum, err := transcript.Sum(rep.Transcript.Path)
	if err != nil || n != rep.Transcript.Bytes || sum != rep.Transcript.SHA256 {
		g.t.Errorf("transcript %d bytes %s, the report says %d %s: %v", n, sum, rep.Transcript.Bytes, rep.Transcript.SHA256, err)
	}
	if len(rep.Survivors) > 0 {
		g.t.Errorf("survivors %v", rep.Survivors)
	}
	return rep
}

func (g *stage) do() *rein.Report { g.t.Helper(); return g.wait(g.start()) }

// says is the end of the transcript, for a failed test's message.
func says(rep *rein.Report) string {
	b, _ := os.ReadFile(rep.Transcript.Path)
	e, _ := os.ReadFile(rep.Stderr.Path)
	return fmt.Sprintf("%s\n…%s\nstderr %s", rep.Failure, b[max(0, len(b)-1500):], e[max(0, len(e)-500):])
}

func has(rep *rein.Report, kind string) bool {
	return slices.ContainsFunc(rep.Findings, func(f rein.Finding) bool { return f.Kind == kind })
}

func eachCLI(t *testing.T, f func(*testing.T, subject)) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

// A scripted task with real tool calls: a file is written, a command runs.
func TestReinDoesTheTask(t *testing.T) {
	eachCLI(t, func(t *testing.T, s subject) {
		var g *stage
		dir := t.TempDir()
		g = newStage(t, s, fakemodel.Script{Turns: []fakemodel.Turn{
			{Text: "I will write.", Tools: []fakemodel.Call{s.write(filepath.Join(dir, "made.txt"), "made\n")}, In: 300, Out: 30},
			{Text: "And run.", Tools: []fakemodel.Call{s.shell("echo ran > ran.txt")}, In: 400, Out: 40},
			{Text: "All is done.", In: 500, Out: 60},
		}})
		g.dir, g.task.Dir = dir, dir
		rep := g.do()
		if !rep.OK || rep.End != (rein.End{Kind: rein.Exited}) || rep.Answer != "All is done." {
			t.Fatalf("ok %v, end %+v, answer %q, findings %+v: %s", rep.OK, rep.End, rep.Answer, rep.Findings, says(rep))
		}
		for name, want := range map[string]string{"made.txt": "made\n", "ran.txt": "ran\n"} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		told := g.model.Told()
		if u := rep.Usage; !s.untold && (u.InputTokens != told.Input || u.OutputTokens != told.Output) || u.ToolCalls < 2 {
			t.Errorf("usage %+v, the model told %+v", u, told)
		}
		if rep.SessionID == "" || rep.AgentVersion != s.cli(t).Version || rep.Containment == driver.ByMarker {
			t.Errorf("session %q, version %q, containment %s", rep.SessionID, rep.AgentVersion, rep.Containment)
		}
		t.Logf("%s %s: %d in, %d out, %d tool calls, $%.4f (%s), model %s, leftovers %v", rep.Agent, rep.AgentVersion,
			rep.Usage.InputTokens, rep.Usage.OutputTokens, rep.Usage.ToolCalls, rep.Usage.CostUSD, rep.Usage.CostSource, rep.ModelUsed, rep.Leftovers)
	})
}

// A login that fails is said so, early, and never as success: pi exits 0.
func TestReinFailsHonestlyOn401(t *testing.T) {
	eachCLI(t, func(t *testing.T, s subject) {
		g := newStage(t, s, fakemodel.Script{Turns: []fakemodel.Turn{{Status: 401, ErrMessage: "invalid key", Repeat: -1}}})
		rep := g.do()
		if rep.OK || !has(rep, rein.FoundAuth) {
			t.Fatalf("ok %v, findings %+v: %s", rep.OK, rep.Findings, says(rep))
		}
		want := rein.End{Kind: rein.Exited}
		if g.task.Agent == "claude" || g.task.Agent == "codex" || g.task.Agent == "copilot" { // the others do not retry
			want = rein.End{Kind: rein.GaveUp, Detail: "auth"}
		}
		if rep.End != want {
			t.Errorf("end %+v, want %+v: %s", rep.End, want, says(rep))
		}
		if n := len(g.model.Requests()); n > 4 {
			t.Errorf("%d requests: it was not stopped at the second retry", n)
		}
	})
}

// An error of the model that no retry helps against.
func TestReinFailsHonestlyOnModelError(t *testing.T) {
	eachCLI(t, func(t *testing.T, s subject) {
		g := newStage(t, s, fakemodel.Script{Turns: []fakemodel.Turn{{Status: 400, ErrMessage: "the model exploded", Repeat: -1}}})
		rep := g.do()
		if rep.OK || rep.ExitCode() != rein.ExitFailed || !has(rep, rein.FoundReportedError) {
			t.Fatalf("ok %v, exit %d, findings %+v: %s", rep.OK, rep.ExitCode(), rep.Findings, says(rep))
		}
		if !strings.Contains(rep.Failure, "the model exploded") {
			t.Errorf("failure %q", rep.Failure)
		}
	})
}

// hiding are the ways in which a shell tool leaves something running. Each
// writes the pid of what it left.
var hiding = map[string]string{
	"background":  `python3 -c 'import time; time.sleep(3600)' & echo $! >> pids`,
	"nohup":       `nohup python3 -c 'import time; time.sleep(3600)' > /dev/null 2>&1 & echo $! >> pids`,
	"setsid":      `setsid python3 -c 'import os, time; open("pids", "a").write(str(os.getpid()) + "\n"); time.sleep(3600)' > /dev/null 2>&1 &`,
	"setsid fork": `setsid -f python3 -c 'import os, time; open("pids", "a").write(str(os.getpid()) + "\n"); time.sleep(3600)' > /dev/null 2>&1`,
	"term proof":  `(trap '' TERM INT HUP; python3 -c 'import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(3600)') > /dev/null 2>&1 & echo $! >> pids`,
}

// pids are the processes that the tool says it left; it waits until all are
// written.
func (g *stage) pids(n int) []int { g.t.Helper(); return g.pidsOf(nil, n) }

// pidsOf gives up when the run is over, and returns those that are written.
func (g *stage) pidsOf(r *rein.Run, n int) []int {
	g.t.Helper()
	over := make(chan struct{})
	if r != nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			if _, err := r.Wait(ctx); err == nil {
				close(over)
			}
		}()
	}
	for end := time.Now().Add(patience); ; {
		var pids []int
		b, _ := os.ReadFile(filepath.Join(g.dir, "pids"))
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
		if len(pids) >= n {
			return pids
		}
		if time.Now().After(end) {
			g.t.Fatalf("the tool started %d of %d", len(pids), n)
		}
		select {
		case <-over:
			return pids
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func alive(pids []int) (out []int) {
	for _, pid := range pids {
		if p, err := proctree.Read(pid); err == nil && !p.Dead() {
			out = append(out, pid)
		}
	}
	return out
}

// every is one shell command that leaves one process in each hiding place, and
// goes on only when all of them are there.
func every() (command string, n int) {
	var all []string
	for _, c := range hiding {
		if !strings.HasSuffix(c, "&") {
			c += ";"
		}
		all = append(all, "{ "+c+" }")
	}
	slices.Sort(all)
	return strings.Join(all, "; ") + fmt.Sprintf(`; while [ "$(wc -l < pids)" -lt %d ]; do :; done`, len(hiding)), len(hiding)
}

// What a real CLI's shell tool leaves is gone after a normal exit, and named.
func TestReinLeavesNobodyAfterExit(t *testing.T) {
	eachCLI(t, func(t *testing.T, s subject) {
		command, n := every()
		g := newStage(t, s, fakemodel.Script{Turns: []fakemodel.Turn{
			{Text: "run", Tools: []fakemodel.Call{s.shell(command + "; echo started")}}, {Text: "Bye."},
		}})
		rep := g.do()
		if left := alive(g.pids(n)); len(left) > 0 {
			t.Errorf("alive: %v", left)
		}
		if !rep.OK || rep.Answer != "Bye." || len(rep.Leftovers) == 0 || !has(rep, rein.FoundLeftovers) {
			t.Errorf("ok %v, answer %q, leftovers %v: %s", rep.OK, rep.Answer, rep.Leftovers, says(rep))
		}
	})
}

// Stopped in the middle of a tool, by a clock and by Ctrl-C: the tool, its
// children and what it left are gone, and the last line is there.
func TestReinStopsMidTool(t *testing.T) {
	for _, way := range []string{"clock", "Ctrl-C"} {
		t.Run(way, func(t *testing.T) {
			eachCLI(t, func(t *testing.T, s subject) {
				command, n := every()
				script := fakemodel.Script{Turns: []fakemodel.Turn{
					{Text: "This is my last line.", Tools: []fakemodel.Call{s.shell(command + `; python3 -c 'import os, time; open("pids", "a").write(str(os.getpid()) + "\n"); time.sleep(3600)'`)}}, {Text: "never"},
				}}
				want := rein.End{Kind: rein.Cancelled, Detail: rein.CancelInterrupt}
				g := newStage(t, s, script)
				var r *rein.Run
				var pids []int
				if way == "Ctrl-C" {
					r = g.start()
					pids = g.pids(n + 1)
					r.Cancel(rein.CancelInterrupt)
				} else {
					want = rein.End{Kind: rein.TimedOut, Detail: "tool"}
					// The clock runs from the start of the call: on a slow machine it
					// ends it before all of them have started, and gets more time.
					for clock := 15 * time.Second; ; clock *= 3 {
						g.task.Clocks.Tool = clock
						r = g.start()
						if pids = g.pidsOf(r, n+1); len(pids) > n || clock > 5*time.Minute {
							break
						}
						g.wait(r)
						g = newStage(t, s, script)
					}
				}
				rep := g.wait(r)
				if rep.End != want || len(pids) <= n {
					t.Errorf("end %+v, want %+v, %d of %d started: %s", rep.End, want, len(pids), n+1, says(rep))
				}
				if left := alive(pids); len(left) > 0 {
					t.Errorf("alive: %v", left)
				}
				b, err := os.ReadFile(rep.Transcript.Path)
				if err != nil || !strings.Contains(string(joined(b)), "This is my last line.") {
					t.Errorf("the last line is lost: %v", err)
				}
			})
		})
	}
}

// The command itself, on a real Ctrl-C.
func TestReinCommand(t *testing.T) {
	eachCLI(t, func(t *testing.T, s subject) {
		g := newStage(t, s, fakemodel.Script{Turns: []fakemodel.Turn{
			{Text: "x", Tools: []fakemodel.Call{s.shell(`python3 -c 'import os, time; open("pids", "a").write(str(os.getpid()) + "\n"); time.sleep(3600)'`)}}, {Text: "never"},
		}})
		args := []string{"--state-dir", g.store.Dir, "run", "--agent", g.task.Agent, "--agent-exe", g.opts.Exes[g.task.Agent], "-C", g.dir, "--report", filepath.Join(g.dir, "report.json")}
		for k, v := range g.task.Env {
			args = append(args, "--env", k+"="+v)
		}
		for _, a := range g.task.Args {
			args = append(args, "--agent-arg="+a)
		}
		if g.task.Model != "" {
			args = append(args, "--model", g.task.Model)
		}
		cmd := exec.Command(filepath.Join(g.bin, "rein"), append(args, g.task.Prompt)...)
		var out strings.Builder
		cmd.Stderr = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		pids := g.pids(1)
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != rein.ExitInterrupt {
			t.Errorf("exit %d: %s", code, out.String())
		}
		if left := alive(pids); len(left) > 0 {
			t.Errorf("alive: %v", left)
		}
		if _, err := os.Stat(filepath.Join(g.dir, "report.json")); err != nil {
			t.Error(err)
		}
	})
}

// Resume goes on with the session that the report named.
func TestReinResumes(t *testing.T) {
	eachWithNewer(t, func(t *testing.T, s subject) {
		g := newStage(t, s, fakemodel.Script{Turns: []fakemodel.Turn{{Text: "one"}, {Text: "two"}}})
		first := g.do()
		if !first.OK || first.SessionID == "" {
			t.Fatalf("first: %s", says(first))
		}
		g.task.Session.Resume = first.SessionID
		second := g.do()
		if !second.OK || second.Answer != "two" || second.SessionID != first.SessionID {
			t.Errorf("second: answer %q, session %q after %q: %s", second.Answer, second.SessionID, first.SessionID, says(second))
		}
	})
}
