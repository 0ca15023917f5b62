package proctree

import "slices"

// Session is a session (setsid(2)) that was once seen to belong to a run. It is
// what a record on disk can say about processes whose parents are gone.
type Session struct {
	SID   int    `json:"sid"`
	Start uint64 `json:"start"` // Proc.Start of the session's leader
	// Seen is when the session was last seen to belong to the run, in Ticks;
	// 0: never again after Start. Whoever was in the session before that moment
	// is proved; see proves.
	Seen uint64 `json:"seen,omitempty"`
}

// Sessions brings the record of a run's sessions up to date: members are what
// Tree.Members returned, now is what Ticks returned before that call.
//
// Only a session whose leader was a member is recorded. A member may well sit
// in somebody else's session (the terminal of the user), and reap must not end
// that one.
func Sessions(old []Session, members []Proc, now uint64) []Session {
	var out []Session
	for _, m := range members {
		if m.SID <= 0 || slices.ContainsFunc(out, func(s Session) bool { return s.SID == m.SID }) {
			continue
		}
		if i := slices.IndexFunc(members, func(p Proc) bool { return p.PID == m.SID && p.SID == m.SID }); i >= 0 {
			out = append(out, Session{SID: m.SID, Start: members[i].Start, Seen: now})
		} else if i := slices.IndexFunc(old, func(s Session) bool { return s.SID == m.SID }); i >= 0 {
			out = append(out, Session{SID: m.SID, Start: old[i].Start, Seen: now})
		}
	}
	return out
}

// proves says whether the session that has the number s.SID in table is the
// recorded one.
//
// A number is not given out again while any process has it as its session, so
// one member that is certain makes all of them certain. The leader is certain
// by its start time. Once it is gone, a member is certain that started before
// s.Seen: it can only have come by that session by being born into it, at a
// time when the number was known to be ours. A member that is younger could
// belong to a stranger who was given the number later.
func (s Session) proves(table []Proc) bool {
	for _, p := range table {
		if p.PID == s.SID {
			return p.Start == s.Start && p.SID == s.SID
		}
	}
	for _, p := range table {
		if p.SID == s.SID && s.Start <= p.Start && p.Start < s.Seen {
			return true
		}
	}
	return false
}
