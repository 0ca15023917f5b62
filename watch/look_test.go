package watch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tree is a tree that changes when a test says so.
type tree struct {
	version atomic.Int64
	looks   atomic.Int64
	at      atomic.Int64 // looks under way
	most    atomic.Int64
	slow    time.Duration
	fail    atomic.Bool
	deaf    bool // does not return when its context ends
}

func (x *tree) fingerprint(ctx context.Context) (string, error) {
	x.looks.Add(1)
	x.most.Store(max(x.most.Load(), x.at.Add(1)))
	defer x.at.Add(-1)
	if x.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(x.slow):
	}
	if x.fail.Load() {
		return "", errors.New("no git")
	}
	return string(rune('0' + x.version.Load())), nil
}

func (x *tree) change(*Watch)     { x.version.Add(1) }
func (x *tree) breakDown(*Watch)  { x.fail.Store(true) }
func (x *tree) options() *Options { return &Options{Fingerprint: x.fingerprint} }
func quietCall(at time.Duration) []step {
	return []step{{at, tell(toolStarted("a"))}, {at + sec, tell(toolFinished("a"))}}
}

func TestStallByTheTree(t *testing.T) {
	stall := only(Clocks{Stall: 4 * minute, Total: 2 * time.Hour})
	for _, x := range []struct {
		name string
		tree *tree
		do   func(x *tree) []step
		from time.Duration // the verdict comes not before this
		to   time.Duration // and not after this
		want string
	}{
		{"nothing happens", &tree{}, nil, 4 * minute, 5 * minute, Stall},
		{"one change", &tree{}, func(x *tree) []step { return []step{{3 * minute, x.change}} }, 7 * minute, 8*minute + sec, Stall},
		{"a change right before the end", &tree{}, func(x *tree) []step { return []step{{4*minute - sec, x.change}} }, 8*minute - sec, 9 * minute, Stall},
		{"steady changes", &tree{}, func(x *tree) []step { return every(3*minute, time.Hour, x.change) }, 64 * minute, 65*minute + sec, Stall},
		{"slow looks", &tree{slow: 8 * sec}, nil, 4 * minute, 5*minute + 20*sec, Stall},
		{"a change behind a slow look", &tree{slow: 8 * sec}, func(x *tree) []step { return []step{{3 * minute, x.change}} }, 7 * minute, 8*minute + 20*sec, Stall},
		// without a look and without a tool call there is no proof of a stall
		{"looks fail", func() *tree { x := &tree{}; x.fail.Store(true); return x }(), nil, 2 * time.Hour, 2 * time.Hour, Total},
		{"looks hang", &tree{slow: time.Hour}, nil, 2 * time.Hour, 2 * time.Hour, Total},
		{"looks hang for ever", &tree{slow: 40 * time.Hour, deaf: true}, nil, 2 * time.Hour, 2 * time.Hour, Total},
		{"looks fail from some time on", &tree{}, func(x *tree) []step { return []step{{2 * minute, x.breakDown}} }, 2 * time.Hour, 2 * time.Hour, Total},
		// with tool calls their absence is proof enough
		{
			"looks fail, tools are seen",
			&tree{},
			func(x *tree) []step { x.fail.Store(true); return quietCall(minute) },
			5*minute + sec, 5*minute + sec, Stall,
		},
		{
			"looks hang for ever, tools are seen",
			&tree{slow: 40 * time.Hour, deaf: true},
			func(*tree) []step { return quietCall(minute) },
			5*minute + sec, 5*minute + sec, Stall,
		},
		{
			"changes keep it alive without tools",
			&tree{},
			func(x *tree) []step { return append(quietCall(sec), every(2*minute, 20*minute, x.change)...) },
			24 * minute, 25*minute + sec, Stall,
		},
		// after the result there is nothing to do
		{
			"after the result", &tree{},
			func(*tree) []step { return []step{{sec, tell(turnEnded)}} },
			2 * time.Hour, 2 * time.Hour, Total,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var script []step
				if x.do != nil {
					script = x.do(x.tree)
				}
				v, ok := play(t, New(stall, Limits{}, x.tree.options()), script...)
				if !ok || v.Detail != x.want || v.After < x.from || v.After > x.to {
					t.Errorf("%s after %s (%s), want %s between %s and %s", v.Detail, v.After, v.Text, x.want, x.from, x.to)
				}
				time.Sleep(far) // what nobody waited for returns
				if x.tree.most.Load() > 1 {
					t.Errorf("%d looks at once", x.tree.most.Load())
				}
				if n := x.tree.looks.Load(); n > int64(v.After/minute)+3 {
					t.Errorf("%d looks in %s", n, v.After)
				}
			})
		})
	}
}

// While a tool call is open nobody looks: git status is not free.
func TestNoLookDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &tree{}
		w := New(Clocks{}, Limits{}, x.options())
		v, ok := play(t, w, step{sec, tell(toolStarted("a"))})
		check(t, v, ok, "timed_out/tool 15m1s")
		if n := x.looks.Load(); n != 0 {
			t.Errorf("%d looks", n)
		}
	})
}

// A look that hangs delays no other clock.
func TestHangingLookDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &tree{slow: 40 * time.Hour, deaf: true}
		w := New(Clocks{Stall: 4 * sec}, Limits{}, x.options())
		v, ok := play(t, w, step{20 * sec, out}, step{30 * sec, tell(turnEnded)})
		check(t, v, ok, "completed/completion 1m0s")
		time.Sleep(far)
	})
}
