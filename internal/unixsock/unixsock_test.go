package unixsock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestListen(t *testing.T) {
	for name, dir := range map[string]string{
		"short": t.TempDir(),
		"long":  filepath.Join(t.TempDir(), strings.Repeat("d", 120)),
	} {
		t.Run(name, func(t *testing.T) {
			os.MkdirAll(dir, 0o700)
			fds := func() int { e, _ := os.ReadDir("/proc/self/fd"); return len(e) }
			if _, err := Dial(t.Context(), dir, "socket"); !errors.Is(err, fs.ErrNotExist) {
				t.Error("nobody listens:", err)
			}
			before := fds()
			for range 3 {
				l, err := Listen(dir, "socket")
				if err != nil {
					t.Fatal(err)
				}
				if st, err := os.Lstat(filepath.Join(dir, "socket")); runtime.GOOS == "linux" && (err != nil || st.Mode().Perm() != 0o600) {
					t.Error(st, err)
				}
				if _, err := Listen(dir, "socket"); !errors.Is(err, ErrInUse) {
					t.Error("in use:", err)
				}
				c, err := Dial(t.Context(), dir, "socket")
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
				l.Close()
				l.Close()
				if ents, _ := os.ReadDir(dir); len(ents) > 0 {
					t.Error("left:", ents)
				}
			}
			if n := fds(); n > before+1 {
				t.Errorf("%d descriptors, %d before", n, before)
			}
		})
	}
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "socket"), []byte("keep"), 0o600)
	if _, err := Listen(dir, "socket"); err == nil {
		t.Error("a file was replaced")
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "socket")); string(b) != "keep" {
		t.Errorf("%q", b)
	}
}

// The way of systems that cannot reach a long path.
func TestElsewhere(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	if _, err := elsewhere(dir, "socket", false); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	a, err := elsewhere(dir, "socket", true)
	if err != nil {
		t.Skip("the folder for temporary files has a long path itself:", err)
	}
	b, err := elsewhere(dir, "socket", false)
	if err != nil || b.path != a.path {
		t.Fatal(b, err)
	}
	// A listener that was killed is replaced in the same place.
	c, err := elsewhere(dir, "socket", true)
	if err != nil || c.path != a.path {
		t.Fatal(c, err)
	}
	if runtime.GOOS != "windows" {
		// A stranger's folder of that name is not ours.
		os.Chmod(filepath.Dir(a.path), 0o777)
		if _, err := elsewhere(dir, "socket", false); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		os.Chmod(filepath.Dir(a.path), 0o700)
	}
	c.forget()
	for _, d := range []string{dir, tmp} {
		if ents, _ := os.ReadDir(d); len(ents) > 0 {
			t.Error("left:", ents)
		}
	}
}
