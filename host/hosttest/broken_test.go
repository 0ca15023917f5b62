//go:build linux && real

package hosttest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// TestBroken runs, for each fault, the case that is to find it.
func TestBroken(t *testing.T) {
	cases := allCases()
	for _, b := range faults {
		t.Run(b.fault+"/"+b.finds, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(cases, func(c testCase) bool { return c.name == b.finds })
			if i < 0 {
				t.Fatalf("there is no case %s", b.finds)
			}
			h := brokenHarness(t, b.fault)
			// Where the fault shows in a wait that runs out, the patience is what
			// the test costs; on a machine so slow that something else runs out
			// first, more is needed.
			var said string
			failed := false
			for _, h.Patience = range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
				said, failed = record(t, func(tb testing.TB) { runCase(tb, &h, cases[i]) })
				if failed && strings.Contains(said, b.says) {
					return
				}
			}
			t.Errorf("a host that %s passes %s (failed: %v), want it to fail and say %q; it said:\n%s", b.fault, b.finds, failed, b.says, said)
		})
	}
}

// brokenHarness is a host with one fault.
func brokenHarness(t testing.TB, fault string) Harness {
	kind, what, ok := strings.Cut(fault, ": ")
	switch {
	case !ok:
		return plainHarness(t, fault)
	case kind == "front":
		h := plainHarness(t, "")
		h.front = brokenFront(what)
		return h
	}
	return brokenLocal(t, what)
}

// recorder is a testing.TB whose failures are facts and not failures.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	log      strings.Builder
	failed   bool
	cleanups []func()
}

// record runs f to its end, cleanups included, and says whether it failed.
func record(t *testing.T, f func(testing.TB)) (said string, failed bool) {
	r := &recorder{TB: t}
	guard := func(f func()) {
		done := make(chan struct{})
		go func() { // of its own: Fatal ends the goroutine
			defer close(done)
			defer func() {
				if p := recover(); p != nil {
					r.Errorf("panic: %v", p)
				}
			}()
			f()
		}()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Errorf("the case hangs")
		}
	}
	guard(func() { f(r) })
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		var c func()
		if n > 0 {
			c, r.cleanups = r.cleanups[n-1], r.cleanups[:n-1]
		}
		r.mu.Unlock()
		if c == nil {
			break
		}
		guard(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String(), r.failed
}

func (r *recorder) note(fail bool, s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || fail
	r.log.WriteString(s + "\n")
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(a ...any)              { r.note(false, fmt.Sprint(a...)) }
func (r *recorder) Logf(f string, a ...any)   { r.note(false, fmt.Sprintf(f, a...)) }
func (r *recorder) Fail()                     { r.note(true, "") }
func (r *recorder) FailNow()                  { r.Fail(); runtime.Goexit() }
func (r *recorder) Error(a ...any)            { r.note(true, fmt.Sprint(a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatal(a ...any)            { r.Error(a...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Skip(a ...any)             { r.Log(a...); runtime.Goexit() }
func (r *recorder) Skipf(f string, a ...any)  { r.Logf(f, a...); runtime.Goexit() }
func (r *recorder) SkipNow()                  { runtime.Goexit() }
func (r *recorder) Skipped() bool             { return false }
func (r *recorder) Context() context.Context  { return context.Background() }
func (r *recorder) Failed() bool              { r.mu.Lock(); defer r.mu.Unlock(); return r.failed }
func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// The comparison at the end of Run is no case, and can fail like one. There are many of
// each, so that what earlier tests still hold and let go meanwhile hides none.
func TestLeaksAreSeen(t *testing.T) {
	const many = 200
	leaked := func() string {
		before := census()
		before.goroutines++ // record's
		said, failed := record(t, func(tb testing.TB) { before.compare(tb, 100*time.Millisecond) })
		if failed {
			t.Errorf("a leak where there is none: %s", short(said))
		}
		stop := make(chan struct{})
		defer close(stop)
		for range many {
			go func() { <-stop }()
		}
		said, _ = record(t, func(tb testing.TB) { before.compare(tb, 100*time.Millisecond) })
		return said
	}
	if said := leaked(); !strings.Contains(said, "goroutines") {
		t.Errorf("%d goroutines leaked, and the kit says: %s", many, short(said))
	}
	before := census()
	before.goroutines += many // those above end in their own time
	for range many / 2 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
	}
	said, _ := record(t, func(tb testing.TB) { before.compare(tb, 100*time.Millisecond) })
	if !strings.Contains(said, "descriptors") {
		t.Errorf("%d descriptors leaked, and the kit says: %s", many, short(said))
	}
}

// Wrappers that break forwarding, each in its own way.
func TestCheckForward(t *testing.T) {
	said, failed := record(t, func(tb testing.TB) {
		CheckForward(tb, Wrapper{
			Output: func(o driver.Output) driver.Output { return o },
			Host:   func(h driver.Host) driver.Host { return h },
		})
	})
	if failed {
		t.Errorf("no wrapper at all is said to break: %s", said)
	}
	for name, w := range map[string]Wrapper{
		"hides SpoolOutput":  {Output: func(o driver.Output) driver.Output { return struct{ driver.Output }{o} }},
		"claims SpoolOutput": {Output: func(o driver.Output) driver.Output { return heardBoth{new(heard), heardSpool{new(heard)}} }},
		"does not get":       {Output: func(driver.Output) driver.Output { return new(heard) }},
		"hides Looker":       {Host: func(h driver.Host) driver.Host { return struct{ driver.Host }{h} }},
		"claims Looker":      {Host: func(driver.Host) driver.Host { return seeing{nil, new(int)} }},
	} {
		said, failed := record(t, func(tb testing.TB) { CheckForward(tb, w) })
		if !failed || !strings.Contains(said, name) {
			t.Errorf("a wrapper that %s passes; the check said: %s", name, said)
		}
	}
}
