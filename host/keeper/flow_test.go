//go:build unix

package keeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// checkPattern compares without printing megabytes.
func checkPattern(t *testing.T, got string, want int64) {
	t.Helper()
	if int64(len(got)) != want {
		t.Errorf("%d bytes arrived, want %d", len(got), want)
	}
	for at := 0; at < len(got); at += len(block) {
		piece := got[at:min(at+len(block), len(got))]
		if piece != string(block[:len(piece)]) {
			t.Errorf("the bytes from %d on are not what was written", at)
			return
		}
	}
}

func TestFlood(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		const size = 10<<20 + 17 // several windows
		e, out := at.run(prog(t, "flood", strconv.Itoa(size)))
		if code(e) != "exited code 0" || e.Stdout != size {
			t.Errorf("the end is %+v", e)
		}
		checkPattern(t, out.String(driver.Stdout), size)
		if at.spool {
			b, err := os.ReadFile(at.root + "/" + lastSpool(t, at.root) + "/" + stdoutFile)
			if err != nil {
				t.Fatal(err)
			}
			checkPattern(t, string(b), size)
		}
	})
}

// lastSpool is the one folder below root.
func lastSpool(t *testing.T, root string) string {
	t.Helper()
	es, err := os.ReadDir(root)
	if err != nil || len(es) != 1 {
		t.Fatalf("below %s: %v, %v", root, es, err)
	}
	return es[0].Name()
}

// An Output that blocks holds the command back at the window; signal and kill
// are answered meanwhile; and then every byte of the window arrives.
func TestSlowConsumer(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		gate := make(chan struct{})
		var out output
		if at.local {
			s := newSpoolSink()
			s.gate, out = gate, s
		} else {
			s := newSink()
			s.gate, out = gate, s
		}
		spec := prog(t, "flood", "0")
		p := at.start(spec, out)
		leader := leaderOf(t, spec.ID)

		// Held back: it sleeps in its write, and goes on sleeping.
		eventually(t, "the command is held back", func() bool {
			before, err := proctree.Read(leader.PID)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			after, err := proctree.Read(leader.PID)
			return err == nil && after.State == 'S' && after.CPU == before.CPU
		})
		if at.spool {
			size := int64(0)
			eventually(t, "the window is full", func() bool {
				fi, err := os.Stat(at.root + "/" + spec.ID + "/" + stdoutFile)
				if err != nil {
					t.Fatal(err)
				}
				size = fi.Size()
				return size >= window
			})
			if size > window {
				t.Errorf("the spool holds %d bytes that nobody has read, the window is %d", size, window)
			}
		}
		if err := p.Signal(ctxOf(t), driver.Interrupt); err != nil {
			t.Error("Signal while the Output blocks:", err)
		}
		if err := p.Kill(ctxOf(t)); err != nil {
			t.Error("Kill while the Output blocks:", err)
		}
		if alive(leader) {
			t.Error("Kill has returned and the leader is alive")
		}
		if at.spool { // all is over but the delivery
			eventually(t, "the exit is written down", func() bool {
				_, err := ReadExit(at.root + "/" + spec.ID)
				return err == nil
			})
		}
		close(gate)
		e := wait(t, p)
		got := out.String(driver.Stdout)
		if most := int64(window + 1<<20); e.Reason != driver.Killed || e.Stdout > most {
			t.Errorf("the end is %+v; window and pipe together hold %d", e, most)
		}
		checkPattern(t, got, e.Stdout)
	})
}

// A client that waits is told of every byte at once; one that is at work in a
// flood is told of the next batch before it is done, and never of less.
func TestAnnouncements(t *testing.T) {
	s := newStream(driver.Stdout, nil, os.Stdout)
	s.announce = true
	told := func(what string, want int64) {
		t.Helper()
		due := s.due()
		b := s.next(nil)
		if due != (len(b) > 0) {
			t.Errorf("%s: due is %v, and %d bytes are sent", what, due, len(b))
		}
		if got := s.sent; got != want {
			t.Errorf("%s: announced to %d, want %d", what, got, want)
		}
	}
	s.out = newOutbox(io.Discard, nil)
	told("nothing", 0)
	s.kept = 1
	told("the first byte", 1)
	s.kept = batch
	told("one byte less than a batch, to a client at work", 1)
	s.kept = batch + 1
	told("a batch, to a client at work", batch+1)
	s.kept += 10
	if !s.ack(1) {
		t.Error("the acknowledgement of the first announcement is refused")
	}
	told("a little, while the second is at work", batch+1)
	if !s.ack(batch + 1) {
		t.Error("the acknowledgement of the second announcement is refused")
	}
	told("a little, to a client that waits", batch+11)
	if s.ack(batch + 12) {
		t.Error("what was never sent is acknowledged")
	}
}

