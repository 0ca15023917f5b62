//go:build unix

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/host/keeper/proctree"
)

const progVar = "REIN_TEST_PROG"

// patience is for a slow machine that does other things as well.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(progVar) {
	case "":
		if len(os.Args) > 1 && os.Args[1] == "keeper" { // how rein is its own keeper
			os.Exit(keeper.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		}
		os.Exit(m.Run())
	case "cat":
		io.Copy(os.Stdout, os.Stdin)
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "escape":
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{progVar + "=sleep"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		fmt.Println(cmd.Process.Pid)
		time.Sleep(time.Hour)
	case "lines":
		n, _ := strconv.Atoi(os.Getenv("REIN_TEST_LINES"))
		line := append(bytes.Repeat([]byte("x"), 4095), '\n')
		for range n {
			os.Stdout.Write(line)
		}
	case "fail":
		fmt.Fprintln(os.Stderr, "no keeper\nam I")
		os.Exit(1)
	}
}

func self(t testing.TB) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func kept(t testing.TB) []string { return []string{self(t), "keeper"} }

var ids struct {
	sync.Mutex
	n int
}

func prog(t testing.TB, name string) *driver.Spec {
	ids.Lock()
	defer ids.Unlock()
	ids.n++
	return &driver.Spec{
		ID: fmt.Sprintf("l%d-%d", os.Getpid(), ids.n), Argv: []string{self(t)},
		Env: driver.Env{progVar: name, "GORACE": "atexit_sleep_ms=0"}, Grace: 300 * time.Millisecond,
	}
}

type buf struct {
	mu sync.Mutex
	b  [2]bytes.Buffer
}

func (b *buf) Data(s driver.Stream, p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b[s].Write(p)
}

func (b *buf) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b[0].String()
}

func ctxOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %v: %s", patience, what)
		}
	}
}

// kinds are the ways to run a command here.
func kinds(t *testing.T) map[string]*Options {
	return map[string]*Options{
		"in process": nil,
		"spool":      {Spool: filepath.Join(t.TempDir(), "runs")},
		"keeper":     {Keeper: kept(t), Spool: filepath.Join(t.TempDir(), "runs")},
	}
}

// Megabytes go in while megabytes come out, through everything there is.
func TestInput(t *testing.T) {
	for name, o := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			h := host.New(New(o), nil)
			defer h.Close()
			spec, out := prog(t, "cat"), new(buf)
			in := bytes.Repeat([]byte("0123456789abcde\n"), 5<<16) // 5 MiB
			spec.Input = bytes.NewReader(in)
			p, err := h.Start(ctxOf(t), spec, out)
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Wait(ctxOf(t))
			if err != nil || e.Reason != driver.Exited || e.Stdout != int64(len(in)) {
				t.Errorf("the end is %+v, %v", e, err)
			}
			if out.String() != string(in) {
				t.Error("what came out is not what went in")
			}
		})
	}
}

// Close ends what runs, and refuses what comes.
func TestClose(t *testing.T) {
	for name, o := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			h := New(o)
			spec, out := prog(t, "sleep"), new(buf)
			p, err := h.Start(ctxOf(t), spec, out)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			if e, err := p.Wait(ctxOf(t)); err != nil || e.Reason != driver.Killed {
				t.Errorf("the end is %+v, %v", e, err)
			}
			if left, _ := proctree.Marked(spec.ID); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
			if _, err := h.Start(ctxOf(t), prog(t, "sleep"), out); err == nil {
				t.Error("a closed host has started a command")
			}
		})
	}
}

// A keeper that is killed leaves nobody behind: the host does what it cannot.
func TestKeeperKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a session record that proves anything")
	}
	o := &Options{Keeper: kept(t), Spool: filepath.Join(t.TempDir(), "runs"), Containment: driver.ByKeeper}
	h := New(o)
	defer h.Close()
	spec, out := prog(t, "escape"), new(buf)
	p, err := h.Start(ctxOf(t), spec, out)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the escapee has a name", func() bool { return strings.HasSuffix(out.String(), "\n") })
	var pid int
	fmt.Sscan(out.String(), &pid)
	escapee, err := proctree.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its session is recorded", func() bool {
		r, err := keeper.ReadRecord(filepath.Join(o.Spool, spec.ID))
		if err != nil {
			t.Fatal(err)
		}
		return len(r.Sessions) == 2
	})
	p.(*process).cmd.Process.Kill()
	e, err := p.Wait(ctxOf(t))
	if err != nil || e.Reason != driver.Lost || len(e.Survivors) > 0 {
		t.Errorf("the end is %+v, %v", e, err)
	}
	if now, err := proctree.Read(pid); err == nil && now.Start == escapee.Start && !now.Dead() {
		t.Error("the escapee is alive")
	}
}

