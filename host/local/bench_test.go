//go:build unix

package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
)

// benchKeeper is the keeper binary named by REIN_BENCH_KEEPER, or the test
// binary, which is larger and starts slower.
func benchKeeper(b *testing.B) []string {
	if k := os.Getenv("REIN_BENCH_KEEPER"); k != "" {
		return []string{k}
	}
	return kept(b)
}

// BenchmarkStart runs a command that does nothing, against os/exec. ms/start is
// the time until Start returns, the rest is the end and its proof.
func BenchmarkStart(b *testing.B) {
	b.Run("exec", func(b *testing.B) {
		var starts time.Duration
		for b.Loop() {
			cmd := exec.Command("true")
			began := time.Now()
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			starts += time.Since(began)
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(starts.Seconds()*1000/float64(b.N), "ms/start")
	})
	for _, c := range []struct {
		name   string
		keeper []string
		helper bool
		spool  bool
	}{
		{"helper", nil, true, false},
		{"inprocess", nil, false, false},
		{"inprocess-spool", nil, false, true},
		{"keeper", benchKeeper(b), false, false},
		{"keeper-spool", benchKeeper(b), false, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := &Options{Keeper: c.keeper}
			if c.spool {
				o.Spool = b.TempDir()
			}
			h := host.New(New(o), nil)
			defer h.Close()
			var starts time.Duration
			for b.Loop() {
				spec := prog(b, "")
				spec.Argv, spec.Helper = []string{"true"}, c.helper
				began := time.Now()
				p, err := h.Start(b.Context(), spec, new(buf))
				if err != nil {
					b.Fatal(err)
				}
				starts += time.Since(began)
				if e, err := p.Wait(b.Context()); err != nil || e.Reason != driver.Exited {
					b.Fatal(e, err)
				}
			}
			b.ReportMetric(starts.Seconds()*1000/float64(b.N), "ms/start")
		})
	}
}

// counter is a reader of the spool that does nothing with it.
type counter struct{ n [2]int64 }

func (c *counter) Data(s driver.Stream, p []byte)   { c.n[s] += int64(len(p)) }
func (c *counter) Spool(string, string)             {}
func (c *counter) Spooled(s driver.Stream, n int64) { c.n[s] = n }
func (c *counter) Sample(driver.Sample)             {}

// BenchmarkThroughput spools lines of 4 KiB, against a shell that lets cat do
// it. REIN_BENCH_BYTES is the size, 256 MiB by itself.
func BenchmarkThroughput(b *testing.B) {
	size := int64(256 << 20)
	if n, err := strconv.ParseInt(os.Getenv("REIN_BENCH_BYTES"), 10, 64); err == nil {
		size = n
	}
	env := driver.Env{progVar: "lines", "REIN_TEST_LINES": strconv.FormatInt(size/4096, 10)}
	b.Run("cat", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			out := filepath.Join(b.TempDir(), "out")
			cmd := exec.Command("sh", "-c", `"$0" | cat > "$1"`, self(b), out)
			cmd.Env = os.Environ()
			for k, v := range env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
			os.Remove(out)
		}
	})
	for _, c := range []struct {
		name   string
		keeper []string
	}{{"inprocess", nil}, {"keeper", benchKeeper(b)}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(size)
			o := &Options{Keeper: c.keeper, Spool: b.TempDir()}
			h := host.New(New(o), nil)
			defer h.Close()
			for b.Loop() {
				spec := prog(b, "")
				spec.Env = env
				p, err := h.Start(b.Context(), spec, new(counter))
				if err != nil {
					b.Fatal(err)
				}
				if e, err := p.Wait(b.Context()); err != nil || e.Stdout != size/4096*4096 {
					b.Fatal(e, err)
				}
				os.RemoveAll(filepath.Join(o.Spool, spec.ID))
			}
		})
	}
}
