package rein

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
)

// Judge decides about one tool call before it runs: dir is the directory it
// would run in, where the agent runs, "" when the agent does not tell. reason
// is for the model: what was refused, and what to do instead. It may be called
// by several goroutines at once, and must answer within seconds: after 30 the
// call is refused without it. A Judge that panics has refused.
type Judge func(t agent.Tool, dir string) (allow bool, reason string)

// Gate says whether every tool call was asked about before it ran.
type Gate struct {
	Armed   bool   `json:"armed"`
	Why     string `json:"why,omitempty"` // why it was not armed
	Asked   int    `json:"asked"`         // questions that were answered
	Refused int    `json:"refused"`       // of these, with no
	// Unknown says that the numbers are not known: the supervisor died, and so did
	// its book.
	Unknown bool `json:"unknown,omitempty"`
}

// arm prepares that the agent asks, where it can be made to: cmd, the rest of
// the invocation, is for the agent to complete. gateWhy says why not. What the
// agent does without a gate is judged from its stream, after the fact.
func (p *prepared) arm(ctx context.Context, inv *agent.Invocation) {
	p.gateWhy = ""
	_, can := p.agent.(agent.Gate)
	switch {
	case !can || !p.caps.Gate:
		p.gateWhy = cmp.Or(p.agent.Name()+" "+p.facts.Version, "the agent") + " cannot be made to ask"
	case p.facts.OS == "windows":
		p.gateWhy = "not on Windows"
	}
	if p.gateWhy != "" && p.local {
		return
	}
	place, err := p.host.Look(ctx, "", nil)
	if err == nil {
		p.private = place.Private
	}
	switch {
	case p.gateWhy != "":
	case err != nil:
		p.gateWhy = clip("the host cannot be looked at: "+err.Error(), maxEvidence)
	case len(place.Keeper) == 0 || place.Private == "":
		p.gateWhy = "no keeper's program can be named there, by which the agent would ask"
	}
	if p.gateWhy != "" {
		return
	}
	dir := agent.Join(place.OS, place.Private, p.id)
	if l, ok := p.agent.(agent.GateLimits); ok {
		if p.gateWhy = l.CannotGate(p.facts, cmp.Or(inv.FilesDir, dir)); p.gateWhy != "" {
			return
		}
	}
	p.ask = &driver.Ask{Dir: dir}
	inv.Gate = &agent.Hook{Argv: append(slices.Clone(place.Keeper), "ask", dir)}
	if inv.FilesDir == "" {
		inv.FilesDir = dir // the keeper places the files
	}
}

// gate is the book of one run: what was asked about, what was answered, and
// what ran. A nil gate is not armed.
type gate struct {
	agent agent.Gate
	judge Judge           // of the warden
	over  <-chan struct{} // closed when the run is being stopped
	// silent is called once, when a tool ran that nobody had allowed.
	silent func(evidence string)
	book   io.WriteCloser // may be nil
	redact redactor       // of what goes there

	mu       sync.Mutex
	asked    int
	refused  int
	open     []question            // oldest first
	calls    map[string]agent.Tool // that the stream has shown, by id
	refusals []string              // evidence, the first ones
	broken   string                // evidence of the tool that ran
}

type question struct {
	tool    agent.Tool
	allowed bool
	ran     bool
}

const (
	// maxQuestions is how many are remembered. A call is asked about right
	// before it runs, so that only an agent that asks for the sake of asking
	// gets there; it is halted for what it then runs.
	maxQuestions = 4096
	maxCalls     = 4096
	maxRefusals  = 20
)

// answer answers one question of the agent's hook.
func (g *gate) answer(b []byte) (reply driver.Reply) {
	tool, dir, err := g.agent.Question(b)
	if err != nil {
		return g.note(agent.Tool{Name: "unknown"}, false, "rein: the question was not understood, so the call is refused")
	}
	defer func() {
		if v := recover(); v != nil {
			reply = g.note(tool, false, "rein: the judge failed, so the call is refused")
		}
	}()
	select {
	case <-g.over:
		return g.note(tool, false, "rein: this run is being stopped")
	default:
	}
	allow, reason := g.judge(tool, dir)
	return g.note(tool, allow, reason)
}

