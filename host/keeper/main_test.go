//go:build unix

package keeper

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// The test binary is the keeper, the agent and whatever the agent starts:
// progVar says which.
const progVar = "REIN_TEST_PROG"

func TestMain(m *testing.M) {
	if prog := os.Getenv(progVar); prog != "" {
		os.Exit(runProg(prog, os.Args[1:]))
	}
	// Most of these tests wait for another process, or for a bound that is real
	// time. As many at a time as there are processors would stand in line for
	// nothing. -parallel beats it: flags are parsed in Run.
	flag.Set("test.parallel", "4")
	os.Exit(m.Run())
}

// runProg is one misbehaving program.
func runProg(prog string, args []string) int {
	switch prog {
	case "keeper":
		if len(args) == 0 || args[0] != linkVerb || args[1] == "--serve" {
			os.Unsetenv(progVar) // the command's environment is not ours
		}
		if n, err := strconv.ParseUint(os.Getenv("REIN_TEST_FSIZE"), 10, 64); err == nil {
			syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n})
		}
		return Main(args, os.Stdin, os.Stdout, os.Stderr)
	case "client":
		return clientProg(args)
	case "exit":
		n, _ := strconv.Atoi(args[0])
		return n
	case "signal":
		n, _ := strconv.Atoi(args[0])
		syscall.Kill(os.Getpid(), syscall.Signal(n))
		select {}
	case "ask": // the hook program
		return Main(append([]string{"ask"}, args...), os.Stdin, os.Stdout, os.Stderr)
	case "asks": // asks in args[0], with a question of args[1] bytes, args[2] times at once
		return asksProg(args)
	case "print":
		fmt.Print(args[0])
		fmt.Fprint(os.Stderr, args[1])
	case "cat":
		io.Copy(os.Stdout, os.Stdin)
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "stubborn": // ignores the polite signals, and says that it saw one
		ch := make(chan os.Signal, 8)
		signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("ready")
		for range ch {
			fmt.Println("no")
		}
	case "tail": // prints what it has to say when it is asked to stop
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, syscall.SIGTERM)
		fmt.Println("ready")
		<-ch
		fmt.Print(strings.Repeat("t", 3<<20))
		return 5
	case "flood": // writes args[0] bytes, or for ever
		n, _ := strconv.ParseInt(args[0], 10, 64)
		w := io.Writer(os.Stdout)
		if n > 0 {
			io.Copy(w, io.LimitReader(&pattern{}, n))
			return 0
		}
		io.Copy(w, &pattern{})
	case "leave": // leaves a child behind that holds nothing
		child("sleep", nil, false)
	case "hold": // leaves a child behind that holds stdout and goes on writing
		fmt.Println("ready")
		child("flood-slowly", os.Stdout, true, strconv.Itoa(os.Getpid()))
	case "flood-slowly": // once its parent is over
		for parent := args[0]; strconv.Itoa(os.Getppid()) == parent; {
			time.Sleep(5 * time.Millisecond)
		}
		for {
			fmt.Println("still here")
			time.Sleep(20 * time.Millisecond)
		}
	case "escape": // a child in its own session with an empty environment
		child("sleep", nil, true)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "close-stdin":
		os.Stdin.Close()
		fmt.Println("ready")
		time.Sleep(time.Hour)
	default:
		fmt.Fprintln(os.Stderr, "no such program", prog)
		return 99
	}
	return 0
}

// child starts prog and does not wait for it. With away it has its own session
// and nothing in its environment but what makes it run.
func child(prog string, stdout *os.File, away bool, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), progVar+"="+prog)
	if away {
		cmd.Env = []string{progVar + "=" + prog, "GORACE=" + quickRace}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}

// quickRace: a program built with -race otherwise sleeps a second at its end.
const quickRace = "atexit_sleep_ms=0"

// pattern is an endless stream whose bytes tell where they stand: a block of
// noise, again and again, of a length that no buffer has.
type pattern struct{ off int64 }

var block = func() []byte {
	b := make([]byte, 65537)
	x := uint32(1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}()

func (p *pattern) Read(b []byte) (n int, err error) {
	for n < len(b) {
		m := copy(b[n:], block[p.off%int64(len(block)):])
		n, p.off = n+m, p.off+int64(m)
	}
	return n, nil
}

// prog is the Spec of a program of the test binary.
func prog(t testing.TB, name string, args ...string) *driver.Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &driver.Spec{
		ID:   fmt.Sprintf("t%d-%d", os.Getpid(), nextID()),
		Argv: append([]string{exe}, args...),
		Env:  driver.Env{progVar: name, "GORACE": quickRace},
		// The tests are about one thing at a time, on a slow machine.
		Grace: 300 * time.Millisecond,
	}
}

var ids struct {
	sync.Mutex
	n int
}

func nextID() int {
	ids.Lock()
	defer ids.Unlock()
	ids.n++
	return ids.n
}

// sink collects the output. A gate that is not nil is waited for before every
// piece is taken.
type sink struct {
	gate    chan struct{}
	mu      sync.Mutex
	b       [2]bytes.Buffer
	samples []driver.Sample
	change  chan struct{}
}

func newSink() *sink { return &sink{change: make(chan struct{}, 1)} }

func (s *sink) Data(st driver.Stream, p []byte) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	s.b[st].Write(p)
	s.mu.Unlock()
	select {
	case s.change <- struct{}{}:
	default:
	}
}

func (s *sink) Sample(v driver.Sample) {
	s.mu.Lock()
	s.samples = append(s.samples, v)
	s.mu.Unlock()
}

