package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/store"
)

func TestMain(m *testing.M) {
	fakeagent.Reexec()
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(keeper.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 2 && os.Args[1] == "produce" {
		size, _ := strconv.ParseInt(os.Args[2], 10, 64)
		os.Exit(produce(size))
	}
	os.Exit(m.Run())
}

// env is a private place with a scripted claude in it.
type env struct {
	home, bin, dir string
	vars           []string
}

func newEnv(b *testing.B) *env {
	b.Helper()
	e := &env{home: b.TempDir(), bin: b.TempDir(), dir: b.TempDir()}
	if err := fakeagent.Install(e.bin, "claude"); err != nil {
		b.Fatal(err)
	}
	e.vars = []string{
		"HOME=" + e.home, "XDG_STATE_HOME=" + filepath.Join(e.home, "state"),
		"PATH=" + e.bin + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LC_ALL=C",
	}
	return e
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// build makes the real command, as a user has it.
func build(b *testing.B) string {
	b.Helper()
	bin := filepath.Join(b.TempDir(), "rein")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "github.com/rein-run/rein/cmd/rein")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

const pairs = 5

// BenchmarkThroughput: 1 GiB of 4 KiB lines, one usage in 50, through `rein
// run` with transcript, clocks and readings, against the same producer piped
// to `cat > file`.
func BenchmarkThroughput(b *testing.B) {
	const size = 1 << 30
	bin, e := build(b), newEnv(b)
	scenario := fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "flood", Bytes: size, Size: 4096, Every: 50},
		{Do: "result"},
	}}
	vars := append(e.vars, scenario.Env(), "IS_SANDBOX=1")
	args := []string{"-p", "--verbose", "--output-format", "stream-json"}

	plain := func() float64 {
		out, err := os.Create(filepath.Join(e.dir, "plain"))
		if err != nil {
			b.Fatal(err)
		}
		defer os.Remove(out.Name())
		defer out.Close()
		producer := exec.Command(filepath.Join(e.bin, "claude"), args...)
		producer.Env = vars
		cat := exec.Command("cat")
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		producer.Stdout, cat.Stdin, cat.Stdout = w, r, out
		begin := time.Now()
		if err := cat.Start(); err != nil {
			b.Fatal(err)
		}
		if err := producer.Start(); err != nil {
			b.Fatal(err)
		}
		w.Close()
		r.Close()
		if err := producer.Wait(); err != nil {
			b.Fatal(err)
		}
		if err := cat.Wait(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin).Seconds()
	}
	var peak int64
	held := func() float64 {
		cmd := exec.Command(bin, "run", "-q", "--agent", "claude", "--stall", "none", "-C", e.dir, "flood")
		cmd.Env = vars
		cmd.Stderr = os.Stderr
		begin := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatalf("rein run: %v", err)
		}
		took := time.Since(begin).Seconds()
		peak = max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
		os.RemoveAll(filepath.Join(e.home, "state"))
		return took
	}

	for b.Loop() {
		var ratios, ps, hs []float64
		for range pairs {
			p, h := plain(), held()
			ps, hs, ratios = append(ps, p), append(hs, h), append(ratios, h/p)
		}
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(median(ps), "plain-s")
		b.ReportMetric(median(hs), "rein-s")
		b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	}
}

// BenchmarkStart: from the call to the end of an agent that says hello, over
// bare os/exec of the same binary. The difference is what Rein adds to a run,
// start and report together.
func BenchmarkStart(b *testing.B) {
	e := newEnv(b)
	s, err := store.Open(filepath.Join(e.home, "state", "rein"))
	if err != nil {
		b.Fatal(err)
	}
	vars := driver.Env{}
	for _, kv := range e.vars {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	exe := filepath.Join(e.bin, "claude")
	args := []string{"-p", "--verbose", "--output-format", "stream-json"}
	keeper := []string{build(b), "keeper"} // what a user's rein starts
	bare := func() time.Duration {
		cmd := exec.Command(exe, args...)
		cmd.Env, cmd.Dir = e.vars, e.dir
		r, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		one := make([]byte, 1)
		io.ReadFull(r, one) // to the first byte
		took := time.Since(begin)
		io.Copy(io.Discard, r)
		cmd.Wait()
		return took
	}
	held := func(keeper []string, dir string) time.Duration {
		first := make(chan time.Time, 1)
		begin := time.Now()
		_, err := rein.Do(context.Background(), rein.Task{Prompt: "hello", Agent: "claude", Dir: dir, Env: vars}, &rein.Options{
			Store: s, Keeper: keeper,
			Hooks: &rein.Hooks{Output: func(driver.Stream, []byte) {
				select {
				case first <- time.Now():
				default:
				}
			}},
		})
		if err != nil {
			b.Fatal(err)
		}
		return (<-first).Sub(begin)
	}
	repo := b.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-q", "--allow-empty", "-m", "one"}} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("git: %v\n%s", err, out)
		}
	}
	held(nil, e.dir) // the version probe is cached from here on

	const n = 21
	for b.Loop() {
		var bares, inproc, kept, inRepo []float64
		for range n {
			x := ms(bare())
			bares = append(bares, x)
			inproc = append(inproc, ms(held(nil, e.dir))-x)
			kept = append(kept, ms(held(keeper, e.dir))-x)
			inRepo = append(inRepo, ms(held(keeper, repo))-x)
		}
		b.ReportMetric(median(bares), "bare-ms")
		b.ReportMetric(median(inproc), "over-in-process-ms")
		b.ReportMetric(median(kept), "over-keeper-ms")
		b.ReportMetric(median(inRepo)-median(kept), "git-snapshot-ms")
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// BenchmarkIdle: 200 runs at once whose agents say nothing. What one costs in
// this process and in its keeper.
func BenchmarkIdle(b *testing.B) {
	const runs = 200
	e := newEnv(b)
	s, err := store.Open(filepath.Join(e.home, "state", "rein"))
	if err != nil {
		b.Fatal(err)
	}
	vars := driver.Env{fakeagent.EnvScenario: fakeagent.Scenario{Steps: []fakeagent.Step{{Do: "text", Text: "hi"}, {Do: "hang"}}}.JSON()}
	for _, kv := range e.vars {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	keeperBin := buildKeeper(b)
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		before := rss(b, os.Getpid())
		var all []*rein.Run
		for i := range runs {
			dir := filepath.Join(e.dir, fmt.Sprint(i))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				b.Fatal(err)
			}
			r, err := rein.Start(ctx, rein.Task{Prompt: "wait", Agent: "claude", Dir: dir, Env: vars}, &rein.Options{Store: s, Keeper: []string{keeperBin}})
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, r)
		}
		runtime.GC()
		own := float64(rss(b, os.Getpid())-before) / runs / (1 << 20)
		var pss int64
		for _, r := range all {
			rec, err := keeper.ReadRecord(r.Dir())
			if err != nil {
				b.Fatal(err)
			}
			pss += smaps(b, rec.Keeper.PID)
		}
		cancel()
		for _, r := range all {
			if _, err := r.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(own, "rein-MiB/run")
		b.ReportMetric(float64(pss)/runs/(1<<20), "keeper-PSS-MiB/run")
	}
}

