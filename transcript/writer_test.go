package transcript

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rein-run/rein/internal/disk"
	"github.com/rein-run/rein/internal/disktest"
)

func TestWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transcript")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, s := range []string{"one\n", "", "\x00\xff\r\n", "no newline"} {
		n, err := w.Write([]byte(s))
		if n != len(s) || err != nil {
			t.Fatal(n, err)
		}
		all = append(all, s...)
		if w.Size() != int64(len(all)) {
			t.Fatalf("size %d after %d bytes", w.Size(), len(all))
		}
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); !bytes.Equal(b, all) {
		t.Errorf("%q, want %q", b, all)
	}
	if st, _ := os.Stat(path); runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Error("mode", st.Mode())
	}

	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a transcript was written over: %v", err)
	}
	w, err = Append(path)
	if err != nil {
		t.Fatal(err)
	}
	if w.Size() != int64(len(all)) {
		t.Error("size", w.Size())
	}
	w.Write([]byte("more"))
	w.Close()
	if b, _ := os.ReadFile(path); string(b) != string(all)+"more" {
		t.Errorf("%q", b)
	}
	var we *WriteError
	if _, err := w.Write([]byte("x")); !errors.As(err, &we) || !errors.Is(err, os.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
}

func TestWriterConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transcript")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			line := bytes.Repeat([]byte{byte('a' + i)}, 1000)
			for range 50 {
				w.Write(append(line, '\n'))
			}
		})
	}
	wg.Wait()
	w.Close()
	b, _ := os.ReadFile(path)
	if len(b) != 8*50*1001 || w.Size() != int64(len(b)) {
		t.Fatalf("%d bytes, Size %d", len(b), w.Size())
	}
	for line := range bytes.Lines(b) {
		if len(bytes.Trim(line, string(line[:1]))) != 1 {
			t.Fatalf("writes are mixed: %.80q", line)
		}
	}
}

func TestWriterLink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	os.WriteFile(target, []byte("keep"), 0o600)
	link := filepath.Join(dir, "transcript")
	if err := os.Symlink(target, link); err != nil {
		t.Skip("links cannot be made here:", err)
	}
	if _, err := Create(link); err == nil {
		t.Error("Create followed a link")
	}
	if _, err := Append(link); !errors.Is(err, disk.ErrIrregular) {
		t.Error("Append followed a link:", err)
	}
	if _, _, err := Sum(link); !errors.Is(err, disk.ErrIrregular) {
		t.Error("Sum followed a link:", err)
	}
	if b, _ := os.ReadFile(target); string(b) != "keep" {
		t.Errorf("the target was changed: %q", b)
	}
}

// A full disk leaves an intact prefix, and says how long it is.
func TestWriterFullDisk(t *testing.T) {
	disktest.Small(t, 1<<20, func(dir string) { fill(t, dir, syscall.ENOSPC, "free space") })
}

// fill writes until it fails.
func fill(t *testing.T, dir string, cause error, hint string) {
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 90_000), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "transcript")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var given []byte
	for i := 0; ; i++ {
		p := bytes.Repeat([]byte{byte('a' + i%26)}, 30_001)
		n, err := w.Write(p)
		given = append(given, p[:n]...)
		if w.Size() != int64(len(given)) {
			t.Fatalf("Size %d, %d were taken", w.Size(), len(given))
		}
		if err == nil {
			if len(given) > 16<<20 {
				t.Fatal("the disk is not small")
			}
			continue
		}
		var we *WriteError
		if !errors.Is(err, cause) || !errors.As(err, &we) || we.Size != w.Size() || !strings.Contains(err.Error(), hint) {
			t.Fatalf("error %v", err)
		}
		break
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b, given) {
		t.Fatalf("%d bytes are in the file, %d were taken (%v)", len(b), len(given), err)
	}

	// Room again: what comes now would stand behind a gap.
	os.Remove(ballast)
	if n, err := w.Write([]byte("later")); n != 0 || !errors.Is(err, cause) {
		t.Errorf("write after the failure: %d, %v", n, err)
	}
	w.Close()
}
