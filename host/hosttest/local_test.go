//go:build linux

package hosttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/host/local"
)

func testBinary(t testing.TB) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// best is the containment that this machine and user allow.
func best() driver.Containment {
	g, err := proctree.NewCgroup("kit-probe-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		return driver.ByKeeper
	}
	defer g.Close()
	g.Remove()
	return driver.ByCgroup
}

// localHarness is this machine with a keeper of its own for each command.
func localHarness(t testing.TB) Harness {
	spool := resolved(t, t.TempDir())
	o := local.Options{Keeper: []string{testBinary(t), "far-keeper"}, Spool: spool}
	h := Harness{
		Make:        func(testing.TB) driver.Host { return local.New(&o) },
		Prog:        testBinary(t),
		Dir:         resolved(t, t.TempDir()),
		Containment: best(),
		Weaker:      []driver.Containment{driver.ByMarker},
		Cut:         func(t testing.TB, _ driver.Host) { killKeepers(t) },
		Crash: func(t testing.TB, spec *driver.Spec, keepers bool) func() Wreck {
			return crash(t, o, spec, keepers, true)
		},
		NoName:     "the test binary is on no PATH",
		NoCutSweep: "its socket cannot be cut: Cut kills the keeper, and what is left then is the matter of Crash",
	}
	if h.Containment == driver.ByCgroup {
		h.Weaker = append(h.Weaker, driver.ByKeeper)
	}
	return h
}

// killKeepers ends the keepers that are children of this process.
func killKeepers(t testing.TB) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		cmdline, f, name, ok := read(pid)
		if !ok || f[1] != strconv.Itoa(os.Getpid()) || !bytes.Contains(cmdline, []byte("\x00far-keeper\x00")) {
			continue
		}
		start, _ := strconv.ParseUint(f[19], 10, 64)
		end(driver.Proc{PID: pid, Name: name, Start: start}, syscall.SIGKILL)
	}
}

const supervisorWord = "hosttest-supervisor"

// order is what a supervisor is told, over its stdin.
type order struct {
	Keeper      []string
	Spool       string
	ID          string
	Argv        []string
	Dir         string
	Grace       time.Duration
	Containment driver.Containment
}

// supervise is another Rein, to be killed.
func supervise() int {
	time.AfterFunc(longest, func() { os.Exit(98) })
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return 1
	}
	h := local.New(&local.Options{Keeper: o.Keeper, Spool: o.Spool})
	p, err := h.Start(context.Background(), &driver.Spec{
		ID: o.ID, Argv: o.Argv, Dir: o.Dir, Grace: o.Grace, Containment: o.Containment,
	}, newSpooled())
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	p.Wait(context.Background())
	return 0
}

// crash is Harness.Crash. Without back nobody does what Rein does at its next
// start.
func crash(t testing.TB, o local.Options, spec *driver.Spec, keepers, back bool) func() Wreck {
	told, err := json.Marshal(order{o.Keeper, o.Spool, spec.ID, spec.Argv, spec.Dir, spec.Grace, spec.Containment})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testBinary(t), supervisorWord)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(told), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dead := false
	kill := func() {
		if !dead {
			dead = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	t.Cleanup(kill)
	dir := filepath.Join(o.Spool, spec.ID)
	return func() Wreck {
		w := Wreck{Stdout: filepath.Join(dir, "transcript")}
		await(t, "first byte of the command", func() bool {
			fi, err := os.Stat(w.Stdout)
			return err == nil && fi.Size() > 0
		})
		rec := recorded(t, dir, spec.ID)
		if !keepers {
			kill()
			await(t, "the keeper's word on the end", func() bool {
				_, err := keeper.ReadExit(dir)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				return err == nil
			})
			return w
		}
		// Stopped first: neither may notice the other's death.
		end(rec.Keeper, syscall.SIGSTOP)
		kill()
		end(rec.Keeper, syscall.SIGKILL)
		if !back {
			t.Cleanup(func() { comeBack(t, rec) })
			return w
		}
		w.Unproven = comeBack(t, rec)
		return w
	}
}

// comeBack is what Rein does about a dead keeper at its next start.
func comeBack(t testing.TB, rec *keeper.Record) (unproven []driver.Proc) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		_, survivors, unproven, err := keeper.Reap(ctx, rec)
		if errors.Is(err, keeper.ErrKept) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			continue // its death is under way
		}
		if err != nil || len(survivors) > 0 {
			t.Errorf("Reap: %v, survivors %v", err, survivors)
		}
		return unproven
	}
}

// recorded waits until the keeper's record names what ties every process to the
// command: a cgroup, or each of their sessions.
func recorded(t testing.TB, dir, mark string) (rec *keeper.Record) {
	await(t, "a complete record", func() bool {
		var err error
		if rec, err = keeper.ReadRecord(dir); err != nil {
			return false
		}
		if rec.Cgroup != "" {
			return true
		}
		procs, err := scan(mark)
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(procs, func(p driver.Proc) bool {
			sid, err := unix.Getsid(p.PID)
			return err == nil && !slices.ContainsFunc(rec.Sessions, func(s proctree.Session) bool { return s.SID == sid })
		})
	})
	return rec
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
	}
}

func TestLocal(t *testing.T) { Run(t, localHarness(t)) }

func resolved(t testing.TB, dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
