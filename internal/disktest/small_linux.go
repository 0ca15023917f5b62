package disktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const inside = "REIN_TEST_SMALL_DISK"

// Small runs body with a directory on a file system of size bytes. body runs in
// a second process of the test binary, which has mount points of its own, so
// that nothing stays mounted whatever happens. As another user than root it
// needs user namespaces, and skips, loudly, where they are forbidden.
func Small(t *testing.T, size int, body func(dir string)) {
	t.Helper()
	if dir := os.Getenv(inside); dir != "" {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
			t.Fatal("mount:", err)
		}
		body(dir)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), inside+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("a small file system cannot be mounted here: run as root, or allow user namespaces:", err)
	}
	if err != nil {
		t.Fatalf("on the small disk: %v\n%s", err, out)
	}
}
