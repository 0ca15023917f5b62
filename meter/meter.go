// Package meter adds up what one run used: tokens and money, each counted
// once, however often and in whatever form the agent tells it.
package meter

import "github.com/rein-run/rein/agent"

// Totals are what a run used so far.
type Totals struct {
	Input      int64 // without what came from a cache
	Output     int64
	CacheRead  int64
	CacheWrite int64
	// Delegated is the share of Input, CacheWrite and Output that sub-agents
	// used. It is contained in them.
	Delegated int64
	Subagents int // that were started
	ToolCalls int
	CostUSD   float64
	// CostSource is "agent" when the CLI told the cost, else "none".
	CostSource string
	// EarlierRuns says that the tokens contain those of earlier runs of the
	// same session, because the agent tells only the sum of the conversation
	// and what it was before is not known (see Meter.Baseline).
	EarlierRuns bool
}

// Counted is what a token budget counts: all but what was read from a cache.
func (t Totals) Counted() int64 { return t.Input + t.CacheWrite + t.Output }

// Zero says that not one token was told.
func (t Totals) Zero() bool { return t.Counted() == 0 && t.CacheRead == 0 }

// Meter adds up the readings of one run. The zero value is ready. It is not
// safe for concurrent use. Its memory is bounded.
//
// An agent tells the same tokens in up to three ways: request by request, as
// the sum of a turn, as the sum of the process or of the conversation. None is
// complete: a killed process prints no sum, a sum of an interrupted turn is
// zero, side requests are in no turn. So each way is added up by itself, and
// the largest counts, field by field. They are never added to each other, with
// one exception: what a turn tells beyond its requests is added to them.
type Meter struct {
	// Resumed says that the run continues a session. Set it before the first
	// Add.
	Resumed bool
	// Baseline is what Thread returned at the end of the session's last run:
	// codex tells the sum of the whole conversation, and only what is beyond
	// the baseline is of this run. Without it a resumed conversation is charged
	// in full, and Totals.EarlierRuns says so: too much is a surprise, nothing
	// at all would be a lie. Set it before the first Add.
	Baseline *agent.Usage

	open     map[string]request // requests that may yet be told fuller
	order    []string           // their ids, oldest first
	requests counts             // all requests, those in open included
	sub      counts             // those of sub-agents among them
	turnFrom counts             // requests when the last turn ended
	turns    counts             // what turns told beyond their requests

	process counts  // largest sum of the process
	thread  counts  // this run's share of the conversation
	last    *counts // sum of the conversation as last told

	cost        float64 // of requests
	processCost float64
	earlier     bool
	subagents   int
	toolCalls   int
	told        Totals // never goes down
}

type request struct {
	counts
	cost float64
	sub  bool
}

// maxOpen bounds the requests that are kept to be replaced. A request is told
// in a few lines that stand together; thousands later nothing more comes.
const maxOpen = 4096

// Add takes one reading, of any kind.
func (m *Meter) Add(r agent.Reading) {
	if r.Kind == agent.KindToolStarted {
		m.toolCalls++
		if r.Tool != nil && r.Tool.Spawns {
			m.subagents++
		}
	}
	if r.Usage == nil {
		return
	}
	c := countsOf(r.Usage)
	switch r.Usage.Scope {
	case agent.PerTurn:
		// A sum may contain the sub-agents' requests or not: compared with all
		// of them it can be too small, never twice.
		m.turns.add(c.minus(m.requests.minus(m.turnFrom)))
		m.turnFrom = m.requests
	case agent.PerProcess:
		m.process.raise(c)
		m.processCost = max(m.processCost, clean(r.Usage.CostUSD))
	case agent.PerThread:
		m.addThread(c)
	default:
		m.addRequest(r.Usage.ID, request{c, clean(r.Usage.CostUSD), r.SubAgent != ""})
	}
}

// addRequest counts a request once. Several lines tell the same one (a line for
// each content block; a placeholder first, the truth at the end): the fullest
// stands, as a whole line. The largest of each field would mix two models when
// the CLI falls back to another one in the middle.
func (m *Meter) addRequest(id string, r request) {
	if id == "" {
		m.count(r)
		return
	}
	old, ok := m.open[id]
	if ok {
		if r.output < old.output || r.output == old.output && r.sum() < old.sum() {
			return
		}
		m.requests.sub(old.counts)
		m.cost -= old.cost
		if old.sub {
			m.sub.sub(old.counts)
		}
	} else {
		if m.open == nil {
			m.open = make(map[string]request)
		}
		if len(m.order) >= maxOpen {
			for _, o := range m.order[:maxOpen/2] {
				delete(m.open, o) // counted for good
			}
			m.order = append(m.order[:0], m.order[maxOpen/2:]...)
		}
		m.order = append(m.order, id)
	}
	m.open[id] = r
	m.count(r)
}

func (m *Meter) count(r request) {
	m.requests.add(r.counts)
	m.cost += r.cost
	if r.sub {
		m.sub.add(r.counts)
	}
}

// addThread makes a difference of a sum. When the sum gets smaller, the
// conversation was compacted or begun anew, and all of it is new.
func (m *Meter) addThread(c counts) {
	if m.last == nil {
		m.last = new(counts)
		switch {
		case m.Baseline != nil:
			*m.last = countsOf(m.Baseline)
		case m.Resumed:
			m.earlier = true
		}
	}
	if c.sum() < m.last.sum() {
		m.thread.add(c)
	} else {
		m.thread.add(c.minus(*m.last))
	}
	*m.last = c
}

// Thread is the sum of the conversation as the agent told it last, to be kept
// as the Baseline of the session's next run; nil when it told none.
func (m *Meter) Thread() *agent.Usage {
	if m.last == nil {
		return nil
	}
	return &agent.Usage{
		Scope: agent.PerThread,
		Input: m.last.input, Output: m.last.output, CacheRead: m.last.cacheRead, CacheWrite: m.last.cacheWrite,
	}
}

// Totals returns what was used so far. No number is ever smaller than in an
// earlier call.
func (m *Meter) Totals() Totals {
	c := m.requests
	c.add(m.turns)
	c.raise(m.process)
	c.raise(m.thread)
	t := &m.told
	t.Input = max(t.Input, c.input)
	t.Output = max(t.Output, c.output)
	t.CacheRead = max(t.CacheRead, c.cacheRead)
	t.CacheWrite = max(t.CacheWrite, c.cacheWrite)
	t.Delegated = max(t.Delegated, m.sub.input+m.sub.cacheWrite+m.sub.output)
	t.Subagents, t.ToolCalls = m.subagents, m.toolCalls
	t.CostUSD = max(t.CostUSD, m.cost, m.processCost)
	t.CostSource = "none"
	if t.CostUSD > 0 {
		t.CostSource = "agent"
	}
	t.EarlierRuns = m.earlier
	return *t
}
