//go:build unix

package local

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
)

// BenchmarkStart is the time from Start to the end of a command that does
// nothing, against os/exec. REIN_BENCH_KEEPER names a keeper binary; without
// it the test binary is the keeper, which is larger and starts slower.
func BenchmarkStart(b *testing.B) {
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	exe, _ := os.Executable()
	kept := []string{exe, "keeper"}
	if k := os.Getenv("REIN_BENCH_KEEPER"); k != "" {
		kept = []string{k}
	}
	for _, c := range []struct {
		name   string
		keeper []string
		helper bool
		spool  bool
	}{
		{"helper", nil, true, false},
		{"inprocess", nil, false, false},
		{"inprocess-spool", nil, false, true},
		{"keeper", kept, false, false},
		{"keeper-spool", kept, false, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := &Options{Keeper: c.keeper}
			if c.spool {
				o.Spool = b.TempDir()
			}
			h := host.New(New(o), nil)
			defer h.Close()
			n := 0
			for b.Loop() {
				n++
				spec := &driver.Spec{Argv: []string{"true"}, Helper: c.helper}
				if !c.helper {
					spec.ID = "b" + strconv.Itoa(b.N) + "-" + strconv.Itoa(n)
				}
				p, err := h.Start(context.Background(), spec, new(buf))
				if err != nil {
					b.Fatal(err)
				}
				if e, err := p.Wait(context.Background()); err != nil || e.Reason != driver.Exited {
					b.Fatal(e, err)
				}
			}
		})
	}
}
