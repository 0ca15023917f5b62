package watch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// Limits are the budgets of a run. Zero is no limit.
type Limits struct {
	Memory int64 // resident bytes of all members of the tree together
	Procs  int   // live members of the tree
	Output int64 // bytes on stdout and stderr together

	// What the agent says that it used, see Spent.
	Tokens    int64   // input, cache writes and output, sub-agents included
	CostUSD   float64 // told by the agent, else estimated
	Subagents int     // that were started
}

// Kind is the kind of end that a Verdict asks for. The values are those of the
// report's end.kind.
type Kind string

const (
	TimedOut   Kind = "timed_out"   // Detail: startup, idle, tool, total, stall
	OverBudget Kind = "over_budget" // Detail: memory, processes, output, tokens, cost, subagents
	GaveUp     Kind = "gave_up"     // Detail: auth, billing, limit
	// Completed: a terminal event was seen and the process stayed. The end is
	// exited, forced. Detail is "completion", or the name of the clock or
	// budget that ran out meanwhile: a result that was there first beats both,
	// and the caller adds the finding limit_after_result.
	Completed Kind = "completed"
)

// Verdict says that the run must be ended now, and why.
type Verdict struct {
	Kind   Kind
	Detail string
	Text   string        // one line for a person, with what to change
	At     time.Time     // when it was found
	After  time.Duration // the same as the time since Run was called
}

// Options of New.
type Options struct {
	// Fingerprint describes the state of the tree for the stall clock: two
	// equal strings mean that nothing changed in between. It is called in a
	// goroutine of its own, never twice at once, about every quarter of Stall
	// while nothing else shows life, with a context of 10 s; it should return
	// soon after that ends. An error is a look that showed nothing.
	//
	// nil: the stall clock goes by tool calls alone, and does not run out
	// before the first one was seen.
	Fingerprint func(ctx context.Context) (string, error)
}

// Watch keeps the clocks of one run. All methods may be called concurrently,
// and before Run; Read must be called in the order of the readings.
type Watch struct {
	// On the way of every byte: no lock, no allocation, no clock reading.
	bytes  atomic.Int64
	listen atomic.Bool // the loop wants to be woken by the next byte
	burst  atomic.Bool // the output budget is gone and the loop was woken for it
	output int64       // Limits.Output, never changed

	poke        chan struct{} // wakes the loop; capacity 1, so senders never wait
	fingerprint func(ctx context.Context) (string, error)
	base        time.Time // carries the monotonic clock; everything below is time since it

	mu sync.Mutex
	state
}

// New returns a Watch whose clocks begin to run when Run is called. Fields of c
// that are zero have the defaults of the table; use Clocks.With first to get
// those of an agent.
func New(c Clocks, l Limits, o *Options) *Watch {
	if o == nil {
		o = &Options{}
	}
	return &Watch{
		output:      l.Output,
		poke:        make(chan struct{}, 1),
		fingerprint: o.Fingerprint,
		state: state{
			clocks: c.defaults(),
			limits: l,
			tree:   look{able: o.Fingerprint != nil},
		},
	}
}

// quiet is how long the loop does not listen after it has heard a byte. It
// makes a flood cost the loop twenty wake-ups a second, and the idle clock up
// to so much longer, never shorter.
const quiet = 50 * time.Millisecond

// Run blocks until the run must be ended (true), or until ctx has ended
// (false): the caller ends ctx when the process is over. It is called once,
// right after the spawn; the spawn is the moment of the call.
func (w *Watch) Run(ctx context.Context) (Verdict, bool) {
	ctx, cancel := context.WithCancel(ctx) // ends a look at the tree that is under way
	defer cancel()

	w.mu.Lock()
	w.base = time.Now()
	w.running = true
	w.mu.Unlock()

	looked := make(chan glimpse, 1)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Ended first: a process that was over before we looked was not ended by us.
		if ctx.Err() != nil {
			return Verdict{}, false
		}
		w.mu.Lock()
		now := w.now()
		next := w.hear(now)
		if v, due := w.judge(now); v != nil {
			v.At, v.After = w.base.Add(now), now
			w.mu.Unlock()
			return *v, true
		} else if due < next {
			next = due
		}
		if w.tree.start(now) {
			go w.look(ctx, looked)
		}
		w.mu.Unlock()

		timer.Reset(next - now)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.poke:
		case g := <-looked:
			w.mu.Lock()
			w.saw(w.now(), g)
			w.mu.Unlock()
		}
	}
}

// now is the time since Run was called, by the monotonic clock: jumps of the
// wall clock cannot be seen in it. Before Run it is zero.
func (w *Watch) now() time.Duration {
	if !w.running {
		return 0
	}
	return time.Since(w.base)
}

// Output says that n bytes have arrived on stdout or stderr. It neither locks
// nor allocates, and may be called from a flood.
func (w *Watch) Output(n int64) {
	sum := w.bytes.Add(n)
	if w.listen.Load() && w.listen.CompareAndSwap(true, false) {
		w.wake()
	}
	if w.output > 0 && sum > w.output && !w.burst.Load() && w.burst.CompareAndSwap(false, true) {
		w.wake()
	}
}

// hear takes notice of bytes that arrived and returns when to listen again.
//
// The order matters: the loop says that it listens, and looks at the counter
// after that. A byte that comes in between is either seen in the counter or
// wakes the loop; the other way round it could be missed until the next one.
func (w *Watch) hear(now time.Duration) time.Duration {
	if now < w.deaf {
		w.count(now, w.bytes.Load())
		return w.deaf
	}
	w.listen.Store(true)
	if w.count(now, w.bytes.Load()) {
		w.listen.Store(false)
		w.deaf = now + quiet
		return w.deaf
	}
	return never
}

func (w *Watch) wake() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// Sample says what the tree uses.
func (w *Watch) Sample(s driver.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.limits.Memory > 0 && s.RSS > w.limits.Memory:
		w.decide(OverBudget, "memory", overMemory(s.RSS, w.limits.Memory))
	case w.limits.Procs > 0 && s.Procs > w.limits.Procs:
		w.decide(OverBudget, "processes", overProcs(s.Procs, w.limits.Procs))
	default:
		return
	}
	w.wake()
}
