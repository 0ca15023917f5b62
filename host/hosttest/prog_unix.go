//go:build unix

package hosttest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// readyPipe takes the descriptor over from the parent. It is closed on exec:
// else the children of this process would hold it open, and the parent waits.
func readyPipe() *os.File {
	fd, err := strconv.Atoi(os.Getenv(readyVar))
	if err != nil {
		// A child without environment is given it as descriptor 3 all the same.
		if len(os.Environ()) > 0 {
			return nil
		}
		fd = 3
	}
	os.Unsetenv(readyVar)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		return nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "ready")
}

func getwd() (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(b)
	if err != nil {
		return "", err
	}
	return string(b[:n-1]), nil
}

func stopSelf() error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	select {}
}

// dieBy dies of the signal itself, whatever the Go runtime does with it.
func dieBy(sig syscall.Signal) error {
	none := unix.Rlimit{}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &none)
	signal.Reset(sig)
	defaultAction(sig)
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		return err
	}
	select {}
}

// child starts a child of this program and returns when the child waits or is
// over.
func (p *program) child(flags string, steps []string) error {
	fl := strings.Split(flags, ",")
	if slices.Contains(fl, "double") {
		// The middle one starts the child and exits; the child outlives it.
		rest := strings.Join(slices.DeleteFunc(slices.Clone(fl), func(s string) bool { return s == "double" }), ",")
		steps = slices.Concat([]string{"child=" + rest, "{"}, steps, []string{"}"})
		fl = []string{"hold"}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command(self)
	cmd.Args = slices.Concat([]string{os.Args[0], word, p.mark}, steps)
	cmd.ExtraFiles = []*os.File{w} // descriptor 3
	cmd.Env = append(os.Environ(), readyVar+"=3")
	if slices.Contains(fl, "bare") {
		cmd.Env = []string{}
	}
	if slices.Contains(fl, "hold") || slices.Contains(fl, "holdout") {
		cmd.Stdout = os.Stdout
	}
	if slices.Contains(fl, "hold") || slices.Contains(fl, "holderr") {
		cmd.Stderr = os.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: slices.Contains(fl, "setsid")}
	if err := cmd.Start(); err != nil {
		w.Close()
		return err
	}
	w.Close()
	go cmd.Wait() // reap it
	_, err = io.Copy(io.Discard, r)
	return err
}

// churn's children wait. Ones that ended at once would be gone by themselves
// when a killer has missed them, and nobody would see that it did.
func (p *program) churn(n int) error {
	p.waiting()
	var brood []int
	for i := 0; n < 0 || i < n; i++ {
		pid, err := forkWaiting()
		switch {
		case err == nil:
			brood = append(brood, pid)
		case !errors.Is(err, syscall.EAGAIN):
			return err
		}
		if len(brood) > 8 {
			bury(brood[0])
			brood = append(brood[:0], brood[1:]...)
		}
	}
	for _, pid := range brood {
		bury(pid)
	}
	return nil
}

// bury ends a child of this process and reaps it.
func bury(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL) // our own, not yet waited for: the pid is its
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}
