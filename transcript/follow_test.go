package transcript

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
)

// reader reads f to its end in the background.
func reader(f io.Reader) (data <-chan string, end <-chan error) {
	d, e := make(chan string, 1000), make(chan error, 1)
	go func() {
		defer close(d)
		buf := make([]byte, 7)
		for {
			n, err := f.Read(buf)
			if n > 0 {
				d <- string(buf[:n])
			}
			if err != nil {
				e <- err
				return
			}
		}
	}()
	return d, e
}

// expect waits until want has come in.
func expect(t *testing.T, data <-chan string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for have := ""; have != want; {
		select {
		case s, ok := <-data:
			have += s
			if !ok || !strings.HasPrefix(want, have) {
				t.Fatalf("came %q, want %q", have, want)
			}
		case <-ctx.Done():
			t.Fatalf("only %q came, want %q", have, want)
		}
	}
}

func ends(t *testing.T, end <-chan error, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case err := <-end:
		if !errors.Is(err, want) {
			t.Fatalf("ended with %v, want %v", err, want)
		}
	case <-ctx.Done():
		t.Fatalf("it did not end; want %v", want)
	}
}

// Both ways of waiting: by the kernel's notices where there are any, and by
// looking alone.
func TestFollow(t *testing.T) {
	for name, note := range map[string]*notifier{"notice": nil, "poll": {}} {
		t.Run(name, func(t *testing.T) {
			path := file(t, "0123456789")
			done := make(chan struct{})
			f := Follow(t.Context(), path, &FollowOptions{From: 4, Done: done})
			defer f.Close()
			f.(*follower).note = note
			data, end := reader(f)
			expect(t, data, "456789")
			appendTo(t, path, "ab")
			expect(t, data, "ab")
			for range 4 {
				appendTo(t, path, "line\n")
				expect(t, data, "line\n")
			}
			appendTo(t, path, "the last bytes")
			close(done)
			expect(t, data, "the last bytes")
			ends(t, end, io.EOF)
		})
	}
}

func TestFollowBytesBeforeDone(t *testing.T) {
	// Whatever was appended before Done was closed is given, every time.
	for range 200 {
		path := file(t, "")
		done := make(chan struct{})
		f := Follow(t.Context(), path, &FollowOptions{Done: done})
		go func() {
			appendTo(t, path, "x")
			close(done)
		}()
		b, err := io.ReadAll(f)
		f.Close()
		if string(b) != "x" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
	}
}

func TestFollowNotAppended(t *testing.T) {
	t.Run("truncated", func(t *testing.T) {
		path := file(t, "0123456789")
		f := Follow(t.Context(), path, nil)
		defer f.Close()
		data, end := reader(f)
		expect(t, data, "0123456789")
		os.Truncate(path, 3)
		ends(t, end, ErrTruncated)
	})
	if runtime.GOOS == "windows" {
		return // an open file can be neither replaced nor removed
	}
	t.Run("replaced", func(t *testing.T) {
		path := file(t, "0123456789")
		f := Follow(t.Context(), path, nil)
		defer f.Close()
		data, end := reader(f)
		expect(t, data, "0123456789")
		os.WriteFile(path+".new", []byte("0123456789 and more"), 0o600)
		os.Rename(path+".new", path)
		ends(t, end, ErrReplaced)
	})
	t.Run("removed", func(t *testing.T) {
		path := file(t, "x")
		f := Follow(t.Context(), path, nil)
		defer f.Close()
		data, end := reader(f)
		expect(t, data, "x")
		os.Remove(path)
		ends(t, end, ErrReplaced)
	})
}

func TestFollowEnds(t *testing.T) {
	path := file(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	f := Follow(ctx, path, nil)
	_, end := reader(f)
	cause := errors.New("the viewer went away")
	cancel(cause)
	ends(t, end, cause)
	f.Close()

	f = Follow(t.Context(), path, nil)
	_, end = reader(f)
	f.Close()
	ends(t, end, fs.ErrClosed)
	if err := f.Close(); err != nil {
		t.Error("second Close:", err)
	}

	f = Follow(t.Context(), path+".none", nil)
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("no file:", err)
	}
	f.Close()
}

func TestFollowLeavesNothing(t *testing.T) {
	fds := func() int {
		ents, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc:", err)
		}
		return len(ents)
	}
	path := file(t, "x")
	before, routines := fds(), runtime.NumGoroutine()
	for range 50 {
		f := Follow(t.Context(), path, nil)
		data, end := reader(f)
		expect(t, data, "x")
		appendTo(t, path, "")
		f.Close()
		ends(t, end, fs.ErrClosed)
	}
	if n := fds(); n > before+2 {
		t.Errorf("%d descriptors, %d before", n, before)
	}
	// The readers of the test itself may be on their last step.
	if n := runtime.NumGoroutine(); n > routines+5 {
		t.Errorf("%d goroutines, %d before", n, routines)
	}
}
