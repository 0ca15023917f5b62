package remote

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
)

const (
	// loginWait bounds a login shell. One that waits for an answer of somebody
	// who is not there must not keep commands from running.
	loginWait = 10 * time.Second
	// maxPath is a PATH that fits into one argument, with room to spare.
	maxPath = 64 << 10
)

// loginScript is for the login shell, whichever it is: no other word of it means
// anything to one of them and something else to another. The variable holds the
// mark, so that no PATH of an error message is taken for an answer.
const (
	markVar     = "REIN_MARK"
	loginScript = `exec /bin/sh -c 'echo "$` + markVar + `$PATH$` + markVar + `"'`
)

// loginPath asks the user's login shell for PATH: sshd and its like give a
// bare one, and nvm, mise and their like live in the profile. It is run as a
// command of ours, so that whatever a profile starts ends with it. "" when it
// does not say: then the environment's own PATH has to do.
func (h *Host) loginPath(ctx context.Context, ready *Ready) string {
	if !path.IsAbs(ready.Shell) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, loginWait)
	defer cancel()
	s, err := startKeeper(ctx, h.reach, ready, "")
	if err != nil {
		return ""
	}
	mark := newMark()
	out := &said{full: make(chan struct{})}
	p, err := keeper.Start(ctx, s, &driver.Spec{
		Argv: []string{ready.Shell, "-lc", loginScript}, Env: driver.Env{markVar: mark},
		Dir: ready.Place.Home, Helper: true, TTL: 2 * loginWait,
	}, out, nil)
	if err != nil {
		return ""
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = p.Wait(context.Background()) // ends with the stream at the latest
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		out.forget()
	case <-out.full:
		out.forget()
	}
	// A shell that is over left nobody; the keeper has seen to that.
	bound, stop := context.WithTimeout(context.WithoutCancel(ctx), loginWait)
	defer stop()
	_ = p.Kill(bound)
	s.Close() // the lease: what Kill could not end the keeper does
	<-ended
	return pathBetween(out.String(), mark)
}

// pathBetween finds the answer in what a login shell printed.
func pathBetween(out, mark string) string {
	_, rest, _ := strings.Cut(out, mark)
	p, _, ok := strings.Cut(rest, mark)
	if !ok || len(p) > maxPath || strings.ContainsAny(p, "\n\r\x00") || !strings.Contains(p, "/") {
		return ""
	}
	return p
}
