package keeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/host/link"
)

// linkAt is a far end whose transports are processes, as over SSH: they can be
// killed, and no more can be made.
type linkAt struct {
	t    *testing.T
	dir  string // of the link
	root string // of the spool

	mu   sync.Mutex
	down error
	cmds []*exec.Cmd
	made int
	wg   sync.WaitGroup

	early int // the first so many die at once, or a little later
}

func newLinkAt(t *testing.T) *linkAt {
	a := &linkAt{t: t, dir: filepath.Join(t.TempDir(), "run", "link"), root: filepath.Join(t.TempDir(), "runs")}
	t.Cleanup(func() {
		a.cut(errors.New("the test is over"))
		a.wg.Wait()
	})
	return a
}

func (a *linkAt) connect(context.Context) (io.ReadWriteCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down != nil {
		return nil, a.down
	}
	cmd := exec.Command(os.Args[0], "link", "--spool", a.root, a.dir)
	cmd.Env = append(os.Environ(), progVar+"=keeper", "GORACE="+quickRace)
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOut.Close()
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a.cmds = append(a.cmds, cmd)
	a.made++
	a.wg.Go(func() { cmd.Wait() })
	if a.made <= a.early {
		time.AfterFunc(time.Duration(a.made-1)*20*time.Millisecond, func() { cmd.Process.Kill() })
	}
	return &stdio{out, in}, nil
}

// cut kills the transports; with err, no other can be made.
func (a *linkAt) cut(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = err
	for _, c := range a.cmds {
		c.Process.Kill()
	}
	a.cmds = nil
}

