package rein

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rein-run/rein/internal/disk"
	"github.com/rein-run/rein/store"
)

// Nested is what a run used that the agent of this one started, by `rein run` on
// the same machine and with the same state directory.
type Nested struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	Usage Usage  `json:"usage"` // with that of the runs inside it
}

const (
	nestedFile = "nested.json"
	// maxNested bounds the list: whoever runs as this user can add to it.
	maxNested     = 1000
	maxNestedFile = 1 << 20
	// outerEvery is how often a run tells the one that it is inside of.
	outerEvery = time.Second
	// outerBound bounds one attempt to tell.
	outerBound = 2 * time.Second
)

// nests is the book of the runs inside one. It is on the disk too: a run that
// loses its supervisor has spent it all the same. A nil one is empty.
type nests struct {
	mu   sync.Mutex
	dir  *store.Run
	list []Nested // by id
}

// note takes what a nested run says that it used. Nothing goes down: who says
// less than before is not believed.
func (n *nests) note(x Nested) error {
	if err := store.ValidID(x.ID); err != nil {
		return err
	}
	if u := x.Usage; u.InputTokens < 0 || u.OutputTokens < 0 || u.CacheReadTokens < 0 || u.CacheWriteTokens < 0 || u.DelegatedTokens < 0 || u.Subagents < 0 || u.ToolCalls < 0 || !(u.CostUSD >= 0) {
		return fmt.Errorf("run %s: nobody uses less than nothing", x.ID)
	}
	x.Agent = clip(x.Agent, 64)
	n.mu.Lock()
	defer n.mu.Unlock()
	i, there := slices.BinarySearchFunc(n.list, x.ID, func(e Nested, id string) int { return cmp.Compare(e.ID, id) })
	switch {
	case there:
		x.Usage = x.Usage.atLeast(n.list[i].Usage)
		n.list[i] = x
	case len(n.list) >= maxNested:
		return fmt.Errorf("%d runs inside this one are counted, which is the most", maxNested)
	default:
		n.list = slices.Insert(n.list, i, x)
	}
	b, err := json.Marshal(n.list)
	if err != nil {
		return err
	}
	return n.dir.WriteFile(nestedFile, b)
}

func (n *nests) all() []Nested {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

// usage is the sum of all.
func (n *nests) usage() Usage { return sumNested(n.all()) }

func sumNested(all []Nested) Usage {
	u := Usage{CostSource: "none"}
	for _, x := range all {
		u = u.Plus(x.Usage)
	}
	return u
}

// readNests reads the book that a dead supervisor left.
func readNests(dir string) *nests {
	n := &nests{}
	if b, err := disk.ReadFile(filepath.Join(dir, nestedFile), maxNestedFile); err == nil {
		_ = json.Unmarshal(b, &n.list) // what is no list is none
	}
	return n
}

// Plus adds up what two runs used.
func (u Usage) Plus(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.DelegatedTokens += v.DelegatedTokens
	u.Subagents += v.Subagents
	u.ToolCalls += v.ToolCalls
	u.CostUSD += v.CostUSD
	// An estimate makes the sum one; what is not known adds nothing to it.
	switch {
	case u.CostSource == "table" || v.CostSource == "table":
		u.CostSource = "table"
	case u.CostSource == "agent" || v.CostSource == "agent":
		u.CostSource = "agent"
	default:
		u.CostSource = "none"
	}
	return u
}

// Counted is what a token budget counts: all but what was read from a cache.
func (u Usage) Counted() int64 { return u.InputTokens + u.CacheWriteTokens + u.OutputTokens }

// atLeast is u, field by field not below v.
func (u Usage) atLeast(v Usage) Usage {
	u.InputTokens = max(u.InputTokens, v.InputTokens)
	u.OutputTokens = max(u.OutputTokens, v.OutputTokens)
	u.CacheReadTokens = max(u.CacheReadTokens, v.CacheReadTokens)
	u.CacheWriteTokens = max(u.CacheWriteTokens, v.CacheWriteTokens)
	u.DelegatedTokens = max(u.DelegatedTokens, v.DelegatedTokens)
	u.Subagents = max(u.Subagents, v.Subagents)
	u.ToolCalls = max(u.ToolCalls, v.ToolCalls)
	u.CostUSD = max(u.CostUSD, v.CostUSD)
	return u
}

// noteNested is what the control socket does with it.
func (r *Run) noteNested(x Nested) error {
	if err := r.nests.note(x); err != nil {
		return err
	}
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.out.digest.tellSpent()
	return nil
}

// outer tells the run that this one is inside of what is spent. A nil one tells
// nobody.
type outer struct {
	to   *Remote
	id   string // of this run
	name string // of its agent
	wake chan struct{}
}

// findOuter looks for it: nil when there is none, or it is not in this store.
func findOuter(s *store.Store, parent, id, name string) *outer {
	if parent == "" || parent == id || !s.Live(parent) {
		return nil
	}
	dir, err := s.Get(parent)
	if err != nil {
		return nil
	}
	return &outer{to: &Remote{dir}, id: id, name: name, wake: make(chan struct{}, 1)}
}

// poke says that there is something to tell; it never blocks.
func (o *outer) poke() {
	if o == nil {
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run tells until done is closed. What cannot be told is told by the next one,
// and at last by tell.
func (o *outer) run(done <-chan struct{}, usage func() Usage) {
	if o == nil {
		return
	}
	for {
		select {
		case <-done:
			return
		case <-o.wake:
		}
		o.tell(usage())
		t := time.NewTimer(outerEvery)
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

func (o *outer) tell(u Usage) {
	if o == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), outerBound)
	defer cancel()
	_, _ = o.to.ask(ctx, request{Verb: "spent", Nested: &Nested{ID: o.id, Agent: o.name, Usage: u}})
}
