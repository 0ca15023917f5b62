package boundary

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// Left is what belongs to a run, as the check at its end saw it.
type Left struct {
	Head   string // the branch that its working tree is on; "" when detached
	OID    string
	Gone   bool              // the working tree is not there
	Tips   map[string]string // branch, by its full name → object; "" where there is none
	Config map[string]string // branch → hash of its settings
}

// Left is how a run that began on that branch (its full name, "" when HEAD was
// detached) left its part of the repository, when s is the snapshot after it. It
// is nil for a snapshot that was not taken.
func (s *Snapshot) Left(branch string) *Left {
	if !s.Checked {
		return nil
	}
	head, gone := s.headOf(s.Top)
	if head == nil {
		head = &s.Head
	}
	l := &Left{Head: head.Ref, OID: head.OID, Gone: gone, Tips: map[string]string{}, Config: map[string]string{}}
	for _, b := range []string{branch, head.Ref} {
		if b != "" {
			l.Tips[b], l.Config[b] = s.oid(b), s.branchConfig(b)
		}
	}
	return l
}

// branchConfig is a hash of the settings of one branch.
func (s *Snapshot) branchConfig(branch string) string {
	prefix := "branch." + strings.TrimPrefix(branch, "refs/heads/") + "."
	sum := sha256.New()
	for _, set := range s.Config {
		if strings.HasPrefix(set.Key, prefix) {
			_ = json.NewEncoder(sum).Encode(set) // of strings, into memory
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// leftTree says whether the working tree of a run that is over is as it left it.
func (q *asker) leftTree(p *Peer) bool {
	head, gone := q.after.headOf(p.Top)
	return gone == p.Left.Gone &&
		(head == nil || head.Ref == p.Left.Head && (!head.Detached() || head.OID == p.Left.OID))
}
