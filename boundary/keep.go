package boundary

import (
	"fmt"

	"github.com/rein-run/rein/internal/git"
)

// KeptRefs is where objects are kept that a restore command needs. A push of
// everything ("--mirror") takes them along, no other one does.
const KeptRefs = "refs/rein/"

// keep makes a reference for what the restore command of c needs and nothing
// else may name any more. A reference that cannot be made is no failure: the
// object is there, and git gc leaves it alone for two weeks.
func (q *asker) keep(c *Change) {
	if q.o.ID == "" || c.Restore == "" {
		return
	}
	var oids []string
	switch c.kind {
	case ref, head, worktree:
		if oid(c.Before) && c.What != Committed {
			oids = []string{c.Before}
		}
	case stash:
		oids = needs(c, q.before, q.after)
	case hook, store:
		oids = c.needs
	}
	for _, o := range oids {
		if q.kept == nil {
			q.kept = map[string]string{}
		}
		name, ok := q.kept[o]
		if !ok && len(q.kept) < maxKept {
			name = fmt.Sprintf("%s%s/%d", KeptRefs, q.o.ID, len(q.kept))
			if git.Keep(q.ctx, q.run, q.dir, name, o) != nil {
				name = ""
			}
			q.kept[o] = name
		}
		if c.Kept == "" {
			c.Kept = name
		}
	}
}
