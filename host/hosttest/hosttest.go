// Package hosttest is the conformance kit that every host passes: one call of
// Run per implementation.
package hosttest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
)

// Harness says how to reach the host under test, and what it is known not to
// do. The fields named No… hold the reason why a host cannot do something;
// there is no other way to leave a case out.
type Harness struct {
	// Make makes a fresh host. The kit closes it.
	Make func(t testing.TB) driver.Host
	// Prog is the absolute path of the helper program where the command runs:
	// the test binary itself (its TestMain calls Main), or host/hosttest/prog
	// built for that place.
	Prog string
	// Name is the bare name under which the environment's own PATH finds the
	// helper program.
	Name string
	// Dir is an existing, writable directory where the command runs.
	Dir string
	// Procs lists the live processes in the environment that carry mark as an
	// argument. nil: they are on this machine, and /proc is read.
	Procs func(mark string) ([]driver.Proc, error)

	// Containment is what Exit must say when Spec asks for nothing weaker.
	Containment driver.Containment
	// Weaker lists the means that can be forced by Spec.Containment; the tree
	// cases run with each of them too.
	Weaker []driver.Containment

	// Cut severs the link between the host and the command p, which was started
	// last on d, as a broken network would.
	Cut func(t testing.TB, d driver.Host)
	// Crash starts spec from another process which uses the same host, and
	// returns a function that ends that process with SIGKILL (with keepers,
	// also its keeper), and does what Rein does at its next start.
	Crash func(t testing.TB, spec *driver.Spec, keepers bool) (after func() Wreck)

	NoCut      string // Cut is nil
	NoCutSweep string // a cut link ends the leader only
	NoCrash    string // Crash is nil
	NoSpool    string // the spool is not on this machine
	NoSample   string // no samples
	NoLook     string // no Looker
	NoName     string // the helper program is not on the environment's PATH
	NoOddBytes string // arguments and variables can hold UTF-8 only
	NoEscapers string // a process that leaves session, lineage and marker behind is not found

	// front makes the portable type over a host; nil: package host. The kit's own
	// tests put a broken one here.
	front func(driver.Host, *host.Options) front

	// Patience bounds each wait for something that must happen; it is no time
	// that anything is expected to take. 0: one minute.
	Patience time.Duration
}

// Wreck is what was found after a crash.
type Wreck struct {
	Unproven []driver.Proc // may be of the command, and cannot be proved to be
	Stdout   string        // the file that holds what the command wrote
}

// Run runs every case of the kit against the host of h, each on a fresh host.
// Several run at a time (-parallel says how many), for most of what they do is
// to wait; those that break a link or a process run alone, since what Cut and
// Crash do may reach further than one host. When all are over, nothing may be
// held that was not held before.
func Run(t *testing.T, h Harness) {
	before := census()
	alone := linkCases()
	for _, c := range alone {
		t.Run(c.name, func(t *testing.T) { runCase(t, &h, c) })
	}
	// A cleanup runs after every case, and before those of who called.
	t.Cleanup(func() { before.compare(t, h.patience()) })
	for _, c := range allCases() {
		if slices.ContainsFunc(alone, func(a testCase) bool { return a.name == c.name }) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runCase(t, &h, c)
		})
	}
}

// testCase is one named rule. It must be able to fail: faults_test.go names the
// broken host that shows it, and a test misses the case that has none.
type testCase struct {
	name string
	run  func(k *kit)
}

func allCases() []testCase {
	return slices.Concat(startCases(), endCases(), outputCases(), inputCases(), treeCases(), linkCases(), askCases(), portableCases())
}

func runCase(t testing.TB, h *Harness, c testCase) {
	k := &kit{TB: t, h: h}
	k.d = h.Make(t)
	t.Cleanup(func() {
		if err := k.d.Close(); err != nil {
			t.Errorf("closing the host: %v", err)
		}
	})
	c.run(k)
}

func (h *Harness) patience() time.Duration {
	if h.Patience > 0 {
		return h.Patience
	}
	return time.Minute
}

func (h *Harness) procs(mark string) ([]driver.Proc, error) {
	if h.Procs != nil {
		return h.Procs(mark)
	}
	return scan(mark)
}

// kit is what a case works with.
type kit struct {
	testing.TB
	h *Harness
	d driver.Host
}

// declared skips the case when the harness has a reason to.
func (k *kit) declared(reason string) {
	k.Helper()
	if reason != "" {
		k.Skip("declared: " + reason)
	}
}

// spec starts the helper program with steps. Its ID doubles as its mark.
func (k *kit) spec(steps ...string) *driver.Spec {
	id := "kit-" + strings.ToLower(rand.Text())
	k.Cleanup(func() {
		// What a failing host has left would outlive the test.
		if k.Failed() && k.h.Procs == nil {
			k.sweep(id)
		}
	})
	return &driver.Spec{
		ID:    id,
		Argv:  append([]string{k.h.Prog, word, id}, steps...),
		Dir:   k.h.Dir,
		Grace: 100 * time.Millisecond,
	}
}

// child puts steps into braces behind a child step.
func child(flags string, steps ...string) []string {
	return slices.Concat([]string{"child=" + flags, "{"}, steps, []string{"}"})
}

// running is one started command.
type running struct {
	k *kit
	driver.Process
	spec *driver.Spec
	out  *sink
}

func (k *kit) start(spec *driver.Spec) *running {
	k.Helper()
	return k.startTo(spec, newSink(), nil)
}