// note writes it down before the agent is told: when the tool runs, the book
// has it.
func (g *gate) note(t agent.Tool, allow bool, reason string) driver.Reply {
	g.mu.Lock()
	g.asked++
	e := entry{Allowed: allow}
	if !allow {
		g.refused++
		e.What = clip(g.redact.String(toolWords(t)+": "+reason), maxEvidence)
		if len(g.refusals) < maxRefusals {
			g.refusals = append(g.refusals, clip(toolWords(t)+": "+reason, maxEvidence))
		}
	}
	if len(g.open) >= maxQuestions {
		g.open = slices.Delete(g.open, 0, maxQuestions/4)
	}
	g.open = append(g.open, question{tool: t, allowed: allow})
	if b, err := json.Marshal(e); err == nil && g.book != nil {
		_, _ = g.book.Write(append(b, '\n')) // an aid: the count of this process is what holds
	}
	g.mu.Unlock()
	return g.agent.Answer(allow, reason)
}

// read compares what ran with what was asked about. A tool that ran and was not
// allowed to means that the gate is off: the settings were written over, the
// program was replaced, the CLI skips its hooks.
func (g *gate) read(r agent.Reading) {
	if g == nil || r.Tool == nil {
		return
	}
	g.mu.Lock()
	what := r.Tool
	switch r.Kind {
	case agent.KindToolStarted:
		if g.calls == nil || len(g.calls) >= maxCalls {
			g.calls = make(map[string]agent.Tool)
		}
		g.calls[what.ID] = *what
	case agent.KindToolFinished:
		if c, ok := g.calls[what.ID]; ok { // the end often has nothing but the id
			what = &c
			delete(g.calls, c.ID)
		}
	}
	first := false
	if g.agent.Ran(r) && !g.wasAllowed(*r.Tool) && g.broken == "" {
		first = true
		g.broken = clip(fmt.Sprintf("%s ran and had not been asked about (%d questions so far)", toolWords(*what), g.asked), maxEvidence)
	}
	g.mu.Unlock()
	if first {
		g.silent(g.broken)
	}
}

// wasAllowed finds the question behind a call that ran, newest first, and ticks
// it off. By id one is good for as often as the stream tells of it.
func (g *gate) wasAllowed(ran agent.Tool) bool {
	for i := len(g.open) - 1; i >= 0; i-- {
		q := &g.open[i]
		if !q.allowed || q.ran && q.tool.ID != ran.ID || !g.agent.Same(q.tool, ran) {
			continue
		}
		q.ran = true
		return true
	}
	return false
}

// refusedCall says that the CLI's news of a denied call is ours. Not every CLI
// tells its hook the id of the call (gemini 0.61.0).
func (g *gate) refusedCall(t agent.Tool) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.open, func(q question) bool {
		return !q.allowed && (t.ID != "" && q.tool.ID == t.ID || q.tool.ID == "" && g.agent.Same(q.tool, t))
	})
}

// report fills the digest and returns what the report says.
func (g *gate) report(why string, d *digest) Gate {
	if g == nil {
		return Gate{Why: why}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.book != nil {
		_ = g.book.Close()
		g.book = nil
	}
	d.refused, d.silent = slices.Clone(g.refusals), g.broken
	if more := g.refused - len(g.refusals); more > 0 {
		d.refused = append(d.refused, fmt.Sprintf("and %d more", more))
	}
	return Gate{Armed: true, Asked: g.asked, Refused: g.refused}
}

// toolWords names a call for a person.
func toolWords(t agent.Tool) string {
	s := cmp.Or(t.Name, "a tool")
	switch {
	case t.Command != "":
		s += ": " + t.Command
	case len(t.Files) > 0:
		s += ": " + t.Files[0]
	}
	return s
}
