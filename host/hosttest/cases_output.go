package hosttest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// outputCases: every byte that the command wrote, once, in order, in its
// stream, whatever the bytes and whoever is slow.
func outputCases() []testCase {
	return []testCase{
		{"Output/Separate", separate},
		{"Output/Merged", merged},
		{"Output/EveryByte", everyByteCase},
		{"Output/Blocks", blocks},
		{"Output/OneLine", oneLine},
		{"Output/Stream", stream},
		{"Output/BothStreams", bothStreams},
		{"Output/LastWordsAtExit", lastWords},
		{"Output/TailOnTerminate", tailOnTerminate},
		{"Output/KillWhileFlooding", killWhileFlooding},
		{"Output/KillWhileBlocked", killWhileBlocked},
		{"Output/SlowReaderHoldsBack", slowReaderHoldsBack},
		{"Output/Spool", spool},
		{"Output/SpoolAfterKill", spoolAfterKill},
		{"Output/Samples", samples},
	}
}

func separate(k *kit) {
	spec := k.spec("out=a", "err=1", "out=b", "err=2\n")
	e, out := k.run(spec)
	k.wantExited(e, 0)
	if o, s := out.text(driver.Stdout), out.text(driver.Stderr); o != "ab" || s != "12\n" {
		k.Errorf("stdout %q and stderr %q, want \"ab\" and \"12\\n\"", o, s)
	}
}

// One pipe for both is the only thing that keeps the order.
func merged(k *kit) {
	var steps []string
	var want strings.Builder
	for i := range 100 {
		steps = append(steps, fmt.Sprintf("out=o%d ", i), fmt.Sprintf("err=e%d ", i))
		fmt.Fprintf(&want, "o%d e%d ", i, i)
	}
	spec := k.spec(steps...)
	spec.MergeStderr = true
	e, out := k.run(spec)
	k.wantExited(e, 0)
	if got := out.text(driver.Stdout); got != want.String() {
		k.Errorf("merged output is not in the order written: %q", short(got))
	}
	if n := out.count(driver.Stderr); n != 0 || e.Stderr != 0 {
		k.Errorf("%d bytes (exit: %d) on a stderr that is merged", n, e.Stderr)
	}
}

func everyByteCase(k *kit) {
	e, out := k.run(k.spec("bytes", "bytes"))
	k.wantExited(e, 0)
	want := string(everyByte()) + string(everyByte())
	if got := out.text(driver.Stdout); got != want {
		k.Errorf("bytes changed on the way:\n got %q\nwant %q", got, want)
	}
}

// Writes around the size of a pipe and of usual buffers.
func blocks(k *kit) {
	list := []int64{1, 4095, 4096, 4097, 32767, 32768, 32769, 65535, 65536, 65537, 131071, 131072, 131073, 262145, 1<<20 - 1, 1 << 20, 1<<20 + 1, 1}
	var total int64
	var arg []string
	for _, n := range list {
		total += n
		arg = append(arg, fmt.Sprint(n))
	}
	o := newSink()
	c := newChecker(1)
	o.to[driver.Stdout] = c
	r := k.startTo(k.spec("blocks="+strings.Join(arg, ",")), o, nil)
	e := r.end()
	k.wantExited(e, 0)
	c.check(k, "blocks", total)
	if e.Stdout != total {
		k.Errorf("exit counts %d bytes, want %d", e.Stdout, total)
	}
}

// lineChecker wants n times x and a newline.
type lineChecker struct{ n, bad int64 }

func (c *lineChecker) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.bad += int64(len(p) - bytes.Count(p, []byte("x")))
	return len(p), nil
}

func oneLine(k *kit) {
	o := newSink()
	c := new(lineChecker)
	o.to[driver.Stdout] = c
	r := k.startTo(k.spec(fmt.Sprintf("line=%d", sizes.line)), o, nil)
	k.wantExited(r.end(), 0)
	if c.n != sizes.line+1 || c.bad != 1 {
		k.Errorf("a line of %d bytes arrived as %d bytes, %d of them wrong", sizes.line, c.n-1, c.bad-1)
	}
}

func stream(k *kit) {
	o := newSink()
	c := newChecker(7)
	o.to[driver.Stdout] = c
	r := k.startTo(k.spec(fmt.Sprintf("flood=%d,7", sizes.stream)), o, nil)
	k.wantExited(r.end(), 0)
	c.check(k, "stream", sizes.stream)
}

func bothStreams(k *kit) {
	n := sizes.stream / 16
	o := newSink()
	a, b := newChecker(3), newChecker(4)
	o.to = [2]io.Writer{a, b}
	open := o.block()
	r := k.startTo(k.spec(fmt.Sprintf("both=%d", n)), o, nil)
	// While one call is inside, a host that has a goroutine for each stream comes
	// with the second. One that does not is given a moment to show it.
	for end := time.Now().Add(500 * time.Millisecond); o.inside.Load() < 2 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	open()
	k.wantExited(r.end(), 0)
	a.check(k, "stdout", n)
	b.check(k, "stderr", n)
}

// 200 KB and gone: what is in the pipe at the exit is part of the output.
func lastWords(k *kit) {
	for range 5 {
		o := newSink()
		c := newChecker(9)
		o.to[driver.Stdout] = c
		r := k.startTo(k.spec("flood=200000,9", "exit=3"), o, nil)
		e := r.end()
		k.wantExited(e, 3)
		c.check(k, "output before the exit", 200000)
	}
}

