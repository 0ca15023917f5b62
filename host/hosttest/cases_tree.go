package hosttest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// treeCases: killed means gone (law 3), also after a normal exit.
func treeCases() []testCase {
	return []testCase{
		{"Tree/Kill", func(k *kit) { k.killTrees("", k.shapes()...) }},
		{"Tree/KillByWeakerMeans", killByWeakerMeans},
		{"Tree/KillWhileForking", killWhileForking},
		{"Tree/LeftoversGrace", leftoversGrace},
		{"Tree/Leftovers", leftovers},
		{"Tree/HeldOutput", heldOutput},
		{"Tree/HeldErrorOutput", heldErrorOutput},
		{"Tree/ManyLeftovers", manyLeftovers},
		{"Tree/NoLeftovers", noLeftovers},
		{"Tree/Strangers", strangers},
	}
}

// shape is one way in which the children of an agent try to get away.
type shape struct {
	name    string
	steps   []string // of the leader, before it says up and waits
	procs   int      // alive then, the leader among them
	escapes bool     // leaves session, lineage and marker behind
}

func shapes() []shape {
	return []shape{
		{name: "plain", steps: child("", "wait"), procs: 2},
		{name: "term ignored", steps: append(child("", "ignore=term", "wait"), "ignore=term"), procs: 2},
		{name: "own session", steps: child("setsid", "ignore=term", "wait"), procs: 2},
		{name: "double fork", steps: child("double", "ignore=term", "wait"), procs: 2},
		{name: "daemon", steps: child("double,setsid", "ignore=term", "wait"), procs: 2},
		{name: "no environment", steps: child("setsid,bare", "ignore=term", "wait"), procs: 2},
		{name: "no environment, daemon", steps: child("double,setsid,bare", "ignore=term", "wait"), procs: 2, escapes: true},
		{name: "stopped", steps: child("setsid", "stop"), procs: 2},
		{name: "daemon of a daemon", steps: child("double,setsid,bare", append(child("double,setsid,bare", "ignore=term", "wait"), "wait")...), procs: 3, escapes: true},
		{name: "large", steps: []string{"ignore=term", fmt.Sprintf("forks=%d", sizes.tree)}, procs: 1 + sizes.tree},
	}
}

func (k *kit) shapes() []shape {
	all := shapes()
	if k.h.NoEscapers != "" {
		k.Log("declared: " + k.h.NoEscapers)
		all = slices.DeleteFunc(all, func(s shape) bool { return s.escapes })
	}
	return all
}

// together is one command with all that by can hold, for the cases in which
// ten commands would take too long.
func (k *kit) together(by driver.Containment) shape {
	all := shape{name: "all together by " + string(by), procs: 1}
	for _, s := range k.shapes() {
		if s.name == "large" || by == driver.ByMarker && s.escapes {
			continue
		}
		all.steps = append(all.steps, s.steps...)
		all.procs += s.procs - 1
	}
	return all
}

func (k *kit) killTrees(by driver.Containment, shapes ...shape) {
	for _, s := range shapes {
		spec := k.spec(slices.Concat(s.steps, []string{"out=up", "wait"})...)
		spec.Containment = by
		r := k.start(spec)
		r.says("up")
		k.population(spec.ID, fmt.Sprintf("to be %d (%s)", s.procs, s.name), func(n int) bool { return n == s.procs })
		r.kill()
		k.none(spec.ID, "when Kill has returned ("+s.name+")")
		e := r.end()
		k.wantKilled(e)
		if by != "" && e.Containment != by {
			k.Errorf("containment is %q, asked for %q", e.Containment, by)
		}
		if k.Failed() {
			k.Fatalf("shape %q", s.name)
		}
	}
}

func killByWeakerMeans(k *kit) {
	if len(k.h.Weaker) == 0 {
		k.Skip("declared: no weaker means can be forced")
	}
	for _, by := range k.h.Weaker {
		k.killTrees(by, k.together(by))
	}
}

// A scan that is not repeated until nobody is found misses those who were born
// meanwhile.
func killWhileForking(k *kit) {
	spec := k.spec(slices.Concat(
		child("setsid", "ignore=term", "churn=-1"),
		child("double,setsid", "ignore=term", fmt.Sprintf("churn=%d", sizes.churned), "churn=-1"),
		[]string{"ignore=term", "out=up", "churn=-1"},
	)...)
	r := k.start(spec)
	r.says("up")
	k.population(spec.ID, "to be at least 3", func(n int) bool { return n >= 3 })
	r.kill()
	k.none(spec.ID, "when Kill has returned")
	k.wantKilled(r.end())
	k.none(spec.ID, "at the end")
}

func names(procs []driver.Proc) []string {
	var s []string
	for _, p := range procs {
		s = append(s, p.Name)
	}
	return s
}

