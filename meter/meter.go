// Package meter adds up what one run used: tokens and money, each counted
// once, however often and in whatever form the agent tells it.
package meter

import (
	"cmp"

	"github.com/rein-run/rein/agent"
)

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
	// CostUSD is what the agent told, or an estimate, or a sum of both.
	CostUSD float64
	// CostSource is FromAgent when the CLI told all of the cost, FromTable when
	// some of it is an estimate by list prices, FromNowhere when nothing is
	// known.
	CostSource string
	// Unpriced is a model whose tokens are not in CostUSD, because the agent
	// tells no cost for it and no price is known; "unknown" when not even the
	// model is. "" when CostUSD lacks nothing.
	Unpriced string
	// EarlierRuns says that the tokens contain those of earlier runs of the
	// same session, because the agent tells only the sum of the conversation
	// and what it was before is not known (see Meter.Baseline).
	EarlierRuns bool
}

// The values of Totals.CostSource.
const (
	FromAgent   = "agent"
	FromTable   = "table"
	FromNowhere = "none"
)

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
// one exception: what turns tell beyond their requests is added to them.
type Meter struct {
	// Resumed says that the run continues a session. Set it before the first
	// Add. What such a run tells before its turn begins is a replay of what
	// earlier runs used: it is not counted once a turn has begun, and the sum of
	// a conversation that is told there is the Baseline if there is none.
	Resumed bool
	// Baseline is what Thread returned at the end of the session's last run:
	// codex tells the sum of the whole conversation, and only what is beyond
	// the baseline is of this run. Without it a resumed conversation is charged
	// in full, and Totals.EarlierRuns says so: too much is a surprise, nothing
	// at all would be a lie. Set it before the first Add.
	Baseline *agent.Usage
	// Model is the model that was asked for. It prices what is told without a
	// model. Set it, and Prices, before the first Add.
	Model  string
	Prices Prices

	began  bool   // a turn has begun
	replay *Meter // what a resumed run told before that

	open     map[string]request // requests that may yet be told fuller
	order    []string           // their ids, oldest first
	requests counts             // all requests, those in open included
	sub      counts             // those of sub-agents among them
	turns    counts             // sum of what turns told
	beyond   counts             // the most that turns were ahead of the requests

	process counts  // largest sum of the process
	thread  counts  // this run's share of the conversation
	last    *counts // sum of the conversation as last told

	money     money
	model     string // last one that was told
	subagents int
	toolCalls int
	earlier   bool
	told      Totals // see Totals
}

type request struct {
	counts
	cost     float64 // as the agent told it
	estimate float64 // by a price, where it told none
	unpriced bool
	sub      bool
}

// maxOpen bounds the requests that are kept to be replaced. A request is told
// in a few lines that stand together; thousands later nothing more comes.
const maxOpen = 4096

// Add takes one reading, of any kind.
func (m *Meter) Add(r agent.Reading) {
	if m.Resumed && !m.began {
		if r.Kind == agent.KindTurnStarted {
			m.begin()
			return
		}
		if m.replay == nil {
			m.replay = &Meter{Baseline: m.Baseline, Model: m.Model, Prices: m.Prices, earlier: m.Baseline == nil}
		}
		m.replay.Add(r)
		return
	}
	if r.Kind == agent.KindToolStarted {
		m.toolCalls++
		if r.Tool != nil && r.Tool.Spawns {
			m.subagents++
		}
	}
	if r.Usage == nil {
		return
	}
	if r.SubAgent == "" {
		m.model = cmp.Or(r.Usage.Model, m.model)
	}
	c := countsOf(r.Usage)
	switch r.Usage.Scope {
	case agent.PerTurn:
		// Turns are compared with requests by their sums: claude 2.1.332 prints
		// the results of several turns together, long after their requests. The
		// sum of a turn may contain the sub-agents' requests or not: compared
		// with all of them it can be too small, never twice.
		m.turns.add(c)
		m.beyond.raise(m.turns.minus(m.requests))
	case agent.PerProcess:
		m.process.raise(c)
		m.money.process(clean(r.Usage.CostUSD))
	case agent.PerThread:
		m.addThread(c)
	default:
		m.addRequest(r.Usage.ID, m.request(r, c))
	}
}

// begin: what was told before the first turn of a resumed run was a replay.
func (m *Meter) begin() {
	m.began = true
	if r := m.replay; r != nil && m.Baseline == nil {
		m.Baseline = r.Thread()
	}
	m.replay = nil
}

func (m *Meter) request(r agent.Reading, c counts) request {
	q := request{counts: c, cost: clean(r.Usage.CostUSD), sub: r.SubAgent != ""}
	if q.cost == 0 && c.sum() > 0 {
		price, ok := m.Prices.find(cmp.Or(r.Usage.Model, m.Model))
		q.estimate, q.unpriced = price.cost(c), !ok
		if q.unpriced {
			m.money.unpriced = cmp.Or(r.Usage.Model, m.Model, "unknown")
		}
	}
	return q
}

// addRequest counts a request once. Several lines tell the same one (a line for
// each content block; a placeholder first, the truth at the end): the fullest
// stands, as a whole line and at the price of its own model. The largest of
// each field would mix two models when the CLI falls back to another one in the
// middle.
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
		m.money.add(-old.cost, -old.estimate)
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
	m.money.add(r.cost, r.estimate)
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
		if m.replay != nil {
			return m.replay.Thread()
		}
		return nil
	}
	return &agent.Usage{
		Scope: agent.PerThread,
		Input: m.last.input, Output: m.last.output, CacheRead: m.last.cacheRead, CacheWrite: m.last.cacheWrite,
	}
}

// Totals returns what was used so far. No number is ever smaller than in an
// earlier call, with two exceptions that put a truth in the place of a guess:
// an estimate of the cost gives way to what the agent tells, and a replay is
// taken back when the turn of a resumed run begins.
func (m *Meter) Totals() Totals {
	if m.replay != nil {
		return m.replay.Totals() // no turn has begun: it may be all that there will be
	}
	c := m.requests
	c.add(m.beyond)
	c.raise(m.process)
	c.raise(m.thread)
	t := &m.told
	t.Input = max(t.Input, c.input)
	t.Output = max(t.Output, c.output)
	t.CacheRead = max(t.CacheRead, c.cacheRead)
	t.CacheWrite = max(t.CacheWrite, c.cacheWrite)
	delegated := m.sub
	if m.subagents > 0 {
		// The stream tells only placeholders of what sub-agents wrote (claude
		// 2.1.332); the sum of the process knows.
		delegated.raise(m.process.minus(m.requests.minus(m.sub)))
	}
	t.Delegated = max(t.Delegated, delegated.input+delegated.cacheWrite+delegated.output)
	t.Subagents, t.ToolCalls = m.subagents, m.toolCalls
	m.price(t, c.minus(m.requests))
	t.EarlierRuns = m.earlier
	return *t
}

// price fills in the cost. rest is what no request told.
func (m *Meter) price(t *Totals, rest counts) {
	var estimate float64
	unpriced := m.money.unpriced
	if rest.sum() > 0 {
		model := cmp.Or(m.model, m.Model)
		price, ok := m.Prices.find(model)
		if !ok && m.money.ofProcess == 0 {
			unpriced = cmp.Or(unpriced, model, "unknown")
		}
		estimate = price.price.of(rest) // a sum: no request's length is known
	}
	usd, source := m.money.total(estimate)
	t.Unpriced = unpriced
	if source == t.CostSource {
		usd = max(usd, t.CostUSD)
	}
	t.CostUSD, t.CostSource = usd, source
}