func buildKeeper(b *testing.B) string {
	b.Helper()
	bin := filepath.Join(b.TempDir(), "rein-keeper")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "github.com/rein-run/rein/cmd/rein-keeper")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func rss(b *testing.B, pid int) int64 { return procField(b, pid, "status", "VmRSS:") }

func smaps(b *testing.B, pid int) int64 { return procField(b, pid, "smaps_rollup", "Pss:") }

// procField reads a "Name: N kB" line, in bytes.
func procField(b *testing.B, pid int, file, name string) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var kb int64
			fmt.Sscan(rest, &kb)
			return kb << 10
		}
	}
	b.Fatalf("%s of %d has no %s", file, pid, name)
	return 0
}

// BenchmarkKill: an agent whose shell tool has 500 processes under it, half of
// them in sessions of their own. From the moment SIGKILL is asked for to the
// moment the tree is proved dead; beside it, what the kernel alone needs: kill(2)
// of the same 500 from one loop and waiting until the last one is gone.
func BenchmarkKill(b *testing.B) {
	const half = 250
	e := newEnv(b)
	s, err := store.Open(filepath.Join(e.home, "state", "rein"))
	if err != nil {
		b.Fatal(err)
	}
	ready := filepath.Join(e.home, "ready")
	shell := fmt.Sprintf(`for i in $(seq %d); do sleep 3600 & echo $! >> pids; (setsid sh -c 'echo $$ >> pids; exec sleep 3600' &); done; while [ $(wc -l < pids) -lt %d ]; do sleep 0.05; done; mv pids %s; wait`, half, 2*half, ready)
	vars := driver.Env{fakeagent.EnvScenario: fakeagent.Scenario{Steps: []fakeagent.Step{{Do: "bash", Command: shell}, {Do: "hang"}}}.JSON()}
	for _, kv := range e.vars {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	start := func(by driver.Containment) *rein.Run {
		os.Remove(ready)
		r, err := rein.Start(context.Background(), rein.Task{Prompt: "go", Agent: "claude", Dir: e.dir, Env: vars}, &rein.Options{
			Store: s, Keeper: []string{self, "keeper"}, Containment: by,
		})
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := os.Stat(ready); err == nil {
				return r
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	finish := func(r *rein.Run) {
		rep, err := r.Wait(context.Background())
		if err != nil || len(rep.Survivors) > 0 {
			b.Fatalf("%v, survivors %v", err, rep)
		}
	}
	for _, by := range []driver.Containment{driver.ByCgroup, driver.ByKeeper} {
		b.Run(string(by), func(b *testing.B) {
			var took, bare []float64
			for b.Loop() {
				for range pairs {
					r := start(by)
					begin := time.Now()
					if err := r.Kill(context.Background()); err != nil {
						b.Fatal(err)
					}
					took = append(took, ms(time.Since(begin)))
					finish(r)

					r = start(by)
					text, err := os.ReadFile(ready)
					if err != nil {
						b.Fatal(err)
					}
					var pids []int
					for _, f := range strings.Fields(string(text)) {
						var pid int
						fmt.Sscan(f, &pid)
						pids = append(pids, pid)
					}
					begin = time.Now()
					for _, pid := range pids {
						syscall.Kill(pid, syscall.SIGKILL)
					}
					for _, pid := range pids {
						for p, err := proctree.Read(pid); err == nil && !p.Dead(); p, err = proctree.Read(pid) {
							time.Sleep(time.Millisecond)
						}
					}
					bare = append(bare, ms(time.Since(begin)))
					r.Kill(context.Background())
					finish(r)
				}
			}
			b.ReportMetric(median(took), "kill-ms")
			b.ReportMetric(median(bare), "kernel-ms")
		})
	}
}
