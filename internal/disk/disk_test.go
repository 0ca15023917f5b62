package disk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x")
	for _, durable := range []bool{false, true} {
		for _, s := range []string{"one", "", "longer than one"} {
			if err := Replace(name, []byte(s), durable); err != nil {
				t.Fatal(err)
			}
			if b, err := ReadFile(name, 100); err != nil || string(b) != s {
				t.Fatalf("%q, %v", b, err)
			}
		}
	}
	// What a crash left is in nobody's way.
	os.WriteFile(name+".tmp", []byte("half"), 0o400)
	if err := Replace(name, []byte("new"), false); err != nil {
		t.Fatal(err)
	}
	if ents, _ := os.ReadDir(dir); len(ents) != 1 {
		t.Error("left:", ents)
	}
	if err := Replace(filepath.Join(dir, "none", "x"), nil, false); err == nil {
		t.Error("no such directory")
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x")
	os.WriteFile(name, []byte("12345"), 0o600)
	if _, err := ReadFile(name, 5); err != nil {
		t.Error(err)
	}
	if _, err := ReadFile(name, 4); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := ReadFile(dir, 100); err == nil {
		t.Error("a directory was read")
	}
}