// The grace is for the agent's last words: they are read to their end, also
// when they are more than a pipe holds.
func tailOnTerminate(k *kit) {
	const n = 3_000_000
	o := newSink()
	c := newChecker(2)
	spec := k.spec("trap=term", "err=up", fmt.Sprintf("tail=%d", n), "exit=0")
	spec.Grace = 20 * time.Second
	o.to[driver.Stdout] = c
	r := k.startTo(spec, o, nil)
	o.await(k, k.h.patience(), "start", func() bool { return o.n[driver.Stderr] > 0 })
	r.signal(driver.Terminate)
	k.wantKilled(r.end())
	c.check(k, "tail after TERM", n)
}

func killWhileFlooding(k *kit) {
	spec := k.spec(append(child("hold,setsid", "ignore=term", "out=x", "wait"), "flood=-1,1")...)
	spec.Duplex = true
	r := k.start(spec)
	r.out.to[driver.Stdout] = newChecker(1)
	r.out.await(k, k.h.patience(), "a flood", func() bool { return r.out.n[0] > 1<<20 })
	r.write([]byte("a command that writes can be written to\n"))
	r.kill()
	k.none(spec.ID, "when Kill has returned")
	k.wantKilled(r.end())
}

// An Output that blocks holds the command back, never its end: a full disk or a
// stuck viewer must not make a run immortal.
func killWhileBlocked(k *kit) {
	o := newSink()
	release := o.block()
	defer release()
	spec := k.spec(append(child("setsid", "ignore=term", "wait"), "flood=-1,1")...)
	spec.Duplex = true
	r := k.startTo(spec, o, nil)
	o.await(k, k.h.patience(), "output", func() bool { return o.inside.Load() > 0 })
	r.write([]byte("x\n"))
	r.signal(driver.Interrupt)
	r.kill()
	k.none(spec.ID, "when Kill has returned and Output still blocks")
	release()
	k.wantKilled(r.end())
}

// Nothing but memory limits a reader that does not read, unless the command is
// held back: 64 MiB of flood must not be taken.
func slowReaderHoldsBack(k *kit) {
	const bound = 64 << 20
	o := newSink()
	release := o.block()
	defer release()
	spec := k.spec(fmt.Sprintf("flood=%d,1", bound), "err=through", "wait")
	r := k.startTo(spec, o, nil)
	o.await(k, k.h.patience(), "output", func() bool { return o.inside.Load() > 0 })
	// Whether it was held back shows in the end: a command that was not has
	// written all, and then says so. It cannot be seen while Output blocks, so
	// it is killed first.
	time.Sleep(200 * time.Millisecond)
	r.kill()
	release()
	e := r.end()
	k.wantKilled(e)
	if e.Stdout > bound/2 || e.Stderr > 0 {
		k.Errorf("%d bytes were taken while Output blocked, want the command held back after a few MiB", e.Stdout)
	}
}

func spool(k *kit) {
	k.declared(k.h.NoSpool)
	n := sizes.stream / 4
	o := newSpooled()
	r := k.startTo(k.spec(fmt.Sprintf("flood=%d,5", n), "err=oops", "exit=2"), o.sink, o)
	k.wantExited(r.end(), 2)
	k.checkSpool(o, n, 5, "oops")
}

func (k *kit) checkSpool(o spooled, n int64, seed uint64, stderr string) {
	k.Helper()
	if o.files[0] == "" {
		k.Fatal("Spool was not called, and Harness.NoSpool gives no reason")
	}
	if o.n[0] != n || o.n[1] != int64(len(stderr)) {
		k.Errorf("announced %d and %d bytes, want %d and %d", o.n[0], o.n[1], n, len(stderr))
	}
	c := newChecker(seed)
	for s, file := range o.files {
		fi, err := os.Lstat(file)
		if err != nil {
			k.Fatal(err)
		}
		if fi.Mode() != 0o600 {
			k.Errorf("%v is %v, want a plain file for its owner only", driver.Stream(s), fi.Mode())
		}
		f, err := os.Open(file)
		if err != nil {
			k.Fatal(err)
		}
		defer f.Close()
		if driver.Stream(s) == driver.Stdout {
			io.Copy(c, f)
			continue
		}
		if b, err := io.ReadAll(f); err != nil || string(b) != stderr {
			k.Errorf("stderr file holds %q (%v), want %q", short(b), err, stderr)
		}
	}
	c.check(k, "spool file", n)
}

// After a kill, what is announced in the end is what the file holds.
func spoolAfterKill(k *kit) {
	k.declared(k.h.NoSpool)
	o := newSpooled()
	r := k.startTo(k.spec("flood=-1,5"), o.sink, o)
	o.await(k, k.h.patience(), "a flood", func() bool { return o.n[0] > 1<<20 })
	r.kill()
	e := r.end()
	k.wantKilled(e)
	if e.Stdout != o.n[0] {
		k.Errorf("exit counts %d bytes, %d were announced", e.Stdout, o.n[0])
	}
	k.checkSpool(o, o.n[0], 5, "")
}

func samples(k *kit) {
	k.declared(k.h.NoSample)
	o := newSink()
	r := k.startTo(k.spec(append(child("setsid", "wait"), "wait")...), o, sampled{o})
	o.await(k, k.h.patience(), "sample of two processes", func() bool {
		for _, s := range o.samples {
			if s.Procs == 2 && s.RSS > 1<<16 && s.CPU >= 0 {
				return true
			}
		}
		return false
	})
	r.kill()
	if e := r.end(); e.RSSMax < 1<<16 {
		k.Errorf("the highest sample is %d bytes", e.RSSMax)
	}
}
