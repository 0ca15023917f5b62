package store

import (
	"context"
	"fmt"
	"net"

	"github.com/rein-run/rein/internal/unixsock"
)

// Listen listens on the run's socket, mode 0600, however long its path is. What
// a dead process left there is replaced; an error when somebody listens.
func (r *Run) Listen() (net.Listener, error) {
	l, err := unixsock.Listen(r.dir, socketFile)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.id, err)
	}
	return l, nil
}

// Dial connects to the run's socket; ctx bounds the call. The error matches
// fs.ErrNotExist or ECONNREFUSED when nobody listens.
func (r *Run) Dial(ctx context.Context) (net.Conn, error) {
	c, err := unixsock.Dial(ctx, r.dir, socketFile)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.id, err)
	}
	return c, nil
}
