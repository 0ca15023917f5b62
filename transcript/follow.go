package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/rein-run/rein/internal/disk"
)

// A followed file is append-only. These say that it was not.
var (
	ErrTruncated = errors.New("the file became shorter while it was followed")
	ErrReplaced  = errors.New("the file was removed or replaced while it was followed")
)

// pollEvery is the longest time for which an append stays unseen. It stands
// beside the kernel's notices too: a file that is filled by splice(2) gave none
// for years, and a network file system gives none for the other side's writes.
const pollEvery = 100 * time.Millisecond

// FollowOptions are the options of Follow; nil: from the first byte, until ctx
// ends.
type FollowOptions struct {
	From int64           // the first byte to give
	Done <-chan struct{} // closed when nothing will be appended any more
}

// Follow reads a file that grows: what is there, then what is appended. Read
// gives io.EOF after Done was closed and the end was reached, the cause of ctx
// when it has ended, ErrTruncated or ErrReplaced when the file is no longer
// what it was. That the file cannot be opened is said by the first Read. Close
// unblocks a Read and must be called.
func Follow(ctx context.Context, path string, o *FollowOptions) io.ReadCloser {
	if o == nil {
		o = &FollowOptions{}
	}
	f := &follower{ctx: ctx, path: path, at: o.From, done: o.Done, closed: make(chan struct{})}
	f.file, f.err = disk.Open(path)
	switch {
	case f.err != nil:
		f.err = fmt.Errorf("%w", f.err)
	case o.From < 0:
		f.err = fmt.Errorf("follow from %d: not an offset", o.From)
	}
	return f
}

type follower struct {
	ctx    context.Context
	path   string
	done   <-chan struct{}
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex // held by Read; Close takes it when Read has gone
	file *os.File
	at   int64
	note *notifier
	err  error
}

func (f *follower) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || len(p) == 0 {
		return 0, f.err
	}
	n, err := f.read(p)
	f.err = err
	return n, err
}

func (f *follower) read(p []byte) (int, error) {
	for {
		select {
		case <-f.closed:
			return 0, fs.ErrClosed
		case <-f.ctx.Done():
			return 0, context.Cause(f.ctx)
		default:
		}
		// Done first, the file second: what was appended before Done was
		// closed must be seen.
		over := isClosed(f.done)
		n, err := f.file.ReadAt(p, f.at)
		if n > 0 {
			f.at += int64(n)
			return n, nil
		}
		if err != nil && err != io.EOF {
			return 0, err
		}
		if err := f.check(); err != nil {
			return 0, err
		}
		if over {
			return 0, io.EOF
		}
		f.wait()
	}
}

// check looks whether the file is still the one that was opened.
func (f *follower) check() error {
	st, err := f.file.Stat()
	if err != nil {
		return err
	}
	if st.Size() < f.at {
		return fmt.Errorf("%s: %w: %d bytes, %d were there", f.path, ErrTruncated, st.Size(), f.at)
	}
	now, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !os.SameFile(st, now)) {
		return fmt.Errorf("%s: %w", f.path, ErrReplaced)
	}
	if err != nil {
		return err
	}
	return nil
}

func (f *follower) wait() {
	if f.note == nil {
		// Made at the first wait, and then one look more: an append between
		// the last look and the notice would be seen late.
		f.note = newNotifier(f.path)
		return
	}
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-f.note.C:
	case <-t.C:
	case <-f.done:
	case <-f.closed:
	case <-f.ctx.Done():
	}
}

func (f *follower) Close() error {
	f.once.Do(func() { close(f.closed) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.note != nil {
		f.note.close()
		f.note = nil
	}
	f.err = fs.ErrClosed
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// isClosed is false for a nil channel.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
