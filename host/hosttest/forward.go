package hosttest

import (
	"context"
	"testing"

	"github.com/rein-run/rein/host/driver"
)

// Wrapper is something that stands in front of an Output or a Host: a recorder,
// a redactor, a counter.
type Wrapper struct {
	Output func(driver.Output) driver.Output // nil: it wraps none
	Host   func(driver.Host) driver.Host     // nil: it wraps none
}

// CheckForward checks that a wrapper has the optional abilities of what it
// wraps, and that calls get through. A wrapper that drops one switches it off
// for everybody above, and no test of its own notices; one that claims
// driver.SpoolOutput for an Output that has not got it loses every byte.
func CheckForward(t testing.TB, w Wrapper) {
	t.Helper()
	if w.Output != nil {
		checkOutput(t, w.Output)
	}
	if w.Host != nil {
		checkHost(t, w.Host)
	}
}

// heard notes the calls that got through.
type heard struct {
	data, spool, spooled, sample, ask int
}

func (h *heard) Data(driver.Stream, []byte) { h.data++ }

type heardSpool struct{ *heard }

func (h heardSpool) Spool(string, string)         { h.spool++ }
func (h heardSpool) Spooled(driver.Stream, int64) { h.spooled++ }

type heardSample struct{ *heard }

func (h heardSample) Sample(driver.Sample) { h.sample++ }

type heardAsk struct{ *heard }

func (h heardAsk) Ask([]byte) driver.Reply { h.ask++; return driver.Reply{Exit: 3} }

type heardAll struct {
	heardBoth
}

func (h heardAll) Ask([]byte) driver.Reply { h.ask++; return driver.Reply{Exit: 3} }

type heardBoth struct {
	*heard
	spooler heardSpool
}

func (h heardBoth) Spool(a, b string)                { h.spooler.Spool(a, b) }
func (h heardBoth) Spooled(s driver.Stream, n int64) { h.spooler.Spooled(s, n) }
func (h heardBoth) Sample(driver.Sample)             { h.sample++ }

func checkOutput(t testing.TB, wrap func(driver.Output) driver.Output) {
	t.Helper()
	for _, c := range []struct {
		name               string
		spool, sample, ask bool
		make               func(h *heard) driver.Output
	}{
		{"a plain Output", false, false, false, func(h *heard) driver.Output { return h }},
		{"a SpoolOutput", true, false, false, func(h *heard) driver.Output { return heardSpool{h} }},
		{"a Sampler", false, true, false, func(h *heard) driver.Output { return heardSample{h} }},
		{"an Asker", false, false, true, func(h *heard) driver.Output { return heardAsk{h} }},
		{"a SpoolOutput and Sampler", true, true, false, func(h *heard) driver.Output { return heardBoth{h, heardSpool{h}} }},
		{"an Output with every ability", true, true, true, func(h *heard) driver.Output { return heardAll{heardBoth{h, heardSpool{h}}} }},
	} {
		h := new(heard)
		out := wrap(c.make(h))
		out.Data(driver.Stdout, []byte("x"))
		if h.data != 1 {
			t.Errorf("%s: Data does not get through the wrapper", c.name)
		}
		so, spools := out.(driver.SpoolOutput)
		switch {
		case spools != c.spool && c.spool:
			t.Errorf("%s: the wrapper hides SpoolOutput", c.name)
		case spools != c.spool:
			t.Errorf("%s: the wrapper claims SpoolOutput: the bytes will be lost", c.name)
		case spools:
			so.Spool("a", "b")
			so.Spooled(driver.Stderr, 1)
			if h.spool != 1 || h.spooled != 1 {
				t.Errorf("%s: Spool and Spooled do not get through the wrapper", c.name)
			}
		}
		sa, samples := out.(driver.Sampler)
		if c.sample && !samples {
			t.Errorf("%s: the wrapper hides Sampler", c.name)
		}
		as, asks := out.(driver.Asker)
		switch {
		case asks != c.ask && c.ask:
			t.Errorf("%s: the wrapper hides Asker: every question will be refused", c.name)
		case asks != c.ask:
			t.Errorf("%s: the wrapper claims Asker", c.name)
		case asks:
			if r := as.Ask(nil); h.ask != 1 || r.Exit != 3 {
				t.Errorf("%s: Ask does not get through the wrapper", c.name)
			}
		}
		if samples {
			sa.Sample(driver.Sample{})
			if c.sample && h.sample != 1 {
				t.Errorf("%s: Sample does not get through the wrapper", c.name)
			}
		}
	}
}

type dumb struct{ driver.Host }

type seeing struct {
	driver.Host
	looks *int
}

func (s seeing) Look(context.Context, string, driver.Env) (*driver.Place, error) {
	*s.looks++
	return &driver.Place{Home: "/there"}, nil
}

func checkHost(t testing.TB, wrap func(driver.Host) driver.Host) {
	t.Helper()
	if _, ok := wrap(dumb{}).(driver.Looker); ok {
		t.Error("the wrapper claims Looker for a host that cannot look")
	}
	looks := 0
	l, ok := wrap(seeing{nil, &looks}).(driver.Looker)
	if !ok {
		t.Error("the wrapper hides Looker")
		return
	}
	if p, err := l.Look(context.Background(), "", nil); err != nil || p.Home != "/there" || looks != 1 {
		t.Errorf("Look does not get through the wrapper: %+v, %v", p, err)
	}
}
