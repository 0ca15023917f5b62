//go:build unix

package keeper

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// The end of a command: what is said of it, for each way it can come about.

func code(e driver.Exit) string {
	s := string(e.Reason)
	if e.Code != nil {
		s += fmt.Sprintf(" code %d", *e.Code)
	}
	if e.Signal != "" {
		s += " " + e.Signal
	}
	return s
}

func TestEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		prog []string
		do   func(t *testing.T, p driver.Process)
		want string
	}{
		{"exit 0", []string{"exit", "0"}, nil, "exited code 0"},
		{"exit 3", []string{"exit", "3"}, nil, "exited code 3"},
		{"exit 143 is no signal", []string{"exit", "143"}, nil, "exited code 143"},
		{"dies of its own SIGKILL", []string{"signal", "9"}, nil, "signaled SIGKILL"},
		{"dies of its own SIGTERM", []string{"signal", "15"}, nil, "signaled SIGTERM"},
		{"terminated", []string{"sleep"}, func(t *testing.T, p driver.Process) {
			if err := p.Signal(ctxOf(t), driver.Terminate); err != nil {
				t.Error(err)
			}
		}, "killed SIGTERM"},
		{"interrupted", []string{"sleep"}, func(t *testing.T, p driver.Process) {
			if err := p.Signal(ctxOf(t), driver.Interrupt); err != nil {
				t.Error(err)
			}
		}, "killed code 2"}, // the Go runtime exits so
		{"terminated, exits with a code", []string{"tail"}, func(t *testing.T, p driver.Process) {
			if err := p.Signal(ctxOf(t), driver.Terminate); err != nil {
				t.Error(err)
			}
		}, "killed code 5"},
		{"killed", []string{"stubborn"}, func(t *testing.T, p driver.Process) {
			for range 2 {
				if err := p.Kill(ctxOf(t)); err != nil {
					t.Error(err)
				}
			}
		}, "killed SIGKILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, at *keeperAt) {
				out := at.sink()
				p := at.start(prog(t, c.prog[0], c.prog[1:]...), out)
				if c.do != nil {
					out.await(t, "ready")
					c.do(t, p)
				}
				e := wait(t, p)
				want := c.want
				if c.name == "interrupted" { // either is right
					if e.Signal == "SIGINT" {
						want = "killed SIGINT"
					}
				}
				if got := code(e); got != want {
					t.Errorf("the end is %q (%+v), want %q", got, e, want)
				}
				if len(e.Leftovers)+len(e.Survivors)+len(e.HeldBy) > 0 {
					t.Errorf("somebody is named: %+v", e)
				}
				if err := p.Kill(ctxOf(t)); err != nil {
					t.Errorf("Kill after the end: %v", err)
				}
				if again := wait(t, p); code(again) != code(e) {
					t.Errorf("the second Wait says %q", code(again))
				}
			})
		})
	}
}

// A command that has exited before the first signal has exited, even when
// nobody was told of it yet.
func TestExitedBeforeTheSignal(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "hold") // the leader is over at once, its child holds stdout
		spec.Drain = 5 * time.Second
		out := at.sink()
		p := at.start(spec, out)
		out.await(t, "still here")
		if err := p.Signal(ctxOf(t), driver.Terminate); err != nil {
			t.Error(err)
		}
		// What the child prints, it prints after the leader's end.
		if e := wait(t, p); code(e) != "exited code 0" {
			t.Errorf("the end is %q", code(e))
		}
	})
}

// What the command wrote while it was being ended is kept.
func TestTailOfTheTerminated(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "tail")
		spec.Grace = patience
		out := at.sink()
		p := at.start(spec, out)
		out.await(t, "ready")
		if err := p.Signal(ctxOf(t), driver.Terminate); err != nil {
			t.Fatal(err)
		}
		e := wait(t, p)
		if got, want := len(out.String(driver.Stdout)), len("ready\n")+3<<20; got != want || e.Stdout != int64(want) {
			t.Errorf("%d bytes arrived and %d were counted, want %d", got, e.Stdout, want)
		}
	})
}

// What the leader leaves behind is named, and ended.
func TestLeftovers(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		e, _ := at.run(prog(t, "leave"))
		if code(e) != "exited code 0" || len(e.Leftovers) != 1 {
			t.Fatalf("the end is %+v, want one leftover", e)
		}
		if p := e.Leftovers[0]; alive(p) {
			t.Errorf("the leftover %+v is alive", p)
		}
	})
}

// A descendant that holds stdout beyond the drain is named; every byte until
// then is there, and the end is not held up.
func TestHeldStdout(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "hold")
		spec.Drain = 200 * time.Millisecond
		e, out := at.run(spec)
		if code(e) != "exited code 0" || len(e.Leftovers) != 1 {
			t.Fatalf("the end is %+v, want one leftover", e)
		}
		if len(e.HeldBy) != 1 || e.HeldBy[0].PID != e.Leftovers[0].PID {
			t.Errorf("stdout was held by %+v, want the leftover %+v", e.HeldBy, e.Leftovers)
		}
		if got := int64(len(out.String(driver.Stdout))); got != e.Stdout || got == 0 {
			t.Errorf("%d bytes arrived, %d were counted", got, e.Stdout)
		}
		if alive(e.Leftovers[0]) {
			t.Error("the holder is alive")
		}
	})
}

func TestTimeToLive(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "stubborn")
		spec.TTL = 200 * time.Millisecond
		e, _ := at.run(spec)
		if e.Reason != driver.Killed || !strings.Contains(e.Detail, "time to live") {
			t.Errorf("the end is %q (%s)", code(e), e.Detail)
		}
	})
}

func TestExtend(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "sleep")
		spec.TTL = patience
		p := at.start(spec, at.sink())
		x := p.(interface {
			Extend(context.Context, time.Duration) error
		})
		if err := x.Extend(ctxOf(t), time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if e := wait(t, p); !strings.Contains(e.Detail, "time to live of 1ms") {
			t.Errorf("the end is %+v", e)
		}
	})
}

// The process is in a session of its own, has no terminal, and gets no
// descriptor of the keeper's but its three.
func TestNothingInherited(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		if !at.process {
			// What this process was left open by its own parent is not ours to
			// close: a library does not touch the descriptors of its caller.
			return
		}
		spec := prog(t, "x")
		spec.Argv = []string{"sh", "-c", `ls /proc/$$/fd | tr '\n' ' '; cut -d' ' -f6 /proc/$$/stat; echo $$; ps >/dev/null 2>&1; readlink /proc/$$/fd/0`}
		e, out := at.run(spec)
		f := strings.Fields(out.String(driver.Stdout))
		// 255 would be bash's own copy; dash has none
		if code(e) != "exited code 0" || len(f) < 6 || f[0] != "0" || f[1] != "1" || f[2] != "2" || f[3] != f[4] {
			t.Errorf("descriptors, session and pid: %q (%s)", f, out.String(driver.Stderr))
		}
		if f[len(f)-1] != "/dev/null" {
			t.Errorf("stdin is %s", f[len(f)-1])
		}
	})
}
