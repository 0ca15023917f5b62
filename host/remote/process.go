package remote

import (
	"context"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// process is one command and the stream to its keeper.
type process struct {
	driver.Process // nil until it was started
	host           *Host
	stream         Stream
	over           chan struct{}
}

// watch renews the lease until the command is over. A keeper that is not told
// anything any more ends its tree: the connection may be dead without that side
// seeing it (the cable pulled, this machine asleep or gone).
func (p *process) watch(leased bool) {
	go func() {
		_, _ = p.Process.Wait(context.Background()) // ends with the stream at the latest
		close(p.over)
		p.host.remove(p)
	}()
	e, ok := p.Process.(interface {
		Extend(ctx context.Context, ttl time.Duration) error
	})
	if !leased || !ok {
		return
	}
	tick := time.NewTicker(p.host.opt.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-p.over:
			return
		case <-tick.C:
			_ = e.Extend(context.Background(), p.host.opt.Lease) // queued; fails only when it is over
		}
	}
}

// Wait is Process.Wait. A lost end says what is known of the connection. What
// holds the tree there still does, but nobody here can vouch that it is gone,
// which is what a containment in an Exit means.
func (p *process) Wait(ctx context.Context) (driver.Exit, error) {
	exit, err := p.Process.Wait(ctx)
	if err == nil && exit.Reason == driver.Lost {
		exit.Containment = ""
		if said := p.stream.Said(); said != "" {
			exit.Detail += " (" + said + ")"
		}
	}
	return exit, err
}

// end kills the command and waits for its end.
func (p *process) end(ctx context.Context) error {
	err := p.Kill(ctx)
	exit, werr := p.Wait(ctx)
	if werr != nil {
		return werr
	}
	if exit.Reason == driver.Lost {
		return nil // nobody here can end it: the keeper does, without its owner
	}
	return err
}
