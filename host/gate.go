package host

import (
	"sync"

	"github.com/rein-run/rein/host/driver"
)

// gate stands in front of an Output and lets nothing through after the end,
// whatever the driver does.
type gate struct {
	mu     sync.Mutex
	shut   bool
	inside int
	calls  uint64
	empty  chan struct{} // closed when shut and nobody is inside
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

// pass calls f unless the gate is shut.
func (g *gate) pass(f func()) {
	g.mu.Lock()
	if g.shut {
		g.mu.Unlock()
		return
	}
	g.inside++
	g.calls++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.inside--
		if g.shut && g.inside == 0 {
			close(g.empty)
		}
		g.mu.Unlock()
	}()
	f()
}

// close shuts the gate. The channel is closed when the last call has returned.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

// activity changes while the driver delivers; busy says that it is inside now.
func (g *gate) activity() (calls uint64, busy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls, g.inside > 0
}

// guard returns an Output behind g with exactly the optional abilities of out:
// a wrapper that dropped one would switch it off for everybody above, and one
// that added one would lie to the driver.
func (g *gate) guard(out driver.Output) driver.Output {
	o := output{g, out}
	spool, isSpool := out.(driver.SpoolOutput)
	sampler, isSampler := out.(driver.Sampler)
	if asker, ok := out.(driver.Asker); ok {
		a := askerOutput{g, asker}
		switch {
		case isSpool && isSampler:
			return struct {
				spoolOutput
				samplerOutput
				askerOutput
			}{spoolOutput{o, spool}, samplerOutput{g, sampler}, a}
		case isSpool:
			return struct {
				spoolOutput
				askerOutput
			}{spoolOutput{o, spool}, a}
		case isSampler:
			return struct {
				output
				samplerOutput
				askerOutput
			}{o, samplerOutput{g, sampler}, a}
		}
		return struct {
			output
			askerOutput
		}{o, a}
	}
	switch {
	case isSpool && isSampler:
		return struct {
			spoolOutput
			samplerOutput
		}{spoolOutput{o, spool}, samplerOutput{g, sampler}}
	case isSpool:
		return spoolOutput{o, spool}
	case isSampler:
		return struct {
			output
			samplerOutput
		}{o, samplerOutput{g, sampler}}
	}
	return o
}

type output struct {
	g   *gate
	out driver.Output
}

func (o output) Data(s driver.Stream, p []byte) { o.g.pass(func() { o.out.Data(s, p) }) }

type spoolOutput struct {
	output
	spool driver.SpoolOutput
}

func (o spoolOutput) Spool(stdout, stderr string) {
	o.g.pass(func() { o.spool.Spool(stdout, stderr) })
}

func (o spoolOutput) Spooled(s driver.Stream, n int64) {
	o.g.pass(func() { o.spool.Spooled(s, n) })
}

type samplerOutput struct {
	g       *gate
	sampler driver.Sampler
}

func (o samplerOutput) Sample(s driver.Sample) { o.g.pass(func() { o.sampler.Sample(s) }) }

// askerOutput refuses after the end. A question that is being answered does not
// count as being inside: an Asker that hangs must not look like an Output that
// takes its time with the data, which the end would wait for.
type askerOutput struct {
	g     *gate
	asker driver.Asker
}

func (o askerOutput) Ask(q []byte) driver.Reply {
	o.g.mu.Lock()
	shut := o.g.shut
	o.g.mu.Unlock()
	if shut {
		return driver.Refuse("rein: the run is over")
	}
	return o.asker.Ask(q)
}
