package transcript

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// clocked remembers what it got at which time.
type clocked struct {
	start time.Time
	bytes.Buffer
	at map[time.Duration]string
}

func (c *clocked) Write(p []byte) (int, error) {
	c.at[time.Since(c.start)] += string(p)
	return c.Buffer.Write(p)
}

func TestReplay(t *testing.T) {
	path := file(t, "firstsecondthird, and a tail")
	idx := &Index{Marks: []Mark{
		{5, 0, epoch},
		{11, 0, epoch.Add(4 * time.Second)},
		{16, 0, epoch.Add(10 * time.Minute)},
	}}
	for _, c := range []struct {
		speed float64
		at    map[time.Duration]string
	}{
		{1, map[time.Duration]string{0: "first", 4 * time.Second: "second", 10 * time.Minute: "third, and a tail"}},
		{4, map[time.Duration]string{0: "first", time.Second: "second", 150 * time.Second: "third, and a tail"}},
		{0, map[time.Duration]string{0: "firstsecondthird, and a tail"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &clocked{start: time.Now(), at: map[time.Duration]string{}}
			if err := Replay(t.Context(), path, idx, c.speed, w); err != nil {
				t.Fatal(err)
			}
			if len(w.at) != len(c.at) {
				t.Errorf("speed %v: %q, want %q", c.speed, w.at, c.at)
			}
			for d, s := range c.at {
				if w.at[d] != s {
					t.Errorf("speed %v: at %v %q, want %q", c.speed, d, w.at[d], s)
				}
			}
		})
	}
	for _, x := range []*Index{nil, {}, {TimesLost: true, Marks: []Mark{{5, 0, time.Time{}}}}} {
		var w bytes.Buffer
		if err := Replay(t.Context(), path, x, 1, &w); err != nil || w.String() != "firstsecondthird, and a tail" {
			t.Errorf("without times: %q, %v", w.String(), err)
		}
	}
	for _, speed := range []float64{-1, math.NaN()} {
		if err := Replay(t.Context(), path, idx, speed, &bytes.Buffer{}); err == nil {
			t.Error("speed", speed)
		}
	}
}

func TestReplayCancelled(t *testing.T) {
	path := file(t, "firstsecond")
	idx := &Index{Marks: []Mark{{5, 0, epoch}, {11, 0, epoch.Add(1e6 * time.Hour)}}}
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		var w bytes.Buffer
		if err := Replay(ctx, path, idx, 1, &w); !errors.Is(err, cause) {
			t.Error(err)
		}
		if w.String() != "first" {
			t.Errorf("%q", w.String())
		}
	})
}

func TestReplayRecorded(t *testing.T) {
	path, idxPath, data := record(t, 100)
	x, err := OpenIndex(path, idxPath)
	if err != nil {
		t.Fatal(err)
	}
	var w bytes.Buffer
	if err := Replay(t.Context(), path, x, 1e9, &w); err != nil || !bytes.Equal(w.Bytes(), data) {
		t.Fatalf("%d bytes of %d, %v", w.Len(), len(data), err)
	}
}
