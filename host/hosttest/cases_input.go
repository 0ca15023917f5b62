package hosttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// inputCases: stdin.
func inputCases() []testCase {
	return []testCase{
		{"Input/EmptyAtOnce", emptyAtOnce},
		{"Input/Echo", echo},
		{"Input/EarlyWritesInOrder", earlyWrites},
		{"Input/EveryByte", everyByteIn},
		{"Input/CloseAfterWrites", closeAfterWrites},
		{"Input/ClosedIsClosed", closedIsClosed},
		{"Input/FullPipeIsBounded", fullPipe},
		{"Input/BothWays", bothWays},
		{"Input/CommandClosesIt", commandClosesIt},
	}
}

// An agent that is given no stdin and reads it hangs for ever, unless the end
// of file comes at once.
func emptyAtOnce(k *kit) {
	e, out := k.run(k.spec("sum"))
	k.wantExited(e, 0)
	if got := out.text(driver.Stdout); !strings.HasPrefix(got, "0 ") {
		k.Errorf("a command without input read %q", got)
	}
	r := k.start(k.spec("wait"))
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	if err := r.Write(ctx, []byte("x")); !closed(err) {
		k.Errorf("Write to a stdin that is not open: %v, want ErrClosed", err)
	}
}

func echo(k *kit) {
	spec := k.spec("cat", "exit=8")
	spec.Duplex = true
	r := k.start(spec)
	for _, line := range []string{"ping\n", "without end", "\n", "pong\n"} {
		r.write([]byte(line))
		r.says(line)
	}
	r.write(nil)
	r.closeStdin()
	k.wantExited(r.end(), 8)
}

// Every session protocol sends its handshake right after Start, before a remote
// API can have said that the command is there.
func earlyWrites(k *kit) {
	spec := k.spec("cat")
	spec.Duplex = true
	r := k.start(spec)
	var want strings.Builder
	for i := range 200 {
		line := fmt.Sprintf("write %d\n", i)
		want.WriteString(line)
		b := []byte(line)
		r.write(b)
		clear(b) // the caller has its buffer back
	}
	r.closeStdin()
	k.wantExited(r.end(), 0)
	if got := r.out.text(driver.Stdout); got != want.String() {
		k.Errorf("early writes arrived as %q", short(got))
	}
}

func everyByteIn(k *kit) {
	spec := k.spec("cat")
	spec.Duplex = true
	r := k.start(spec)
	r.write(everyByte())
	r.closeStdin()
	k.wantExited(r.end(), 0)
	if got := r.out.text(driver.Stdout); got != string(everyByte()) {
		k.Errorf("bytes changed on their way in: %q", got)
	}
}

func closeAfterWrites(k *kit) {
	spec := k.spec("sum")
	spec.Duplex = true
	r := k.start(spec)
	src, h := &pattern{seed: 6}, sha256.New()
	const blocks, size = 40, 50_000
	b := make([]byte, size)
	for range blocks {
		src.Read(b)
		h.Write(b)
		r.write(b)
	}
	r.closeStdin()
	k.wantExited(r.end(), 0)
	if got, want := r.out.text(driver.Stdout), sumLine(blocks*size, h.Sum(nil)); got != want {
		k.Errorf("the command read %q, want %q", got, want)
	}
}

func closedIsClosed(k *kit) {
	spec := k.spec("drop", "out=eof", "wait")
	spec.Duplex = true
	r := k.start(spec)
	r.closeStdin()
	r.says("eof")
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	if err := r.Write(ctx, []byte("x")); !closed(err) {
		k.Errorf("Write after CloseStdin: %v, want ErrClosed", err)
	}
	if err := r.CloseStdin(ctx); err != nil && !closed(err) {
		k.Errorf("second CloseStdin: %v", err)
	}
	r.kill()
	r.end()

	spec = k.spec("exit=0")
	spec.Duplex = true
	r = k.start(spec)
	r.end()
	if err := r.Write(ctx, []byte("x")); !closed(err) {
		k.Errorf("Write after the end: %v, want ErrClosed", err)
	}
	if err := r.CloseStdin(ctx); err != nil && !closed(err) {
		k.Errorf("CloseStdin after the end: %v", err)
	}
}

// A command that does not read: Write waits, as long as its context says, and
// Kill does not wait for it.
func fullPipe(k *kit) {
	spec := k.spec("out=up", "wait")
	spec.Duplex = true
	r := k.start(spec)
	r.says("up")
	block := make([]byte, 1<<20)
	full := false
	for range 64 {
		err := k.bounded(func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			return r.Write(ctx, block)
		})
		if errors.Is(err, errStuck) {
			k.Fatal("Write to a command that does not read outlasts its context")
		}
		if err != nil {
			full = true
			break
		}
	}
	if !full {
		k.Error("64 MiB were taken for a command that reads nothing")
	}
	stuck := make(chan error, 1)
	go func() { stuck <- r.Write(context.Background(), block) }()
	r.kill()
	k.wantKilled(r.end())
	select {
	case err := <-stuck:
		if err == nil {
			k.Error("a Write that was waiting when the command was killed reports success")
		}
	case <-time.After(k.h.patience()):
		k.Error("a Write is still waiting after the end")
	}
}

// Whoever writes all before reading, or reads all before writing, hangs here:
// the command does both in step.
func bothWays(k *kit) {
	n := sizes.duplex
	spec := k.spec(fmt.Sprintf("duplex=%d", n))
	spec.Duplex = true
	o := newSink()
	c := newChecker(1)
	o.to[driver.Stdout] = c
	r := k.startTo(spec, o, nil)
	src, h := &pattern{seed: 8}, sha256.New()
	b := make([]byte, 60_001)
	for left := n; left > 0; {
		p := b[:min(left, int64(len(b)))]
		src.Read(p)
		h.Write(p)
		r.write(p)
		left -= int64(len(p))
	}
	r.closeStdin()
	k.wantExited(r.end(), 0)
	c.check(k, "output", n)
	if got, want := o.text(driver.Stderr), sumLine(n, h.Sum(nil)); got != want {
		k.Errorf("the command read %q, want %q", got, want)
	}
}

// A command that closes its stdin is as alive as before: EPIPE is the fate of
// those bytes, not of the run.
func commandClosesIt(k *kit) {
	spec := k.spec("trap=term", "closein", "out=closed\n", "await=term", "out=alive\n", "exit=5")
	spec.Duplex = true
	spec.Grace = 20 * time.Second
	r := k.start(spec)
	r.says("closed")
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	for range 20 {
		if err := r.Write(ctx, make([]byte, 100_000)); err != nil {
			if !closed(err) {
				k.Errorf("Write to a stdin that the command closed: %v, want ErrClosed", err)
			}
			break
		}
	}
	r.signal(driver.Terminate)
	r.says("alive")
	e := r.end()
	if e.Code == nil || *e.Code != 5 {
		k.Errorf("exit is %s, want code 5", describe(e))
	}
}