// What is wrong with the keeper is said.
func TestBadKeeper(t *testing.T) {
	h := New(&Options{Keeper: []string{"/no/such/keeper"}})
	if _, err := h.Start(ctxOf(t), prog(t, "sleep"), new(buf)); err == nil || !strings.Contains(err.Error(), "start the keeper") {
		t.Errorf("no keeper: %v", err)
	}
	t.Setenv(progVar, "fail")
	h = New(&Options{Keeper: kept(t)})
	if _, err := h.Start(ctxOf(t), prog(t, "sleep"), new(buf)); err == nil || !strings.Contains(err.Error(), "no keeper am I") {
		t.Errorf("a keeper that fails: %v", err)
	}
}

func TestRequireContainment(t *testing.T) {
	h := New(&Options{Containment: driver.ByMarker, RequireContainment: true})
	defer h.Close()
	if _, err := h.Start(ctxOf(t), prog(t, "sleep"), new(buf)); !errors.Is(err, driver.ErrContainment) {
		t.Errorf("only a marker: %v", err)
	}
	helper := prog(t, "cat")
	helper.Helper = true
	p, err := h.Start(ctxOf(t), helper, new(buf))
	if err != nil {
		t.Fatalf("a helper: %v", err)
	}
	if e, err := p.Wait(ctxOf(t)); err != nil || e.Reason != driver.Exited {
		t.Errorf("a helper: %+v, %v", e, err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	h2 := New(&Options{Keeper: kept(t), Containment: driver.ByKeeper, RequireContainment: true})
	defer h2.Close()
	if p, err = h2.Start(ctxOf(t), prog(t, "cat"), new(buf)); err != nil {
		t.Fatalf("with a keeper: %v", err)
	}
	if e, err := p.Wait(ctxOf(t)); err != nil || e.Containment != driver.ByKeeper {
		t.Errorf("with a keeper: %+v, %v", e, err)
	}
}

// Commands leave no goroutine and no descriptor.
func TestNoLeaks(t *testing.T) {
	fds := func() int {
		es, _ := os.ReadDir("/dev/fd")
		return len(es)
	}
	for name, o := range kinds(t) {
		h := host.New(New(o), nil)
		once := func() {
			spec := prog(t, "cat")
			spec.Duplex = true
			p, err := h.Start(ctxOf(t), spec, new(buf))
			if err != nil {
				t.Fatal(err)
			}
			p.Write(ctxOf(t), []byte("x"))
			p.CloseStdin(ctxOf(t))
			if _, err := p.Wait(ctxOf(t)); err != nil {
				t.Fatal(err)
			}
			// A start that is refused must not leak either.
			spec = prog(t, "cat")
			spec.Dir = "/no/such/dir"
			if _, err := h.Start(ctxOf(t), spec, new(buf)); !errors.Is(err, driver.ErrNoDir) {
				t.Fatal(err)
			}
		}
		once()
		g, f := runtime.NumGoroutine(), fds()
		for range 8 {
			once()
		}
		eventually(t, name+": no more goroutines and descriptors than before", func() bool {
			return runtime.NumGoroutine() <= g && fds() <= f
		})
		h.Close()
	}
}

func TestLook(t *testing.T) {
	h := host.New(New(nil), nil)
	p, err := h.Look(ctxOf(t), "sh", nil)
	if err != nil || !filepath.IsAbs(p.Exe) || p.Size == 0 || p.OS != runtime.GOOS {
		t.Errorf("Look: %+v, %v", p, err)
	}
	if _, err := h.Look(ctxOf(t), "no-such-thing", nil); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Look: %v", err)
	}
	if h.Name() != "local:" {
		t.Errorf("the name is %q", h.Name())
	}
}
