package local

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
)

const (
	// keeperWait is how long a keeper may take to leave after its stream has
	// closed: what it promises (5 s), and some for a loaded machine.
	keeperWait = 10 * time.Second
	// stderrKept of a keeper's diagnostics go into an error.
	stderrKept = 2 << 10
)

// process is one command and its keeper.
type process struct {
	driver.Process // nil until it was started
	host           *Host
	spec           driver.Spec

	cmd    *exec.Cmd // the keeper; nil: this process
	stderr tail
	gone   chan struct{} // the keeper has left

	reap      sync.Once
	survivors []driver.Proc
}

// keeper starts the keeper and returns the stream to it.
func (p *process) keeper(spec *driver.Spec) (io.ReadWriteCloser, error) {
	opt := &p.host.opt
	if len(opt.Keeper) == 0 || spec.Helper {
		return p.inProcess(opt.Spool), nil
	}
	argv := opt.Keeper
	if opt.Spool != "" {
		dir, err := filepath.Abs(opt.Spool)
		if err != nil {
			return nil, err
		}
		argv = append(argv[:len(argv):len(argv)], "--spool", dir)
	}
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs, theirs, &p.stderr
	p.cmd.SysProcAttr = ownSession() // ^C at the terminal is for us to pass on
	// The command does not get this pipe, but who stops a keeper with SIGSTOP
	// must not stop us with it.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	go func() {
		defer close(p.gone)
		_ = p.cmd.Wait() // how a keeper leaves says nothing about its command
	}()
	return conn, nil
}

// awaitKeeper returns when the keeper has left; one that does not is ended.
func (p *process) awaitKeeper() {
	t := time.NewTimer(keeperWait)
	defer t.Stop()
	select {
	case <-p.gone:
	case <-t.C:
		if p.cmd != nil {
			_ = p.cmd.Process.Kill()
			<-p.gone
		}
	}
}

// explain adds what the keeper said when it failed to say it properly.
func (p *process) explain(err error) error {
	if s := p.stderr.String(); s != "" {
		return fmt.Errorf("%w (the keeper says: %s)", err, s)
	}
	return err
}

// Wait is Process.Wait. When the keeper is lost, what it left behind is ended
// as reap would: there is nobody else to do it.
func (p *process) Wait(ctx context.Context) (driver.Exit, error) {
	exit, err := p.Process.Wait(ctx)
	if err != nil {
		return exit, err
	}
	p.awaitKeeper()
	if exit.Reason == driver.Lost {
		p.reap.Do(p.reapLost)
		exit.Survivors = p.survivors
		if s := p.stderr.String(); s != "" {
			exit.Detail += " (the keeper says: " + s + ")"
		}
	}
	return exit, nil
}

func (p *process) reapLost() {
	if p.cmd == nil || p.host.opt.Spool == "" || p.spec.ID == "" || p.spec.Helper {
		return
	}
	rec, err := keeper.ReadRecord(filepath.Join(p.host.opt.Spool, p.spec.ID))
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), keeperWait)
	defer cancel()
	_, p.survivors, _, _ = keeper.Reap(ctx, rec)
}

// end kills the command and waits for its end.
func (p *process) end(ctx context.Context) error {
	err := p.Kill(ctx)
	if _, werr := p.Wait(ctx); werr != nil {
		return werr
	}
	return err
}

// tail keeps the end of what a keeper says.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - stderrKept; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// String is one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.b)), " ")
}
