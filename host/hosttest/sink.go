package hosttest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// sink is a driver.Output that keeps what it is given, or hands it to a
// checker, and notes every breach of the rules of Output.
type sink struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	to      [2]io.Writer  // where the bytes go; nil: buf
	buf     [2]bytes.Buffer
	n       [2]int64
	inside  atomic.Int32 // calls of Data at this moment; not behind mu, which would make them one
	over    bool         // Wait has returned
	faults  []string
	gate    chan struct{} // not nil: Data blocks until it is closed
	samples []driver.Sample
}

func newSink() *sink { return &sink{changed: make(chan struct{})} }

func (o *sink) Data(s driver.Stream, p []byte) {
	two := o.inside.Add(1) > 1
	defer o.inside.Add(-1)
	o.mu.Lock()
	if two {
		o.fault("Data was called by two goroutines at a time")
	}
	gate := o.gate
	o.wake()
	o.mu.Unlock()
	if gate != nil {
		<-gate
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		o.fault(fmt.Sprintf("%d bytes of %v were given after Wait had returned", len(p), s))
	}
	if o.to[s] != nil {
		o.to[s].Write(p)
	} else {
		o.buf[s].Write(p)
	}
	o.n[s] += int64(len(p))
	o.wake()
}

// fault is called with mu held.
func (o *sink) fault(s string) {
	if len(o.faults) < 5 {
		o.faults = append(o.faults, s)
	}
}

func (o *sink) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// finish is called when Wait has returned.
func (o *sink) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inside.Load() > 0 && !o.over {
		o.fault("Wait returned during a call of Data")
	}
	o.over = true
}

func (o *sink) broken() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.faults...)
}

func (o *sink) text(s driver.Stream) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf[s].String()
}

func (o *sink) count(s driver.Stream) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n[s]
}

// await waits until ok holds; it is called with mu held.
func (o *sink) await(t testing.TB, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		o.mu.Lock()
		good, changed := ok(), o.changed
		out, errs := short(o.buf[0].Bytes()), short(o.buf[1].Bytes())
		o.mu.Unlock()
		if good {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("no %s within %v; stdout %q, stderr %q", what, patience, out, errs)
		}
	}
}

// block holds Data until the returned function is called.
func (o *sink) block() (release func()) {
	gate := make(chan struct{})
	o.mu.Lock()
	o.gate = gate
	o.mu.Unlock()
	return sync.OnceFunc(func() {
		o.mu.Lock()
		o.gate = nil
		o.mu.Unlock()
		close(gate)
	})
}

// sampled is a sink that takes samples.
type sampled struct{ *sink }

func (o sampled) Sample(s driver.Sample) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.samples = append(o.samples, s)
	o.wake()
}

// spooled is a sink that takes spool files. Its counts are what was announced.
type spooled struct {
	*sink
	files *[2]string
}

func newSpooled() spooled { return spooled{newSink(), new([2]string)} }

func (o spooled) Spool(stdout, stderr string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.files[0] != "" {
		o.fault("Spool was called twice")
	}
	*o.files = [2]string{stdout, stderr}
	o.wake()
}

func (o spooled) Spooled(s driver.Stream, n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		o.fault("Spooled was called after Wait had returned")
	}
	if o.files[s] == "" {
		o.fault("Spooled was called before Spool")
		return
	}
	if n < o.n[s] {
		o.fault(fmt.Sprintf("Spooled(%v) went back from %d to %d", s, o.n[s], n))
	}
	// What is announced must be there: readers go by the number.
	if fi, err := os.Stat(o.files[s]); err != nil || fi.Size() < n {
		o.fault(fmt.Sprintf("Spooled(%v, %d), but the file is not that long: %v", s, n, err))
	}
	o.n[s] = n
	o.wake()
}

// checker compares a stream with a pattern as it arrives.
type checker struct {
	want pattern
	n    int64
	bad  int64 // offset of the first wrong byte, -1 when there is none
	tmp  []byte
}

func newChecker(seed uint64) *checker { return &checker{want: pattern{seed: seed}, bad: -1} }

func (c *checker) Write(p []byte) (int, error) {
	if c.bad < 0 {
		if len(c.tmp) < len(p) {
			c.tmp = make([]byte, len(p))
		}
		b := c.tmp[:len(p)]
		c.want.Read(b)
		if !bytes.Equal(b, p) {
			i := 0
			for b[i] == p[i] {
				i++
			}
			c.bad = c.n + int64(i)
		}
	}
	c.n += int64(len(p))
	return len(p), nil
}

func (c *checker) check(t testing.TB, what string, n int64) {
	t.Helper()
	if c.n != n {
		t.Errorf("%s: %d bytes arrived, want %d", what, c.n, n)
	}
	if c.bad >= 0 {
		t.Errorf("%s: byte %d is wrong: something was lost, doubled or swapped", what, c.bad)
	}
}

func short[T ~string | ~[]byte](s T) string {
	if len(s) > 300 {
		return string(s[:150]) + " … " + string(s[len(s)-150:])
	}
	return string(s)
}