// The agent ends well and leaves an MCP server behind: it is ended, and named.
func leftovers(k *kit) {
	shapes := [][]string{
		child("", "wait"),
		child("setsid", "wait"),
		child("double,setsid", "ignore=term", "wait"),
		child("setsid", "stop"),
	}
	if k.h.NoEscapers == "" {
		shapes = append(shapes, child("double,setsid,bare", "wait"))
	}
	for _, steps := range shapes {
		spec := k.spec(append(steps, "out=result", "exit=3")...)
		e, out := k.run(spec)
		k.none(spec.ID, "after a normal exit")
		k.wantExited(e, 3)
		if got := out.text(driver.Stdout); got != "result" {
			k.Errorf("stdout %q", got)
		}
		if len(e.Leftovers) != 1 || e.Leftovers[0].PID <= 0 || e.Leftovers[0].Name == "" {
			k.Errorf("leftovers of %v: %+v, want one, with pid and name", steps, e.Leftovers)
		}
		if len(e.Survivors) > 0 {
			k.Errorf("survivors: %v", e.Survivors)
		}
		if len(e.HeldBy) > 0 {
			k.Errorf("%v is said to have held the output, which it had not", names(e.HeldBy))
		}
	}
}

func manyLeftovers(k *kit) {
	spec := k.spec(fmt.Sprintf("forks=%d", sizes.tree/4), "exit=0")
	spec.Drain = 50 * time.Millisecond // they hold the output
	e, _ := k.run(spec)
	k.none(spec.ID, "after a normal exit")
	k.wantExited(e, 0)
	if n := len(e.Leftovers); n != sizes.tree/4 {
		k.Errorf("%d leftovers are named, want %d", n, sizes.tree/4)
	}
}

func noLeftovers(k *kit) {
	spec := k.spec("churn=20", "exit=0")
	e, _ := k.run(spec)
	k.wantExited(e, 0)
	if len(e.Leftovers)+len(e.HeldBy)+len(e.Survivors) > 0 {
		k.Errorf("a command that left nothing is said to have left %v, %v, %v", e.Leftovers, e.HeldBy, e.Survivors)
	}
}

// A grandchild that holds stdout may cost the drain, never a minute, and no
// byte (golang/go#23019).
func heldOutput(k *kit)      { k.held("out", driver.Stdout) }
func heldErrorOutput(k *kit) { k.held("err", driver.Stderr) }

func (k *kit) held(step string, s driver.Stream) {
	// One that holds this stream alone, and a daemon that holds both.
	for _, flags := range []string{"hold" + step, "hold,setsid,double"} {
		spec := k.spec(append(child(flags, step+"=from below,", "ignore=term", "wait"), step+"=last words", "exit=0")...)
		spec.Drain = 100 * time.Millisecond
		begin := time.Now()
		e, out := k.run(spec)
		if d := time.Since(begin); d > 50*time.Second {
			k.Errorf("the end came after %v: the drain is not bounded", d)
		}
		k.none(spec.ID, "after a normal exit")
		k.wantExited(e, 0)
		if got := out.text(s); got != "from below,last words" {
			k.Errorf("%v holds %q", s, got)
		}
		if len(e.Leftovers) != 1 || len(e.HeldBy) != 1 {
			k.Errorf("leftovers %+v, held by %+v; want the grandchild in both", e.Leftovers, e.HeldBy)
		}
	}
}

// A leftover that obeys TERM gets to say its last words; one that ignores it
// costs the grace once, not for ever.
func leftoversGrace(k *kit) {
	spec := k.spec(slices.Concat(child("setsid,hold", "tail=1000"), []string{"exit=0"})...)
	spec.Drain, spec.Grace = 100*time.Millisecond, 20*time.Second
	o := newSink()
	c := newChecker(2)
	o.to[driver.Stdout] = c
	e := k.startTo(spec, o, nil).end()
	k.none(spec.ID, "after a normal exit")
	k.wantExited(e, 0)
	c.check(k, "the last words of a leftover", 1000)

	spec = k.spec(slices.Concat(child("setsid", "ignore=term", "wait"), child("setsid", "stop"), []string{"exit=0"})...)
	spec.Grace = 100 * time.Millisecond
	e, _ = k.run(spec)
	k.none(spec.ID, "after a normal exit")
	k.wantExited(e, 0)
	if len(e.Leftovers) != 2 {
		k.Errorf("leftovers: %v, want two", e.Leftovers)
	}
}

// Only members are ended: another command on the same host and a stranger with
// the same program and the same name live on.
func strangers(k *kit) {
	other := k.spec("out=up", "wait")
	a := k.start(other)
	a.says("up")
	b := k.start(k.spec(append(child("setsid", "wait"), "out=up", "wait")...))
	b.says("up")
	b.kill()
	k.wantKilled(b.end())
	e, _ := k.run(k.spec(append(child("setsid", "wait"), "exit=0")...))
	k.wantExited(e, 0)
	k.population(other.ID, "to be 1: it is none of theirs", func(n int) bool { return n == 1 })
	a.kill()
	k.wantKilled(a.end())
}

