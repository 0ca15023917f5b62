package rein

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rein-run/rein/store"
)

// showWait makes the run of the next attempt before its time, so that whoever
// lists runs sees that something waits, until when and for what, and can stop it.
// It is not begun: hide takes it away again, and the attempt makes it anew. What
// is left of one whose supervisor dies is finished by the next rein, as a run
// whose agent was never started.
//
// A wait that cannot be shown (a full disk) is waited all the same.
func showWait(last *Run, made []Attempt, id, first string, p *Pause, stop func()) (_ string, hide func()) {
	id = cmp.Or(id, store.NewID(time.Now()))
	hide = func() {}
	dir, err := last.p.store.Create(id)
	if err != nil {
		return id, hide
	}
	hide = func() { dir.Discard() }
	st := last.state()
	st.ID, st.StartedAt, st.Attempt, st.RetryOf, st.Attempts, st.Waiting = id, time.Now(), p.Attempt, first, made, p
	if dir.WriteState(store.Starting, st) != nil {
		return id, hide
	}
	ctl, err := listenControl(dir, func(req request) answer {
		if req.Verb == "stop" {
			stop()
			return answer{OK: true}
		}
		return answer{Error: fmt.Sprintf("attempt %d waits until %s (%s): it has not begun", p.Attempt, p.Until.Local().Format(time.DateTime), p.Reason)}
	})
	if err != nil {
		return id, hide
	}
	return id, func() {
		ctl.Close()
		dir.Discard()
	}
}