// leaderOf finds the leader by the marker of the run.
func leaderOf(t *testing.T, id string) driver.Proc {
	t.Helper()
	var found driver.Proc
	eventually(t, "the leader is there", func() bool {
		ps, err := proctree.Marked(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			if p.PID == p.SID { // it leads its session
				found = procs([]proctree.Proc{p})[0]
				return true
			}
		}
		return false
	})
	return found
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %v: %s", patience, what)
		}
	}
}

// Bytes go in while bytes come out, more than all buffers between can hold.
func TestCat(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "cat")
		spec.Duplex = true
		out := at.sink()
		p := at.start(spec, out)
		const size = 9 << 20
		in := io.LimitReader(&pattern{}, size)
		buf := make([]byte, 300_000) // more than the credit
		for {
			n, err := in.Read(buf)
			if err != nil {
				break
			}
			if err := p.Write(ctxOf(t), buf[:n]); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.CloseStdin(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
		if err := p.Write(ctxOf(t), []byte("x")); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Write after CloseStdin: %v", err)
		}
		e := wait(t, p)
		if code(e) != "exited code 0" {
			t.Errorf("the end is %+v", e)
		}
		checkPattern(t, out.String(driver.Stdout), size)
	})
}

// Write blocks while the command does not read, until its context ends, and
// Kill goes past it.
func TestWriteBlocks(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "sleep")
		spec.Duplex = true
		p := at.start(spec, at.sink())
		ctx, cancel := context.WithTimeoutCause(ctxOf(t), 300*time.Millisecond, errors.New("my own"))
		defer cancel()
		err := p.Write(ctx, bytes.Repeat([]byte("x"), 2<<20))
		if err == nil || err.Error() != "my own" {
			t.Errorf("Write of more than all buffers: %v", err)
		}
		if err := p.Kill(ctxOf(t)); err != nil {
			t.Error(err)
		}
		wait(t, p)
		if err := p.Write(ctxOf(t), []byte("x")); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Write after the end: %v", err)
		}
	})
}

// A command that closes its stdin has not ended; who writes on is told.
func TestCommandClosesStdin(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "close-stdin")
		spec.Duplex = true
		out := at.sink()
		p := at.start(spec, out)
		out.await(t, "ready")
		eventually(t, "Write says that stdin is closed", func() bool {
			err := p.Write(ctxOf(t), bytes.Repeat([]byte("x"), 10_000))
			if err != nil && !errors.Is(err, driver.ErrClosed) {
				t.Fatal(err)
			}
			return err != nil
		})
		if err := p.Kill(ctxOf(t)); err != nil {
			t.Error(err)
		}
		if e := wait(t, p); code(e) != "killed SIGKILL" {
			t.Errorf("the end is %q", code(e))
		}
	})
}

func TestSeparateAndMerged(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		e, out := at.run(prog(t, "print", "out", "err"))
		if a, b := out.String(driver.Stdout), out.String(driver.Stderr); a != "out" || b != "err" || e.Stdout != 3 || e.Stderr != 3 {
			t.Errorf("stdout %q, stderr %q, %+v", a, b, e)
		}
		merged := newKeeperAt(t, at.place)
		spec := prog(t, "print", "out", "err")
		spec.MergeStderr = true
		e, out = merged.run(spec)
		if a, b := out.String(driver.Stdout), out.String(driver.Stderr); a != "outerr" || b != "" || e.Stdout != 6 || e.Stderr != 0 {
			t.Errorf("merged: stdout %q, stderr %q, %+v", a, b, e)
		}
	})
}

func TestSamples(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		s, spec := newSink(), prog(t, "sleep")
		p, err := Start(ctxOf(t), at.dial(), spec, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "a sample has come", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.samples) > 0
		})
		p.Kill(ctxOf(t))
		e := wait(t, p)
		if got := s.samples[0]; got.Procs != 1 || got.RSS == 0 || e.RSSMax < got.RSS {
			t.Errorf("sample %+v, end %+v", got, e)
		}
	})
}
