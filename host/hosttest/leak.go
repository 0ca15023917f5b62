package hosttest

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// counts is what a test may not have more of at its end.
type counts struct {
	goroutines int
	files      int // open descriptors; 0 where they cannot be counted
}

func census() counts {
	c := counts{goroutines: runtime.NumGoroutine()}
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if e, err := os.ReadDir(dir); err == nil {
			c.files = len(e)
			break
		}
	}
	return c
}

// compare waits until no more is held than before.
func (c counts) compare(t testing.TB, patience time.Duration) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		now := census()
		if now.goroutines <= c.goroutines && now.files <= c.files {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			var files []string
			if e, err := os.ReadDir("/proc/self/fd"); err == nil {
				for _, f := range e {
					to, _ := os.Readlink("/proc/self/fd/" + f.Name())
					files = append(files, f.Name()+" "+to)
				}
			}
			t.Fatalf("left behind: goroutines %d → %d, descriptors %d → %d\n%s\n%s",
				c.goroutines, now.goroutines, c.files, now.files, strings.Join(files, "\n"), stacks)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
