package rein_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/store"
)

// order is what a supervisor in another process is told to do.
type order struct {
	Store  string
	Keeper []string
	Dir    string
	Env    map[string]string

	Commits bool
	Agent   string // "" is claude
	Rules   string
	RulesBy agent.RuleChannel
}

// supervise is the supervisor that gets killed: it runs one agent and says
// when it works.
func supervise(file string) int {
	var o order
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s, err := store.Open(o.Store)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	task := rein.Task{
		Prompt: "go", Agent: cmp.Or(o.Agent, "claude"), Dir: o.Dir, Env: o.Env, Rules: o.Rules, RulesBy: o.RulesBy,
	}
	task.Guard.Commits = o.Commits
	r, err := rein.Start(context.Background(), task, &rein.Options{Store: s, Keeper: o.Keeper})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Println(r.ID())
	rep, err := r.Wait(context.Background())
	if err != nil {
		return 2
	}
	return rep.ExitCode()
}

// supervisor starts one; it returns when the run is under way.
func (s *stage) supervisor(sc fakeagent.Scenario, change ...func(*order)) (*exec.Cmd, string) {
	s.t.Helper()
	env := map[string]string{}
	for k, v := range s.vars {
		env[k] = v
	}
	env[fakeagent.EnvScenario] = sc.JSON()
	o := order{Store: s.store.Dir, Keeper: s.opts.Keeper, Dir: s.dir, Env: env}
	for _, f := range change {
		f(&o)
	}
	b, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "order.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(self(s.t), "supervise", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("the supervisor did not start a run: %v", err)
	}
	go io.Copy(io.Discard, out)
	return cmd, strings.TrimSpace(line)
}

// busyAgent writes numbered lines as fast as it is read, has children in every
// hiding place, and writes everything it wrote to a second file first, so that
// what the transcript must hold is known.
func busyAgent(count string) fakeagent.Scenario {
	return fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "spawn", How: "setsid", Ignore: true},
		{Do: "spawn", How: "env_i", Ignore: true},
		{Do: "text", Text: "working", Usage: &fakeagent.Usage{In: 10, Out: 5}},
		{Do: "numbered", Path: count},
	}}
}

// SIGKILL of the supervisor: nobody lives on, no byte is lost, and the next
// rein finishes the report, with what was spent and the boundary.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	var took []time.Duration
	for i := range killRounds {
		took = append(took, killOnce(t, i))
		if t.Failed() {
			return
		}
	}
	slices.Sort(took)
	t.Logf("%d kills: all gone after %s in the middle, %s at most", len(took), took[len(took)/2], took[len(took)-1])
	// The promise is 5 s. A machine that stands still for a moment may break it
	// once and not be the fault of anybody; in the middle it holds.
	if took[len(took)/2] > 5*time.Second {
		t.Errorf("they lived for %s", took[len(took)/2])
	}
}

func killOnce(t *testing.T, i int) time.Duration {
	t.Helper()
	s := newStage(t)
	git(t, s.dir, "init", "-q")
	git(t, s.dir, "commit", "-q", "--allow-empty", "-m", "one")
	count := filepath.Join(t.TempDir(), "count")
	cmd, id := s.supervisor(busyAgent(count))
	// A random moment: in one round of four while things are being started, in
	// the others while the agent writes.
	if i%4 == 0 {
		<-time.After(time.Duration(rand.Int64N(int64(100 * time.Millisecond))))
	} else {
		lines := 1 + rand.Int64N(20_000)
		for end := time.Now().Add(patience); noted(count) < lines; {
			if time.Now().After(end) {
				t.Fatalf("round %d: the agent wrote %d lines", i, noted(count))
			}
			<-time.After(time.Millisecond)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	killed := time.Now()
	for len(s.alive()) > 0 {
		if time.Since(killed) > patience {
			t.Fatalf("round %d: still alive: %v", i, s.alive())
		}
		<-time.After(20 * time.Millisecond)
	}
	gone := time.Since(killed)

	done, err := rein.Reap(context.Background(), s.store, agent.Registry{})
	if err != nil || len(done) != 1 || done[0].ID != id || done[0].Err != nil {
		t.Fatalf("round %d: reaped %+v, %v", i, done, err)
	}
	rep := done[0].Report
	if rep.End != (rein.End{Kind: rein.Lost, Detail: "supervisor_died"}) || rep.ExitCode() != rein.ExitLost {
		t.Errorf("round %d: end %+v", i, rep.End)
	}
	if !rep.Boundary.Checked || !rep.Boundary.Clean {
		t.Errorf("round %d: boundary %+v", i, rep.Boundary)
	}
	s.proof(rep)
	checkNumbered(t, rep.Transcript.Path, count)
	if again, err := rein.Reap(context.Background(), s.store, agent.Registry{}); err != nil || len(again) != 0 {
		t.Errorf("round %d: reaped twice: %+v %v", i, again, err)
	}
	return gone.Round(time.Millisecond)
}

// noted is how many lines the agent says that it has written.
func noted(count string) int64 {
	b, err := os.ReadFile(count)
	if err != nil || len(b) < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// checkNumbered: the agent notes a number when the write of its line has
// returned, so every line up to the noted one must be in the transcript, whole
// and in order.
func checkNumbered(t *testing.T, transcript, count string) {
	t.Helper()
	want := noted(count)
	b, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte(`{"type":"numbered","n":`))
		if !ok {
			continue
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the last line may be cut: the agent was killed inside its write
		}
		var got int64
		fmt.Sscanf(string(rest), "%d", &got)
		if got != n {
			t.Fatalf("line %d stands where %d must", got, n)
		}
		n++
	}
	if n < want {
		t.Errorf("the agent wrote %d lines, the transcript has %d", want, n)
	}
}

// SIGKILL of the supervisor and the keeper: what carries the marker or is in a
// recorded session or in the cgroup is ended by the next rein.
func TestSupervisorAndKeeperKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	cmd, id := s.supervisor(fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "spawn", How: "setsid", Ignore: true},
		{Do: "spawn", How: "env_i", Ignore: true},
		{Do: "text", Text: "working"},
		{Do: "hang"},
	}})
	run, err := s.store.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	// The keeper records sessions when it samples: wait until it knows those of
	// all three, as it does a moment later in life too.
	var rec *keeper.Record
	for end := time.Now().Add(patience); ; {
		if rec, err = keeper.ReadRecord(run.Dir()); err == nil && len(rec.Sessions) >= 3 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("record %+v, %v", rec, err)
		}
		<-time.After(20 * time.Millisecond)
	}
	p, err := os.FindProcess(rec.Keeper.PID)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	p.Kill()
	cmd.Wait()

	done, err := rein.Reap(context.Background(), s.store, agent.Registry{})
	if err != nil || len(done) != 1 || done[0].Err != nil {
		t.Fatalf("reaped %+v, %v", done, err)
	}
	if rep := done[0].Report; rep.End.Kind != rein.Lost || len(rep.Survivors) > 0 {
		t.Errorf("end %+v, survivors %v", rep.End, rep.Survivors)
	}
	s.proof(done[0].Report)
}