func (a *linkAt) dial(o *link.Options) *link.Conn {
	a.t.Helper()
	c, err := link.Dial(a.t.Context(), a.connect, o)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

func (a *linkAt) start(conn io.ReadWriteCloser, spec *driver.Spec, out driver.Output) driver.Process {
	a.t.Helper()
	p, err := Start(ctxOf(a.t), conn, spec, out, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

// over waits until neither server nor directory is there.
func (a *linkAt) over(conn *link.Conn) {
	a.t.Helper()
	if err := conn.Wait(ctxOf(a.t)); err != nil {
		a.t.Errorf("Wait: %v", err)
	}
	a.gone()
}

func (a *linkAt) gone() {
	a.t.Helper()
	eventually(a.t, "the directory of the link is removed", func() bool {
		_, err := os.Lstat(a.dir)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// quickly notices a dead transport soon enough for a test, and gives a loaded
// machine time.
var quickly = &link.Options{Ping: time.Second}

// The transports are killed again and again, also before the first answer; the
// command runs on, and not a byte is missing in either direction.
func TestLinkCut(t *testing.T) {
	t.Parallel()
	a := newLinkAt(t)
	a.early = 3
	conn := a.dial(quickly)
	spec := prog(t, "cat")
	spec.Duplex = true
	out := newSink()
	p := a.start(conn, spec, out)
	want := make([]byte, 6<<20)
	(&pattern{}).Read(want)
	for i := 0; i < len(want); i += 100_000 {
		if err := p.Write(ctxOf(t), want[i:min(i+100_000, len(want))]); err != nil {
			t.Fatal(err)
		}
		if i%500_000 == 0 {
			a.cut(nil) // with up to 256 KiB under way in either direction
		}
	}
	if err := p.CloseStdin(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	e := wait(t, p)
	if e.Reason != driver.Exited || e.Code == nil || *e.Code != 0 {
		t.Errorf("the end is %+v", e)
	}
	if got := out.String(driver.Stdout); got != string(want) {
		t.Errorf("%d bytes came of %d, or they differ", len(got), len(want))
	}
	t.Logf("%d transports, %d resumptions", a.made, conn.Resumes())
	if conn.Resumes() == 0 {
		t.Error("nothing was cut")
	}
	a.over(conn)
}

// The client does not come back: the tree is ended, the end is written down, the
// directory is removed, and the client says how far the output got.
func TestLinkLease(t *testing.T) {
	t.Parallel()
	a := newLinkAt(t)
	conn := a.dial(&link.Options{Ping: 500 * time.Millisecond, Lease: 3 * time.Second})
	spec := prog(t, "stubborn")
	out := newSink()
	p := a.start(conn, spec, out)
	out.await(t, "ready")
	leader := leaderOf(t, spec.ID)
	dir := filepath.Join(a.root, spec.ID)
	rec, err := ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	a.cut(errors.New("no route to host"))
	e := wait(t, p)
	if e.Reason != driver.Lost || e.Stdout != 6 {
		t.Errorf("the end is %+v", e)
	}
	for _, s := range []string{"no route to host", "down for ", "6 bytes of stdout"} {
		if !strings.Contains(e.Detail, s) {
			t.Errorf("the detail does not say %q: %s", s, e.Detail)
		}
	}
	eventually(t, "the leader is gone", func() bool { return !alive(leader) })
	eventually(t, "the keeper's word on the end", func() bool { _, err := ReadExit(dir); return err == nil })
	far, err := ReadExit(dir)
	if err != nil || far.Reason != driver.Killed || !strings.Contains(far.Detail, "link is lost") || len(far.Survivors) > 0 {
		t.Errorf("the keeper wrote %+v, %v", far, err)
	}
	a.gone()
	eventually(t, "the keeper has left", func() bool { return !rec.KeeperAlive() })
	if err := conn.Wait(ctxOf(t)); !errors.Is(err, link.ErrLost) {
		t.Errorf("Wait: %v", err)
	}
}

// The output and the exit of a command that ends while the link is down are
// there when it comes back.
func TestLinkEndWhileDown(t *testing.T) {
	t.Parallel()
	a := newLinkAt(t)
	conn := a.dial(quickly)
	spec := prog(t, "tail")
	out := newSink()
	p := a.start(conn, spec, out)
	out.await(t, "ready")
	leader := leaderOf(t, spec.ID)
	a.cut(errors.New("no route to host"))
	if err := proctree.Signal(proctree.Proc{PID: leader.PID, Start: leader.Start}, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the leader is gone", func() bool { return !alive(leader) })
	a.mu.Lock()
	a.down = nil
	a.mu.Unlock()
	e := wait(t, p)
	if e.Code == nil || *e.Code != 5 || e.Stdout != 6+3<<20 || len(out.String(driver.Stdout)) != 6+3<<20 {
		t.Errorf("the end is %+v, %d bytes came", e, len(out.String(driver.Stdout)))
	}
	a.over(conn)
}

// A server that was killed is gone: the client hears of it at once, and no other
// is started in its place, for it would start the command again.
func TestLinkServerKilled(t *testing.T) {
	t.Parallel()
	a := newLinkAt(t)
	conn := a.dial(quickly)
	spec := prog(t, "sleep")
	out := newSink()
	p := a.start(conn, spec, out)
	out.await(t, "ready")
	leader := leaderOf(t, spec.ID)
	rec, err := ReadRecord(filepath.Join(a.root, spec.ID))
	if err != nil {
		t.Fatal(err)
	}
	if err := proctree.Signal(proctree.Proc{PID: rec.Keeper.PID, Start: rec.Keeper.Start}, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e := wait(t, p)
	if e.Reason != driver.Lost || !strings.Contains(e.Detail, link.ErrGone.Error()) {
		t.Errorf("the end is %+v", e)
	}
	eventually(t, "the leader is gone", func() bool { return !alive(leader) })
	if _, err := reachServer(a.dir, a.root, []string{os.Args[0]}, &link.Hello{Create: true}); !errors.Is(err, link.ErrGone) {
		t.Errorf("another server: %v", err)
	}
}

// The directory is private or refused, and what is refused is said.
func TestLinkDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(dir string) error
		want string // "" is accepted
	}{
		"there already":  {func(d string) error { return os.Mkdir(d, 0o700) }, ""},
		"open":           {func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o755)) }, "not a directory of this user alone"},
		"a file":         {func(d string) error { return os.WriteFile(d, nil, 0o600) }, "not a directory of this user alone"},
		"a link":         {func(d string) error { return os.Symlink(filepath.Dir(d), d) }, "not a directory of this user alone"},
		"a link to none": {func(d string) error { return os.Symlink(filepath.Join(filepath.Dir(d), "none"), d) }, "not a directory of this user alone"},
		"a long path":    {func(d string) error { return nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newLinkAt(t)
			a.root = "" // nothing but the directory is left behind, or not
			a.dir = filepath.Join(t.TempDir(), "link")
			if name == "a long path" {
				a.dir = filepath.Join(t.TempDir(), strings.Repeat("d", 100), "link")
			}
			if err := c.make(a.dir); err != nil {
				t.Fatal(err)
			}
			conn := a.dial(quickly)
			p, err := Start(ctxOf(t), conn, prog(t, "exit", "3"), newSink(), nil)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, link.ErrRefused) {
					t.Errorf("Start: %v", err)
				}
				conn.Wait(ctxOf(t))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if e := wait(t, p); e.Code == nil || *e.Code != 3 {
				t.Errorf("the end is %+v", e)
			}
			a.over(conn)
		})
	}
}

// What a start refuses is refused over a link too, and leaves nothing.
func TestLinkRefusedStart(t *testing.T) {
	t.Parallel()
	a := newLinkAt(t)
	conn := a.dial(quickly)
	if _, err := Start(ctxOf(t), conn, &driver.Spec{Argv: []string{"no-such-program-here"}}, newSink(), nil); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Start: %v", err)
	}
	a.over(conn)
}

// A second process with the right path and no key gets nothing.
func TestLinkStranger(t *testing.T) {
	t.Parallel()
	a := newLinkAt(t)
	conn := a.dial(quickly)
	out := newSink()
	p := a.start(conn, prog(t, "sleep"), out)
	out.await(t, "ready")
	other := a.dial(quickly)
	var b bytes.Buffer
	if _, err := io.Copy(&b, other); !errors.Is(err, link.ErrRefused) || b.Len() > 0 {
		t.Errorf("a stranger read %q, %v", b.String(), err)
	}
	other.Wait(ctxOf(t))
	if err := p.Kill(ctxOf(t)); err != nil {
		t.Error(err)
	}
	if e := wait(t, p); e.Reason != driver.Killed {
		t.Errorf("the end is %+v", e)
	}
	a.over(conn)
}
