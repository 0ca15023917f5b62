//go:build real

package real

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// isolate runs this test binary again in a network namespace of its own. ok is
// false where that is not possible.
func isolate() (code int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, false
	}
	runtime.LockOSThread() // Pdeathsig belongs to the thread that starts the child
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolated+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil { // no such right, in a container for example
		fmt.Fprintln(os.Stderr, "no network namespace:", err)
		return 0, false
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), true
	} else if err != nil {
		return 1, true
	}
	return 0, true
}

// loopbackUp brings lo up: a new namespace has it down.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// TestNothingLeaves: in the namespace there is no way out.
func TestNothingLeaves(t *testing.T) {
	if os.Getenv(isolated) == "" {
		t.Skip("no network namespace here: the CLIs have loopback addresses and a dead proxy")
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		t.Fatal(err)
	}
	devices, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	if n := lines(devices); n != 3 { // two of heading, and lo
		t.Errorf("more than loopback:\n%s", devices)
	}
	if n := lines(routes); n != 1 {
		t.Errorf("a way out:\n%s", routes)
	}
}

func lines(b []byte) (n int) {
	for _, c := range b {
		if c == '\n' {
			n++
		}
	}
	return n
}