// startTo starts spec with out, which wraps o or is nil.
func (k *kit) startTo(spec *driver.Spec, o *sink, out driver.Output) *running {
	k.Helper()
	if out == nil {
		out = o
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	given := *spec
	given.Argv, given.Env, given.Unset = slices.Clone(spec.Argv), maps.Clone(spec.Env), slices.Clone(spec.Unset)
	p, err := k.d.Start(ctx, &given, out)
	if err != nil {
		k.Fatalf("Start: %v", err)
	}
	r := &running{k: k, Process: p, spec: spec, out: o}
	k.Cleanup(r.cleanup)
	return r
}

// bounded calls f and gives up on it when it takes longer than the patience,
// whatever it thinks of its context. errStuck says so.
func (k *kit) bounded(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(k.h.patience() + k.h.patience()/4):
		return errStuck
	}
}

var errStuck = errors.New("the call hangs, and heeds no context")

// cleanup ends what a failed case has left, and looks for breaches that no case
// looks for.
func (r *running) cleanup() {
	if r.k.Failed() {
		_ = r.k.bounded(r.Kill)
		return
	}
	killed := r.k.bounded(r.Kill)
	var e driver.Exit
	if err := r.k.bounded(func(ctx context.Context) (err error) { e, err = r.Wait(ctx); return err }); err != nil {
		r.k.Errorf("Wait at the end of the case: %v", err)
		return
	}
	if killed != nil && e.Reason != driver.Lost {
		r.k.Errorf("Kill at the end of the case: %v", killed)
	}
	r.out.finish()
	for _, f := range r.out.broken() {
		r.k.Error(f)
	}
}

// end waits for the exit.
func (r *running) end() driver.Exit {
	r.k.Helper()
	var e driver.Exit
	err := r.k.bounded(func(ctx context.Context) (err error) { e, err = r.Wait(ctx); return err })
	if err != nil {
		r.k.Fatalf("Wait: no end after %v; stdout %q, stderr %q", r.k.h.patience(), short(r.out.text(driver.Stdout)), short(r.out.text(driver.Stderr)))
	}
	r.out.finish()
	return e
}

// run starts spec and waits for its end.
func (k *kit) run(spec *driver.Spec) (driver.Exit, *sink) {
	k.Helper()
	r := k.start(spec)
	return r.end(), r.out
}

func (r *running) kill() {
	r.k.Helper()
	if err := r.k.bounded(r.Kill); err != nil {
		r.k.Fatalf("Kill: %v", err)
	}
}

func (r *running) signal(sig driver.Signal) {
	r.k.Helper()
	if err := r.k.bounded(func(ctx context.Context) error { return r.Signal(ctx, sig) }); err != nil {
		r.k.Fatalf("Signal(%s): %v", sig, err)
	}
}

func (r *running) write(p []byte) {
	r.k.Helper()
	if err := r.k.bounded(func(ctx context.Context) error { return r.Write(ctx, p) }); err != nil {
		r.k.Fatalf("Write of %d bytes: %v", len(p), err)
	}
}

func (r *running) closeStdin() {
	r.k.Helper()
	if err := r.k.bounded(r.CloseStdin); err != nil {
		r.k.Fatalf("CloseStdin: %v", err)
	}
}

// says waits until stdout holds text.
func (r *running) says(text string) {
	r.k.Helper()
	r.out.await(r.k, r.k.h.patience(), fmt.Sprintf("%q on stdout", text), func() bool {
		return strings.Contains(r.out.buf[driver.Stdout].String(), text)
	})
}

// none fails when a process with mark is alive at this moment: at the end of a
// command there is nothing to wait for.
func (k *kit) none(mark, when string) {
	k.Helper()
	procs, err := k.h.procs(mark)
	if err != nil {
		k.Fatal(err)
	}
	if len(procs) > 0 {
		k.Errorf("%d processes are left %s: %v", len(procs), when, procs[:min(len(procs), 5)])
	}
}

// gone waits until no process with mark is alive.
func (k *kit) gone(mark, after string) {
	k.Helper()
	k.population(mark, "to be gone "+after, func(n int) bool { return n == 0 })
}

// population waits until the number of processes with mark is right.
func (k *kit) population(mark, what string, right func(n int) bool) {
	k.Helper()
	deadline := time.Now().Add(k.h.patience())
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		procs, err := k.h.procs(mark)
		if err != nil {
			k.Fatal(err)
		}
		if right(len(procs)) {
			return
		}
		if time.Now().After(deadline) {
			k.Fatalf("%d processes, want them %s: %v", len(procs), what, procs[:min(len(procs), 5)])
		}
		time.Sleep(pause)
	}
}

// refused starts spec and returns the error that it must give.
func (k *kit) refused(spec *driver.Spec) error {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	out := newSink()
	p, err := k.d.Start(ctx, spec, out)
	if err == nil {
		p.Kill(ctx)
		k.Fatal("Start accepted what it must refuse")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		k.Fatalf("Start did not answer: %v", err)
	}
	if n := out.count(driver.Stdout) + out.count(driver.Stderr); n > 0 {
		k.Errorf("a refused command wrote %d bytes", n)
	}
	return err
}

// wantExited checks the end of a command that went by itself.
func (k *kit) wantExited(e driver.Exit, code int) {
	k.Helper()
	if e.Reason != driver.Exited || e.Code == nil || *e.Code != code || e.Signal != "" {
		k.Errorf("exit is %s, want exited with code %d and no signal", describe(e), code)
	}
}

// wantKilled checks the end of a command that was stopped.
func (k *kit) wantKilled(e driver.Exit) {
	k.Helper()
	if e.Reason != driver.Killed {
		k.Errorf("exit is %s, want killed", describe(e))
	}
	if len(e.Survivors) > 0 {
		k.Errorf("survivors: %v", e.Survivors)
	}
}

func describe(e driver.Exit) string {
	s := string(e.Reason)
	if e.Code != nil {
		s += fmt.Sprintf(" code %d", *e.Code)
	}
	if e.Signal != "" {
		s += " signal " + e.Signal
	}
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}
