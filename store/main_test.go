package store

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait of a test. It is long because it is never waited
// for when all is well.
const patience = 60 * time.Second

// role makes the test binary another process: one that does what it says, tells
// it on stdout, and stays until its stdin ends.
const role = "REIN_TEST_ROLE"

// kept is what a role holds to its death: what is not reachable is collected,
// and its locks with it.
var kept []any

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		if err := play(os.Args[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(args []string) error {
	dir, arg := args[0], args[1:]
	s, err := Open(dir)
	if err != nil {
		return err
	}
	switch os.Getenv(role) {
	case "run": // holds a new run, with a child that outlives it
		r, err := s.Create(arg[0])
		if err != nil {
			return err
		}
		if err := r.WriteState(Running, map[string]string{"agent": "x"}); err != nil {
			return err
		}
		kept = append(kept, r)
		child := exec.Command(os.Args[0], dir)
		child.Env = append(os.Environ(), role+"=child")
		child.Stdin = os.Stdin
		if err := child.Start(); err != nil {
			return err
		}
	case "child":
	case "claim":
		r, err := s.Get(arg[0])
		if err != nil {
			return err
		}
		kept = append(kept, r)
		return r.Claim()
	case "lease":
		l, err := s.LeaseDir("ssh://box", arg[0], arg[1], arg[2] == "shared")
		kept = append(kept, l)
		return err
	case "listen":
		r, err := s.Create(arg[0])
		if err != nil {
			return err
		}
		l, err := r.Listen()
		kept = append(kept, r, l)
		return err
	case "create":
		for range 50 {
			r, err := s.Create(NewID(time.Now()))
			if err != nil {
				return err
			}
			fmt.Println(r.ID())
			r.Close()
		}
	}
	return nil
}

// other is another process.
type other struct {
	*exec.Cmd
	stdin io.Closer
	said  []string // before "ready"
	err   string   // instead of it
}

func start(t *testing.T, what string, args ...string) *other {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := &other{Cmd: exec.Command(exe, args...)}
	o.Env = append(os.Environ(), role+"="+what)
	stdin, err := o.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.stdin = stdin
	out, err := o.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		o.Process.Kill()
		o.Wait()
	})
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if sc.Text() == "ready" {
			return o
		}
		if msg, ok := strings.CutPrefix(sc.Text(), "error: "); ok {
			o.err = msg
			return o
		}
		o.said = append(o.said, sc.Text())
	}
	t.Fatalf("%s %q said nothing", what, args)
	return nil
}

// kill ends it as the kernel does when memory is short.
func (o *other) kill(t *testing.T) {
	t.Helper()
	if err := o.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	o.Process.Wait()
}

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, s *Store, id string) *Run {
	t.Helper()
	r, err := s.Create(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
