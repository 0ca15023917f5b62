package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
)

func TestMain(m *testing.M) {
	if os.Getenv("REIN_TEST_KEEPER") != "" || len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(keeper.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

type buf struct{ b [2][]byte }

func (b *buf) Data(s driver.Stream, p []byte) { b.b[s] = append(b.b[s], p...) }

func TestSmoke(t *testing.T) {
	exe, _ := os.Executable()
	for _, k := range [][]string{nil, {exe, "keeper"}} {
		for _, sp := range []string{"", filepath.Join(t.TempDir(), "spool")} {
			h := host.New(New(&Options{Keeper: k, Spool: sp}), nil)
			out := new(buf)
			t0 := time.Now()
			p, err := h.Start(context.Background(), &driver.Spec{ID: "x1", Argv: []string{"sh", "-c", "cat; echo hi; echo err >&2; echo $REIN_RUN; setsid sleep 100 >/dev/null 2>&1 & exit 3"}, Duplex: true}, out)
			if err != nil {
				t.Fatal(err)
			}
			t1 := time.Now()
			p.Write(context.Background(), []byte("abc\n"))
			p.CloseStdin(context.Background())
			e, err := p.Wait(context.Background())
			t.Logf("keeper %v spool %v start %v all %v: %+v %q %v", k != nil, sp != "", t1.Sub(t0), time.Since(t1), e, out.b, err)
			if sp != "" {
				o, _ := exec.Command("sh", "-c", "cd "+sp+"/x1; ls -la; head *").CombinedOutput()
				t.Logf("%s", o)
			}
			h.Close()
		}
	}
}
