package boundary

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/internal/git"
)

// BenchmarkThousandRefs is the local part of the snapshot and of the check in a
// repository with 1,000 branches, against a bare `git --version`: what a process
// costs differs ten times from one machine to another. Loose is the worst case,
// a file for each branch; packed is what git gc and a clone leave.
func BenchmarkThousandRefs(b *testing.B) {
	for _, packed := range []bool{false, true} {
		b.Run(map[bool]string{false: "loose", true: "packed"}[packed], func(b *testing.B) {
			dir := b.TempDir()
			sh := func(stdin string, args ...string) {
				cmd := exec.Command("git", args...)
				cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("git %q: %v\n%s", args, err, out)
				}
			}
			sh("", "init", "-q", "-b", "main")
			sh("", "commit", "-q", "--allow-empty", "-m", "one")
			var in strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&in, "create refs/heads/b%d HEAD\n", i)
			}
			sh(in.String(), "update-ref", "--stdin")
			if packed {
				sh("", "pack-refs", "--all")
			}
			o := Local()
			repo, err := git.Find(b.Context(), git.Local, dir)
			if err != nil {
				b.Fatal(err)
			}
			var bare, start, end, ratio []float64
			ms := func(f func()) float64 {
				begin := time.Now()
				f()
				return float64(time.Since(begin).Microseconds()) / 1000
			}
			var s Snapshot
			for b.Loop() {
				bare = append(bare, ms(func() { git.Local(b.Context(), dir, "--version") }))
				o.Repo = repo // rein has asked already
				start = append(start, ms(func() { s, err = Take(b.Context(), git.Local, dir, o) }))
				if err != nil {
					b.Fatal(err)
				}
				end = append(end, ms(func() {
					if res, err := Check(b.Context(), git.Local, s, o); err != nil || len(res.Changes) > 0 {
						b.Fatal(res, err)
					}
				}))
				ratio = append(ratio, end[len(end)-1]/bare[len(bare)-1])
			}
			for unit, x := range map[string][]float64{"git-version-ms": bare, "start-ms": start, "check-ms": end, "check/git-version": ratio} {
				slices.Sort(x)
				b.ReportMetric(x[len(x)/2], unit)
			}
		})
	}
}