// linkCases: what happens when the link or Rein itself breaks.
func linkCases() []testCase {
	return []testCase{
		{"Link/LostIsNotExited", lostIsNotExited},
		{"Link/LostEndsTheTree", lostEndsTheTree},
		{"Link/ReinKilled", func(k *kit) { k.crash(false) }},
		{"Link/ReinAndKeeperKilled", func(k *kit) { k.crash(true) }},
	}
}

func (k *kit) cut(r *running) driver.Exit {
	k.Helper()
	k.declared(k.h.NoCut)
	if k.h.Cut == nil {
		k.Fatal("Harness has no Cut, and NoCut gives no reason")
	}
	k.h.Cut(k, k.d)
	return r.end()
}

func lostIsNotExited(k *kit) {
	r := k.start(k.spec("out=up", "wait"))
	r.says("up")
	e := k.cut(r)
	if e.Reason != driver.Lost || e.Code != nil || e.Signal != "" {
		k.Errorf("a cut link is %s, want lost without code and signal", describe(e))
	}
	if e.Detail == "" || strings.Contains(e.Detail, "\n") {
		k.Errorf("lost, detail %q: want one line that says how", e.Detail)
	}
	k.gone(r.spec.ID, "after the link was cut")
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	if err := r.Kill(ctx); err != nil && ctx.Err() != nil {
		k.Errorf("Kill after the link was cut hangs: %v", err)
	}
}

// Law 5: the stream is gone, so nobody will come and kill. The other side ends
// the tree by itself.
func lostEndsTheTree(k *kit) {
	k.declared(k.h.NoCutSweep)
	for _, s := range []shape{shapes()[0], k.together("")} {
		r := k.start(k.spec(slices.Concat(s.steps, []string{"out=up", "ignore=term", "flood=-1,1"})...))
		r.says("up")
		if e := k.cut(r); e.Reason != driver.Lost {
			k.Errorf("a cut link is %s, want lost", describe(e))
		}
		k.gone(r.spec.ID, "after the link was cut ("+s.name+")")
		// The host of a cut link may be spent.
		k.d.Close()
		k.d = k.h.Make(k)
	}
}

// Law 5: Rein dies, and its agents with it.
func (k *kit) crash(keepers bool) {
	k.declared(k.h.NoCrash)
	if k.h.Crash == nil {
		k.Fatal("Harness has no Crash, and NoCrash gives no reason")
	}
	k.crashed(shapes()[0], "", keepers)
	for _, by := range append([]driver.Containment{""}, k.h.Weaker...) {
		k.crashed(k.together(by), by, keepers)
	}
}

func (k *kit) crashed(s shape, by driver.Containment, keepers bool) {
	k.Helper()
	steps, tail := []string{"out=up", "wait"}, 0
	grace := 100 * time.Millisecond
	if s.name == "plain" { // all obey, so that a long grace costs nothing
		tail, grace = 200_000, 20*time.Second
		steps = []string{"trap=term", "out=up", fmt.Sprintf("tail=%d", tail)}
	}
	spec := k.spec(slices.Concat(s.steps, steps)...)
	spec.Containment, spec.Grace = by, grace
	begin := k.h.Crash(k.TB, spec, keepers)
	k.Cleanup(func() { k.sweep(spec.ID) })
	k.population(spec.ID, fmt.Sprintf("to be %d (%s)", s.procs, s.name), func(n int) bool { return n == s.procs })
	wreck := begin()
	k.population(spec.ID, "to be gone after the crash, or named ("+s.name+")", func(int) bool {
		left, err := k.h.procs(spec.ID)
		if err != nil {
			k.Fatal(err)
		}
		return !slices.ContainsFunc(left, func(p driver.Proc) bool {
			return !slices.ContainsFunc(wreck.Unproven, func(q driver.Proc) bool { return q.PID == p.PID })
		})
	})
	if len(wreck.Unproven) > 0 {
		k.Logf("%s: named, not proved: %v", s.name, wreck.Unproven)
	}
	b, err := os.ReadFile(wreck.Stdout)
	if err != nil {
		k.Fatal(err)
	}
	out, ok := strings.CutPrefix(string(b), "up")
	if !ok {
		k.Errorf("%s: the file of a crashed command holds %q", s.name, short(b))
	}
	if keepers {
		return
	}
	// The keeper lived: everything is proved, and the last words are kept.
	if len(wreck.Unproven) > 0 {
		k.Errorf("%s: the keeper lived, and still %v are not proved", s.name, wreck.Unproven)
	}
	c := newChecker(2)
	c.Write([]byte(out))
	c.check(k, "last words after a crash ("+s.name+")", int64(tail))
}

// sweep ends processes of ours that a host was allowed to leave.
func (k *kit) sweep(mark string) { sweep(k.TB, mark) }

func sweep(t testing.TB, mark string) {
	procs, err := scan(mark)
	if err != nil {
		t.Log(err)
		return
	}
	for _, p := range procs {
		end(p, syscall.SIGKILL)
	}
}
