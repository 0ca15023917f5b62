//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/internal/fakeagent"
)

// patience bounds what a test waits for on a loaded machine.
const patience = 60 * time.Second

// running is `rein run` in a process of its own, with an agent that has
// children in hiding places and ignores TERM.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	pids   string
	report string
	err    bytes.Buffer
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	r := prepare(t, fakeagent.Scenario{Steps: []fakeagent.Step{
		{Do: "ignore_term"},
		{Do: "spawn", How: "setsid", Ignore: true},
		{Do: "spawn", How: "env_i", Ignore: true},
		{Do: "text", Text: "working"},
		{Do: "touch", Path: ready},
		{Do: "hang"},
	}}, args...)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
	r.until("the agent works", func() bool { _, err := os.Stat(ready); return err == nil })
	return r
}

func prepare(t *testing.T, sc fakeagent.Scenario, args ...string) *running {
	t.Helper()
	home, bin, dir := t.TempDir(), t.TempDir(), t.TempDir()
	if err := fakeagent.Install(bin, "claude"); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, pids: filepath.Join(home, "pids"), report: filepath.Join(home, "report.json")}
	r.cmd = exec.Command(exe)
	r.cmd.Args = append([]string{"rein", "run", "-C", dir, "--report", r.report}, append(args, "work")...)
	r.cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home,
		"PATH="+bin+":"+os.Getenv("PATH"), sc.Env(), fakeagent.EnvPids+"="+r.pids, "GORACE=atexit_sleep_ms=0")
	r.cmd.Stderr = &r.err
	return r
}

func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within %s; stderr: %s", what, patience, r.err.String())
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (r *running) alive() (n int) {
	procs, _ := fakeagent.Procs(r.pids)
	for _, p := range procs {
		if q, err := proctree.Read(p.PID); err == nil && !q.Dead() {
			n++
		}
	}
	return n
}

// ended checks the exit code, the report and that nobody is left.
func (r *running) ended(code int, by string) {
	r.t.Helper()
	r.cmd.Wait()
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.t.Errorf("exit %d, want %d: %s", got, code, r.err.String())
	}
	if n := r.alive(); n > 0 {
		r.t.Errorf("%d processes left", n)
	}
	var rep rein.Report
	b, err := os.ReadFile(r.report)
	if err == nil {
		err = json.Unmarshal(b, &rep)
	}
	if err != nil || rep.End != (rein.End{Kind: rein.Cancelled, Detail: by}) {
		r.t.Errorf("end %+v, %v", rep.End, err)
	}
}

// Each signal ends the tree gracefully and has its own exit code. SIGHUP acts
// like Ctrl-C.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		sig  syscall.Signal
		code int
		by   string
	}{
		{syscall.SIGINT, 130, "SIGINT"}, {syscall.SIGTERM, 143, "SIGTERM"}, {syscall.SIGHUP, 129, "SIGHUP"},
	} {
		t.Run(c.by, func(t *testing.T) {
			t.Parallel()
			// nohup(1) and a shell's background jobs hand that on, and rein leaves
			// it so.
			if signal.Ignored(c.sig) {
				t.Fatalf("%s is ignored here: run the tests without nohup", c.by)
			}
			r := start(t)
			r.cmd.Process.Signal(c.sig)
			r.ended(c.code, c.by)
		})
	}
}

// A second Ctrl-C does not wait for the grace, here a day.
func TestSecondInterruptKills(t *testing.T) {
	t.Parallel()
	r := start(t, "--grace", "24h", "--total", "none")
	r.cmd.Process.Signal(syscall.SIGINT)
	// Two signals of one kind merge when the first was not taken yet.
	go func() {
		for r.cmd.Process.Signal(syscall.SIGINT) == nil {
			<-time.After(50 * time.Millisecond)
		}
	}()
	r.ended(130, "SIGINT")
}

