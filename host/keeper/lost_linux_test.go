package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// The keeper is killed: the client says lost, and the leader does not outlive
// it, whether a cgroup could be made or not.
func TestKeeperKilled(t *testing.T) {
	for _, how := range []driver.Containment{driver.ByCgroup, driver.ByKeeper} {
		t.Run(string(how), func(t *testing.T) {
			needCgroup(t, how)
			at := newKeeperAt(t, place{process: true, spool: true, local: true})
			spec := prog(t, "stubborn")
			spec.Containment = how
			out := at.sink()
			p := at.start(spec, out)
			out.await(t, "ready")
			leader := leaderOf(t, spec.ID)
			at.cmd.Process.Kill()
			e := wait(t, p)
			if e.Reason != driver.Lost || e.Code != nil || e.Signal != "" || e.Detail == "" || e.Containment != how {
				t.Errorf("the end is %+v", e)
			}
			if got := out.String(driver.Stdout); got != "ready\n" {
				t.Errorf("stdout is %q", got)
			}
			if err := p.Kill(ctxOf(t)); err == nil {
				t.Error("Kill vouches for a tree that nobody watches")
			}
			eventually(t, "the leader is gone", func() bool { return !alive(leader) })
		})
	}
}

func needCgroup(t *testing.T, how driver.Containment) {
	t.Helper()
	if how != driver.ByCgroup {
		return
	}
	g, err := proctree.NewCgroup(fmt.Sprintf("probe-%d-%d", os.Getpid(), nextID()))
	if err != nil {
		if os.Getuid() != 0 {
			t.Skip("no cgroup can be made by this user:", err)
		}
		t.Fatal(err)
	}
	g.Remove()
}

// Keeper and client are dead. Reap finds what cleared its environment and made
// its own session, by the record alone.
func TestReapEscapee(t *testing.T) {
	for _, how := range []driver.Containment{driver.ByCgroup, driver.ByKeeper} {
		t.Run(string(how), func(t *testing.T) {
			needCgroup(t, how)
			at := newKeeperAt(t, place{process: true, spool: true, local: true})
			spec := prog(t, "escape")
			spec.Containment = how
			out := at.sink()
			p := at.start(spec, out)
			out.await(t, "ready")
			dir := filepath.Join(at.root, spec.ID)
			leader := leaderOf(t, spec.ID)
			var rec *Record
			eventually(t, "the escapee's session is recorded", func() bool {
				var err error
				if rec, err = ReadRecord(dir); err != nil {
					t.Fatal(err)
				}
				return len(rec.Sessions) == 2
			})
			if _, _, _, err := Reap(ctxOf(t), rec); !errors.Is(err, ErrKept) {
				t.Errorf("Reap beside a living keeper: %v", err)
			}
			if !alive(leader) {
				t.Fatal("and it touched the tree")
			}
			if _, err := ReadExit(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("ReadExit while it runs: %v", err)
			}
			at.cmd.Process.Kill()
			wait(t, p)
			at.left(at.gone)
			rec, err := ReadRecord(dir)
			if err != nil {
				t.Fatal(err)
			}
			escapee := 0
			for _, s := range rec.Sessions {
				if s.SID != leader.PID {
					escapee = s.SID
				}
			}
			if q, err := proctree.Read(escapee); err != nil || q.Dead() {
				t.Fatal("the escapee has died with the keeper: nothing is tested")
			}

			other := *rec
			other.BootID = "another boot"
			if ended, _, _, err := Reap(ctxOf(t), &other); err != nil || len(ended) > 0 {
				t.Errorf("Reap of another boot: %v, %v", ended, err)
			}
			ended, survivors, unproven, err := Reap(ctxOf(t), rec)
			if err != nil || len(survivors) > 0 || len(unproven) > 0 {
				t.Errorf("Reap: survivors %v, unproven %v, %v", survivors, unproven, err)
			}
			found := false
			for _, q := range ended {
				found = found || q.PID == escapee
			}
			if !found {
				t.Errorf("Reap ended %+v, and not %d", ended, escapee)
			}
			if q, err := proctree.Read(escapee); err == nil && !q.Dead() {
				t.Error("the escapee is alive")
			}
			if rec.Cgroup != "" {
				if _, err := os.Stat(rec.Cgroup); err == nil {
					t.Error("the cgroup is still there")
				}
			}
		})
	}
}

