package keeper

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// ErrKept is returned by Reap while the keeper of the record is alive: it does
// this work better itself, and has at most 5 s of it when its client is gone.
var ErrKept = errors.New("the keeper is still at work: wait for it, or end it with SIGTERM")

// Reap ends what a dead keeper and its dead client left running: what is in the
// recorded cgroup, carries the marker, or is in a recorded session that can be
// proved to be the same one, and what descends from these. Nothing else is
// touched, and nothing at all when the machine was booted since.
//
// ended names what was ended, survivors what could not be, unproven what sits
// where the tree sat and cannot be proved to be of it. ctx bounds the call.
func Reap(ctx context.Context, rec *Record) (ended, survivors, unproven []driver.Proc, err error) {
	if rec.BootID == "" || rec.BootID != proctree.BootID() {
		return nil, nil, nil, nil
	}
	if rec.Keeper.PID != os.Getpid() && !awaitDeath(ctx, rec.Keeper) {
		return nil, nil, nil, ErrKept
	}
	t := &proctree.Tree{
		Leader:   proctree.Proc{PID: rec.Leader.PID, Start: rec.Leader.Start},
		Marker:   rec.Marker,
		Sessions: rec.Sessions,
	}
	if rec.Cgroup != "" {
		// A cgroup that is gone has nobody in it. One that cannot be opened
		// leaves the other proofs.
		if g, gerr := proctree.OpenCgroup(rec.Cgroup); gerr == nil {
			defer g.Close()
			t.Cgroup = g
		}
	}
	members, err := t.Members()
	if err != nil {
		return nil, nil, nil, err
	}
	left, err := t.Kill(ctx)
	for _, p := range procs(members) {
		if !contains(left, p) {
			ended = append(ended, p)
		}
	}
	suspects, serr := t.Unproven()
	if t.Cgroup != nil && len(left) == 0 {
		err = errors.Join(err, t.Cgroup.Remove())
	}
	return ended, procs(left), procs(suspects), errors.Join(err, serr)
}

// awaitDeath gives a process that is dying a moment: its streams are closed some
// time before it counts as dead.
func awaitDeath(ctx context.Context, p driver.Proc) bool {
	for range 25 {
		if !alive(p) {
			return true
		}
		t := time.NewTimer(10 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
	return !alive(p)
}

func alive(p driver.Proc) bool {
	if p.PID <= 0 {
		return false
	}
	now, err := proctree.Read(p.PID)
	return err == nil && now.Start == p.Start && !now.Dead()
}

func contains(ps []proctree.Proc, p driver.Proc) bool {
	for _, q := range ps {
		if q.PID == p.PID && q.Start == p.Start {
			return true
		}
	}
	return false
}
