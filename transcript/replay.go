package transcript

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rein-run/rein/internal/disk"
)

// Replay writes the transcript to w at the pace at which it arrived, from its
// first byte. speed 2 is twice as fast; 0 is at once, and so is what the index
// has no times for. ctx ends the waiting; its cause is then the error.
func Replay(ctx context.Context, path string, idx *Index, speed float64, w io.Writer) error {
	if !(speed >= 0) { // NaN too
		return fmt.Errorf("replay speed %v: give 0 for at once, 1 for the original pace", speed)
	}
	f, err := disk.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()

	var marks []Mark
	if idx != nil && speed > 0 {
		marks = idx.Marks
	}
	buf := make([]byte, 64<<10)
	start := time.Now()
	var at int64
	for _, m := range marks {
		if m.Time.IsZero() {
			break
		}
		// From the start of the replay and not from the last mark: the time
		// that writing takes must not add up.
		due := float64(m.Time.Sub(marks[0].Time)) / speed
		if err := sleep(ctx, time.Duration(min(due, 1<<62))-time.Since(start)); err != nil {
			return err
		}
		if err := copyTo(ctx, w, io.NewSectionReader(f, at, m.Offset-at), buf); err != nil {
			return err
		}
		at = m.Offset
	}
	return copyTo(ctx, w, io.NewSectionReader(f, at, 1<<62-at), buf)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func copyTo(ctx context.Context, w io.Writer, r io.Reader, buf []byte) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}
