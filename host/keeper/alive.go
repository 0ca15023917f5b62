package keeper

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/rein-run/rein/host/keeper/proctree"
)

// KeeperAlive says whether the keeper of the record is still at work. It ends
// its tree and writes its exit by itself when its client is gone, so whoever
// finds it alive has only to wait.
func (r *Record) KeeperAlive() bool { return r.BootID == proctree.BootID() && alive(r.Keeper) }

// EndKeeper ends a keeper that does not do its work (stopped, or hanging on a
// dead disk), so that Reap can do it instead. ctx bounds the wait for its death.
func (r *Record) EndKeeper(ctx context.Context) error {
	if !r.KeeperAlive() || r.Keeper.PID == os.Getpid() {
		return nil
	}
	err := proctree.Signal(proctree.Proc{PID: r.Keeper.PID, Start: r.Keeper.Start}, syscall.SIGKILL)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	for alive(r.Keeper) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
