package proctree

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The misbehaving processes of these tests are this very binary: with the
// argument childArg it is a child, and what follows says of which kind. An
// argument and not a variable, since some children must have no environment.
const childArg = "@proctree-child"

// childLife bounds every child's life, so that a test that dies leaves nothing
// behind for good.
const childLife = 2 * time.Minute

// patience is how long a test waits for what should take milliseconds.
const patience = time.Minute

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		child(os.Args[2:])
		os.Exit(0)
	}
	code := m.Run()
	if left := leftBehind(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "the tests left processes behind: %+v\n", left)
		code = max(code, 1)
	}
	os.Exit(code)
}

// child runs one child. Kinds that only one system has are in platformChild.
func child(args []string) {
	switch kind := args[0]; kind {
	case "parent": // starts the children that it is told, and stays
		for _, k := range args[1:] {
			// Words are parted by spaces, or by + one parent further down.
			words := strings.Fields(k)
			if len(words) == 1 {
				words = strings.Split(k, "+")
			}
			startChild(words...)
		}
		ready()
		sleep()
	case "sleep":
		ready()
		sleep()
	case "deaf":
		signal.Ignore(os.Interrupt, syscall.SIGTERM)
		ready()
		sleep()
	default:
		if !platformChild(args) {
			fmt.Fprintln(os.Stderr, "unknown kind of child:", kind)
			os.Exit(2)
		}
	}
}

func sleep() { time.Sleep(childLife) }

// ready tells the test on descriptor 3, which all children inherit, that this
// child is what it should be.
func ready() { say(strconv.Itoa(os.Getpid())) }

func say(line string) { _, _ = os.NewFile(3, "ready").WriteString(line + "\n") }

// self is the path under which this binary starts itself. On Linux it is not
// os.Executable's: the directory that go test builds in is closed to the other
// users under which some tests run.
func self() string {
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		return "/proc/self/exe"
	}
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// childCommand is a command that runs a child, its announcements going to w.
func childCommand(w *os.File, args ...string) *exec.Cmd {
	cmd := exec.Command(self(), append([]string{childArg}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{w}
	return cmd
}

// startChild is for children that start children.
func startChild(args ...string) *exec.Cmd {
	cmd := childCommand(os.NewFile(3, "ready"), args...)
	prepare(cmd, args)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start", args, err)
		os.Exit(2)
	}
	return cmd
}

// start runs a child until the end of the test and returns it with the pids of
// all the children that announced themselves, n of them.
func start(t *testing.T, n int, args ...string) (*exec.Cmd, []int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := childCommand(w, args...)
	prepare(cmd, args)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var procs []Proc
	t.Cleanup(func() {
		for _, p := range procs {
			_ = Signal(p, syscall.SIGKILL)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pids, err := readPIDs(r, n)
	for _, pid := range pids {
		if p, err := Read(pid); err == nil {
			procs = append(procs, p)
		}
	}
	if err != nil {
		t.Fatalf("children of %q: %v", args, err)
	}
	return cmd, pids
}

// readPIDs reads n announcements.
func readPIDs(r *os.File, n int) ([]int, error) {
	_ = r.SetReadDeadline(time.Now().Add(patience)) // fails on Windows: then there is only the test's own
	var pids []int
	lines := bufio.NewScanner(r)
	for len(pids) < n && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			return pids, err
		}
		pids = append(pids, pid)
	}
	if len(pids) < n {
		return pids, fmt.Errorf("%d of %d are ready: %v", len(pids), n, lines.Err())
	}
	return pids, nil
}

// poll waits until ok is true.
func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting after %v: %s", patience, what)
		}
	}
}

// over says that the process is gone or a zombie. That its number belongs to
// another process by now is over too.
func over(p Proc) bool {
	now, err := Read(p.PID)
	return err != nil || now.Start != p.Start || now.Dead()
}