func (s *sink) String(st driver.Stream) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b[st].String()
}

// await waits until stdout holds text.
func (s *sink) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(s.String(driver.Stdout), text) {
		select {
		case <-s.change:
		case <-deadline:
			t.Fatalf("stdout has no %q after %v: %q", text, patience, s.String(driver.Stdout))
		}
	}
}

// spoolSink reads from the spool, as package rein does.
type spoolSink struct {
	sink
	paths [2]string
	size  [2]int64
}

func newSpoolSink() *spoolSink { return &spoolSink{sink: sink{change: make(chan struct{}, 1)}} }

func (s *spoolSink) Spool(stdout, stderr string) { s.paths = [2]string{stdout, stderr} }

func (s *spoolSink) Spooled(st driver.Stream, n int64) {
	if s.gate != nil {
		<-s.gate
	}
	f, err := os.Open(s.paths[st])
	if err != nil {
		panic(err)
	}
	defer f.Close()
	p := make([]byte, n-s.size[st])
	if _, err := f.ReadAt(p, s.size[st]); err != nil {
		panic(fmt.Sprintf("announced to %d: %v", n, err)) // the announcement was ahead of the file
	}
	s.size[st] = n
	s.mu.Lock()
	s.b[st].Write(p)
	s.mu.Unlock()
	select {
	case s.change <- struct{}{}:
	default:
	}
}

// patience is for a slow machine that does other things as well.
const patience = 60 * time.Second

// place is a way to reach a keeper. Every test of the contract runs in each.
type place struct {
	name    string
	process bool // the keeper is a process of its own
	spool   bool
	local   bool // and the client reads the spool itself
}

var places = []place{
	{name: "in-process"},
	{name: "in-process, spool", spool: true, local: true},
	{name: "keeper, no spool", process: true},
	{name: "keeper, far spool", process: true, spool: true},
	{name: "keeper, near spool", process: true, spool: true, local: true},
}

func everywhere(t *testing.T, f func(t *testing.T, at *keeperAt)) { in(t, places, f) }

// bothKinds is enough for what happens before the first byte.
func bothKinds(t *testing.T, f func(t *testing.T, at *keeperAt)) {
	in(t, []place{places[1], places[4]}, f)
}

func in(t *testing.T, places []place, f func(t *testing.T, at *keeperAt)) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f(t, newKeeperAt(t, p))
		})
	}
}

// keeperAt starts a keeper for every command.
type keeperAt struct {
	place
	t    *testing.T
	root string // of the spool
	cmd  *exec.Cmd
	conn io.ReadWriteCloser
	gone chan struct{} // the last keeper has left
}

func newKeeperAt(t *testing.T, p place) *keeperAt {
	a := &keeperAt{place: p, t: t}
	if p.spool {
		a.root = filepath.Join(t.TempDir(), "runs")
	}
	return a
}

func (a *keeperAt) dial() io.ReadWriteCloser {
	a.t.Helper()
	gone := make(chan struct{})
	a.gone = gone
	if !a.process {
		client, server := Pipe()
		a.conn = client
		go func() {
			defer close(gone)
			Serve(context.Background(), server, &ServeOptions{Spool: a.root})
		}()
	} else {
		cmd, conn := keeperProcess(a.t, a.root)
		a.cmd, a.conn = cmd, conn
		go func() {
			defer close(gone)
			cmd.Wait()
		}()
	}
	conn := a.conn
	a.t.Cleanup(func() {
		conn.Close()
		a.left(gone)
	})
	return conn
}

// left fails the test when a keeper stays.
func (a *keeperAt) left(gone chan struct{}) {
	select {
	case <-gone:
	case <-time.After(patience):
		a.t.Error("the keeper is still there")
		if a.process {
			a.cmd.Process.Kill()
		}
	}
}

// keeperProcess starts the test binary as a keeper.
func keeperProcess(t testing.TB, root string) (*exec.Cmd, io.ReadWriteCloser) {
	t.Helper()
	var args []string
	if root != "" {
		args = []string{"--spool", root}
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), progVar+"=keeper", "GORACE="+quickRace)
	cmd.Stderr = os.Stderr
	// Not the pipes of os/exec: its Wait closes them.
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	return cmd, &stdio{out, in}
}

// output is an Output whose bytes can be looked at.
type output interface {
	driver.Output
	await(t *testing.T, text string)
	String(driver.Stream) string
}

func (a *keeperAt) sink() output {
	if a.local {
		return newSpoolSink()
	}
	return newSink()
}

func (a *keeperAt) start(spec *driver.Spec, out driver.Output) driver.Process {
	a.t.Helper()
	p, err := Start(ctxOf(a.t), a.dial(), spec, out, &ClientOptions{LocalSpool: a.local})
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

func (a *keeperAt) run(spec *driver.Spec) (driver.Exit, output) {
	a.t.Helper()
	out := a.sink()
	return wait(a.t, a.start(spec, out)), out
}

func ctxOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

func wait(t testing.TB, p driver.Process) driver.Exit {
	t.Helper()
	e, err := p.Wait(ctxOf(t))
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return e
}

// clientProg is a client that is killed by the test: it starts a command on the
// keeper whose stream it was given as descriptors 3 and 4, and stays.
func clientProg(args []string) int {
	conn := &stdio{os.NewFile(3, "in"), os.NewFile(4, "out")}
	spec := &driver.Spec{
		ID: args[0], Argv: []string{os.Args[0]}, Env: driver.Env{progVar: args[1]},
	}
	p, err := Start(context.Background(), conn, spec, newSink(), nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("started")
	p.Wait(context.Background())
	return 0
}