// Ctrl-\ is a second Ctrl-C: the tree is killed without the grace, here a day,
// the report is made, and no goroutines are dumped.
func TestQuitKills(t *testing.T) {
	t.Parallel()
	r := start(t, "--grace", "24h", "--total", "none")
	r.cmd.Process.Signal(syscall.SIGQUIT)
	r.ended(131, "SIGQUIT")
	if bytes.Contains(r.err.Bytes(), []byte("goroutine")) {
		t.Errorf("a dump: %s", r.err.String())
	}
}

// A viewer is left by Ctrl-\ as by Ctrl-C, and the run goes on.
func TestQuitOfAViewer(t *testing.T) {
	t.Parallel()
	r := start(t, "--id", "s", "--total", "none")
	for _, args := range [][]string{{"attach", "s"}, {"tail", "-f", "s"}} {
		v := exec.Command(r.cmd.Path)
		v.Args = append([]string{"rein", "runs"}, args...)
		v.Env = r.cmd.Env
		var errOut bytes.Buffer
		out, err := v.StdoutPipe()
		v.Stderr = &errOut
		if err == nil {
			err = v.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // it watches
			t.Fatal(err, errOut.String())
		}
		v.Process.Signal(syscall.SIGQUIT)
		io.Copy(io.Discard, out)
		if err := v.Wait(); err != nil || bytes.Contains(errOut.Bytes(), []byte("goroutine")) {
			t.Errorf("%v: %v: %s", args, err, errOut.String())
		}
	}
	if out, errOut, err := r.rein("tail", "s"); err != nil || r.alive() == 0 {
		t.Errorf("the run ended with its viewer: %s%s", out, errOut)
	}
	r.cmd.Process.Signal(syscall.SIGQUIT)
	r.ended(131, "SIGQUIT")
}

// `rein exec` gives the grace on the first signal, and none on the second or on
// Ctrl-\.
func TestExecSignals(t *testing.T) {
	for _, sigs := range [][]syscall.Signal{{syscall.SIGQUIT}, {syscall.SIGINT, syscall.SIGTERM}} {
		t.Run(sigs[0].String(), func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			ready, pids := filepath.Join(home, "ready"), filepath.Join(home, "pids")
			if err := fakeagent.Install(home, "claude"); err != nil {
				t.Fatal(err)
			}
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			sc := fakeagent.Scenario{Lax: true, Stdin: "never", Steps: []fakeagent.Step{
				{Do: "ignore_term"}, {Do: "spawn", How: "setsid", Ignore: true}, {Do: "touch", Path: ready}, {Do: "hang"},
			}}
			r := &running{t: t, pids: pids, cmd: exec.Command(exe)}
			r.cmd.Args = []string{"rein", "exec", "--grace", "24h", "--", filepath.Join(home, "claude"), "-p", "x"}
			r.cmd.Env = append(os.Environ(), "HOME="+home, sc.Env(), fakeagent.EnvPids+"="+pids, "GORACE=atexit_sleep_ms=0")
			r.cmd.Stderr = &r.err
			if err := r.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
			r.until("the command works", func() bool { _, err := os.Stat(ready); return err == nil })
			for _, s := range sigs {
				r.cmd.Process.Signal(s)
			}
			r.cmd.Wait()
			if got := r.cmd.ProcessState.ExitCode(); got != 128+9 {
				t.Errorf("exit %d: %s", got, r.err.String())
			}
			if n := r.alive(); n > 0 || bytes.Contains(r.err.Bytes(), []byte("goroutine")) {
				t.Errorf("%d processes left: %s", n, r.err.String())
			}
		})
	}
}

// A reader of stdout that goes away ends nothing: the run goes on to its
// report.
func TestReaderGoesAway(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	r := prepare(t, fakeagent.Scenario{Steps: []fakeagent.Step{{Do: "flood", Bytes: 4 << 20}, {Do: "result"}}}, "--raw")
	r.cmd.Stdout = write
	err = r.cmd.Run()
	write.Close()
	if err != nil {
		t.Errorf("%v: %s", err, r.err.String())
	}
	if _, err := os.Stat(r.report); err != nil {
		t.Error(err)
	}
}
