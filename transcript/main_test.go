package transcript

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds every wait of a test. It is long because it is never waited
// for when all is well.
const patience = 60 * time.Second

func file(t *testing.T, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "transcript")
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func appendTo(t *testing.T, path, data string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(data); err != nil {
		t.Fatal(err)
	}
}
