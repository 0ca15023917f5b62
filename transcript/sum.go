package transcript

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/rein-run/rein/internal/disk"
)

// Sum is the number of bytes in the file and their SHA-256 in hexadecimal. What
// is appended meanwhile is not in it.
func Sum(path string) (n int64, sha string, err error) {
	f, err := disk.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	n, err = io.CopyBuffer(struct{ io.Writer }{h}, io.LimitReader(f, st.Size()), make([]byte, 256<<10))
	if err != nil {
		return n, "", err
	}
	return n, hex.EncodeToString(h.Sum(nil)), nil
}

// TailOffset is where the last n lines begin; the bytes behind the last newline
// count as a line. 0 when there are fewer lines, the size when n is 0 or less.
// It reads backwards and holds 64 KiB, however long the lines are.
func TailOffset(path string, n int) (int64, error) {
	f, err := disk.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := st.Size()
	if n <= 0 {
		return size, nil
	}
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		b := buf[:min(end, int64(len(buf)))]
		at := end - int64(len(b))
		if _, err := f.ReadAt(b, at); err != nil {
			return 0, err
		}
		if end == size {
			// The newline that ends the file ends its last line; it is not the
			// one before it.
			b = bytes.TrimSuffix(b, []byte("\n"))
		}
		for i := bytes.LastIndexByte(b, '\n'); i >= 0; i = bytes.LastIndexByte(b, '\n') {
			if n--; n == 0 {
				return at + int64(i) + 1, nil
			}
			b = b[:i]
		}
		end = at
	}
	return 0, nil
}
