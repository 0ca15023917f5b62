package rein

import (
	"slices"
	"time"
)

// Attempt is one of several runs on one task, for the report of the last one.
type Attempt struct {
	ID        string    `json:"id"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	End       End       `json:"end"`
	Failure   string    `json:"failure"`
	Usage     Usage     `json:"usage"` // with that of the runs inside it
}

// attempt is what the reports of later attempts say of this run.
func (r *Report) attempt() Attempt {
	return Attempt{ID: r.ID, StartedAt: r.StartedAt, EndedAt: r.EndedAt, End: r.End, Failure: r.Failure, Usage: r.Usage.Plus(sumNested(r.Nested))}
}

// attempts fills in the list, behind the earlier ones.
func (r *Report) attempts(earlier []Attempt) {
	r.Attempts = []Attempt{}
	if len(earlier) > 0 {
		r.Attempts = append(slices.Clone(earlier), r.attempt())
	}
}

// Spent is what all attempts used, and the runs inside them.
func (r *Report) Spent() Usage {
	if len(r.Attempts) == 0 {
		return r.attempt().Usage
	}
	u := Usage{CostSource: "none"}
	for _, a := range r.Attempts {
		u = u.Plus(a.Usage)
	}
	return u
}