// The client is killed: nothing runs 5 s later, every byte is there, and the
// exit is written down.
func TestClientKilled(t *testing.T) {
	for _, prg := range []string{"stubborn", "tail", "escape"} {
		t.Run(prg, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), "runs")
			id := fmt.Sprintf("t%d-%d", os.Getpid(), nextID())
			dir := filepath.Join(root, id)
			keeper, conn := keeperProcess(t, root)
			gone := make(chan struct{})
			go func() { keeper.Wait(); close(gone) }()
			s := conn.(*stdio)
			client := exec.Command(os.Args[0], id, prg)
			client.Env = append(os.Environ(), progVar+"=client")
			client.ExtraFiles = []*os.File{s.r, s.w}
			out, err := client.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Start(); err != nil {
				t.Fatal(err)
			}
			conn.Close() // the client has the only copy
			defer client.Wait()
			buf := make([]byte, 64)
			if n, err := out.Read(buf); string(buf[:n]) != "started\n" {
				t.Fatalf("the client says %q, %v", buf[:n], err)
			}
			eventually(t, "the command runs", func() bool {
				b, _ := os.ReadFile(filepath.Join(dir, stdoutFile))
				return strings.HasPrefix(string(b), "ready\n")
			})
			tree, err := proctree.Marked(id)
			if err != nil || len(tree) == 0 {
				t.Fatal(tree, err)
			}
			before := time.Now()
			client.Process.Kill()
			<-gone
			took := time.Since(before)
			for _, p := range tree {
				if now, err := proctree.Read(p.PID); err == nil && now.Start == p.Start && !now.Dead() {
					t.Errorf("%+v is alive", p)
				}
			}
			if left, _ := proctree.Marked(id); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
			e, err := ReadExit(dir)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(dir, stdoutFile))
			if err != nil {
				t.Fatal(err)
			}
			if e.Reason != driver.Killed || !strings.Contains(e.Detail, "stream") || e.Stdout != int64(len(b)) {
				t.Errorf("the exit is %+v, the transcript has %d bytes", e, len(b))
			}
			want := map[string]int{"stubborn": len("ready\nno\n"), "tail": len("ready\n") + 3<<20, "escape": len("ready\n")}[prg]
			if len(b) != want {
				t.Errorf("the transcript has %d bytes, want %d", len(b), want)
			}
			t.Logf("ended in %v", took)
		})
	}
}

// The keeper is asked to stop: as if the client were gone, but it is told.
func TestKeeperTerminated(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			at := newKeeperAt(t, place{process: true, spool: true, local: true})
			spec := prog(t, "stubborn")
			out := at.sink()
			p := at.start(spec, out)
			out.await(t, "ready")
			at.cmd.Process.Signal(sig)
			e := wait(t, p)
			if code(e) != "killed SIGKILL" || !strings.Contains(e.Detail, sig.String()) {
				t.Errorf("the end is %q (%s)", code(e), e.Detail)
			}
		})
	}
}

// A Start whose context ends leaves nothing.
func TestStartGivenUp(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		ctx, cancel := context.WithCancelCause(ctxOf(t))
		cancel(errors.New("my own"))
		spec := prog(t, "sleep")
		if _, err := Start(ctx, at.dial(), spec, newSink(), nil); err == nil || err.Error() != "my own" {
			t.Errorf("Start: %v", err)
		}
		at.left(at.gone)
		if ps, _ := proctree.Marked(spec.ID); len(ps) > 0 {
			t.Errorf("left: %+v", ps)
		}
	})
}

// Bytes that no client could be given are dropped, and the keeper still ends.
func TestStreamCut(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		spec := prog(t, "flood", "0")
		p := at.start(spec, newSink())
		leader := leaderOf(t, spec.ID)
		at.conn.Close()
		if e := wait(t, p); e.Reason != driver.Lost {
			t.Errorf("the end is %+v", e)
		}
		at.left(at.gone)
		if alive(leader) {
			t.Error("the leader is alive")
		}
		if at.spool {
			e, err := ReadExit(filepath.Join(at.root, spec.ID))
			fi, serr := os.Stat(filepath.Join(at.root, spec.ID, stdoutFile))
			if err != nil || serr != nil || e.Stdout != fi.Size() {
				t.Errorf("exit %+v, %v; transcript %v, %v", e, err, fi, serr)
			}
		}
	})
}

// The spool cannot be written: the command is ended and says why, and what is
// in the file is an intact prefix that no announcement was ahead of.
func TestSpoolFull(t *testing.T) {
	t.Run("limit of the file size", func(t *testing.T) {
		t.Setenv("REIN_TEST_FSIZE", "5000000")
		testSpoolFull(t, newKeeperAt(t, place{process: true, spool: true, local: true}))
	})
	t.Run("full disk", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can mount a small file system")
		}
		for _, local := range []bool{true, false} {
			for _, process := range []bool{true, false} {
				at := newKeeperAt(t, place{process: process, spool: true, local: local})
				dir := t.TempDir()
				if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
						t.Error(err)
					}
				})
				at.root = filepath.Join(dir, "runs")
				testSpoolFull(t, at)
			}
		}
	})
}

func testSpoolFull(t *testing.T, at *keeperAt) {
	t.Helper()
	spec := prog(t, "flood", "0")
	e, out := at.run(spec)
	if e.Reason != driver.Failed || !strings.HasPrefix(e.Detail, "spool: ") {
		t.Errorf("the end is %+v", e)
	}
	b, err := os.ReadFile(filepath.Join(at.root, spec.ID, stdoutFile))
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) < e.Stdout || e.Stdout < 1<<20 {
		t.Errorf("%d bytes were counted, the file has %d", e.Stdout, len(b))
	}
	checkPattern(t, string(b), int64(len(b)))
	checkPattern(t, out.String(driver.Stdout), e.Stdout)
	t.Logf("%+v", e)
}
