package rein

import (
	"strings"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/meter"
	"github.com/rein-run/rein/watch"
)

// digest is what the readings of one run said, kept small whatever the length
// of the transcript. The live run and the reaper fill it in the same way, so
// that a report made after a crash says what the other one would have said.
type digest struct {
	session  string
	model    string // last one really used by the main agent
	version  string
	activity string
	// terminal is the last terminal event; a later result replaces an earlier
	// one (claude 2.1.332 prints a second when its background task ends).
	terminal *agent.Reading
	text     string // last text of the main agent, for agents without an answer in the terminal event
	failure  *agent.Failure
	classes  map[agent.Class]agent.Failure // last failure of each class
	denied   []string
	plain    []string // last lines that are not the agent's protocol
	meter    meter.Meter
	live     bool               // the readings are of now, so a wait that is announced is one from now
	spent    func(meter.Totals) // is told when the meter has moved; may be nil
	nests    *nests             // what runs inside this one used
	limits   watch.Limits       // that the findings compare with what was used
	warnings []string           // what a budget cannot do in this run
	// rulesLeft says why the rules could not be taken out of their file again.
	rulesLeft string
	damage    string // what happened to the transcript, "" when nothing did

	warden  *warden  // nil in a report that is made after a crash
	gate    *gate    // nil: not armed, or a report that is made after a crash
	refused []string // by the gate
	silent  string   // what ran past it
}

const (
	maxEvidence = 300
	maxDenied   = 20
	maxPlain    = 3
)

func (d *digest) read(r agent.Reading) {
	if r.Activity != "" {
		d.activity = clip(r.Activity, maxEvidence)
	}
	if r.SessionID != "" && r.SubAgent == "" {
		d.session = r.SessionID
	}
	if r.Model != "" && r.SubAgent == "" {
		d.model = r.Model
	}
	if r.Version != "" {
		d.version = r.Version
	}
	d.meter.Add(r)
	if r.Usage != nil || r.Tool != nil && r.Tool.Spawns {
		d.tellSpent()
	}
	switch r.Kind {
	case agent.KindText:
		if r.SubAgent == "" {
			d.text = r.Text
		}
	case agent.KindDenied:
		if r.Tool != nil && len(d.denied) < maxDenied && !d.gate.refusedCall(*r.Tool) {
			what := r.Tool.Name
			if r.Tool.Command != "" {
				what += ": " + r.Tool.Command
			}
			d.denied = append(d.denied, clip(what, maxEvidence))
		}
	case agent.KindRetry, agent.KindError:
		d.fail(r.Failure)
		if f := r.Failure; d.live && f != nil && f.Class == agent.RateLimit && f.Until == nil && r.After > 0 {
			at := time.Now().Add(r.After).UTC()
			d.fail(&agent.Failure{Class: f.Class, Text: f.Text, Status: f.Status, Until: &at})
		}
	case agent.KindTurnEnded:
		end := r
		d.terminal = &end
		d.fail(r.Failure)
	case agent.KindUnknown:
		if r.Text != "" {
			d.plain = append(d.plain, clip(r.Text, maxEvidence))
			if len(d.plain) > maxPlain {
				d.plain = d.plain[1:]
			}
		}
	}
}

func (d *digest) tellSpent() {
	if d.spent != nil {
		d.spent(d.meter.Totals())
	}
}

func (d *digest) fail(f *agent.Failure) {
	if f == nil {
		return
	}
	if d.classes == nil {
		d.classes = map[agent.Class]agent.Failure{}
	}
	kept := *f
	kept.Text = clip(kept.Text, maxEvidence)
	if old, ok := d.classes[f.Class]; ok && kept.Until == nil {
		// claude tells the reset in an event of its own, and the result that
		// follows says only "429".
		kept.Until = old.Until
	}
	d.classes[f.Class] = kept
	d.failure = &kept
}

// answer is what the agent said last, as its answer.
func (d *digest) answer() string {
	if d.terminal != nil && d.terminal.Text != "" {
		return d.terminal.Text
	}
	return d.text
}

// succeeded says that the agent itself claims success.
func (d *digest) succeeded() bool { return d.terminal != nil && d.terminal.OK }

// clip cuts s to n bytes at most, at a rune, on one line.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) <= n {
		return s
	}
	cut := n - len("…")
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}

// usage is what the run used so far.
func (d *digest) usage() Usage {
	t := d.meter.Totals()
	return Usage{
		InputTokens: t.Input, OutputTokens: t.Output, CacheReadTokens: t.CacheRead, CacheWriteTokens: t.CacheWrite,
		DelegatedTokens: t.Delegated, Subagents: t.Subagents, ToolCalls: t.ToolCalls,
		CostUSD: t.CostUSD, CostSource: t.CostSource,
	}
}
