package transcript

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	for _, data := range []string{"", "abc", strings.Repeat("x", 1<<20)} {
		n, sha, err := Sum(file(t, data))
		s := sha256.Sum256([]byte(data))
		if err != nil || n != int64(len(data)) || sha != hex.EncodeToString(s[:]) {
			t.Errorf("%d bytes: %d, %s, %v", len(data), n, sha, err)
		}
	}
}

func TestTailOffset(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	texts := []string{"", "\n", "a", "a\n", "a\nb", "a\nb\n", "\n\n\n", strings.Repeat("y", 200_000) + "\nz"}
	for range 20 {
		// Lines of about the block size, so that newlines fall on its edges.
		var b strings.Builder
		for range rng.IntN(8) {
			b.WriteString(strings.Repeat("l", 65530+rng.IntN(12)))
			b.WriteByte('\n')
		}
		texts = append(texts, b.String(), b.String()+"tail")
	}
	for _, text := range texts {
		path := file(t, text)
		lines := bytes.SplitAfter([]byte(text), []byte("\n"))
		if len(lines[len(lines)-1]) == 0 {
			lines = lines[:len(lines)-1]
		}
		for n := -1; n <= len(lines)+1; n++ {
			want := int64(len(text))
			for i := range min(max(n, 0), len(lines)) {
				want -= int64(len(lines[len(lines)-1-i]))
			}
			if have, err := TailOffset(path, n); err != nil || have != want {
				t.Fatalf("last %d of %d lines: %d (%v), want %d", n, len(lines), have, err, want)
			}
		}
		os.Remove(path)
	}
}
