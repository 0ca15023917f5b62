//go:build unix

package transcript

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rein-run/rein/internal/disk"
)

// The limit is of a process, so another one takes it.
func TestWriterFileSizeLimit(t *testing.T) {
	const inside = "REIN_TEST_LIMITED"
	if dir := os.Getenv(inside); dir != "" {
		lim := unix.Rlimit{Cur: 100_000, Max: 100_000}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &lim); err != nil {
			t.Fatal(err)
		}
		fill(t, dir, syscall.EFBIG, "ulimit -f")
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestWriterFileSizeLimit$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), inside+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A pipe in the place of a transcript is refused at once: it must not hang.
func TestPipeRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transcript")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Append(path); !errors.Is(err, disk.ErrIrregular) {
		t.Error("Append:", err)
	}
	if _, _, err := Sum(path); !errors.Is(err, disk.ErrIrregular) {
		t.Error("Sum:", err)
	}
	if _, err := Follow(t.Context(), path, nil).Read(make([]byte, 1)); !errors.Is(err, disk.ErrIrregular) {
		t.Error("Follow:", err)
	}
}
