package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// alphabet is Crockford's base 32 in lower case: its order is the order of the
// bytes, so that ids sort by time.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// NewID makes a run id: "r", 9 characters of milliseconds since 1970 (enough
// until the year 3084), 10 random ones: 50 bits within one millisecond, and
// Create refuses an id that is taken. Lower case letters and digits only and a
// letter first, because an id becomes a file name, a branch, a pod name and the
// session id of a CLI.
func NewID(now time.Time) string {
	var b [20]byte
	b[0] = 'r'
	ms := uint64(max(now.UnixMilli(), 0))
	for i := 9; i >= 1; i-- {
		b[i] = alphabet[ms&31]
		ms >>= 5
	}
	var r [8]byte
	rand.Read(r[:]) // never fails: crypto/rand crashes the program instead
	bits := binary.LittleEndian.Uint64(r[:])
	for i := 10; i < 20; i++ {
		b[i] = alphabet[bits&31]
		bits >>= 5
	}
	return string(b[:])
}

// ErrBadID is matched by what ValidID finds wrong.
var ErrBadID = errors.New("not usable as a run id")

// ValidID says whether an id that a person chose can be used: 1 to 64 ASCII
// letters, digits, '-', '_' and '.', with a letter or digit at both ends, and
// no name that means something else to a file system or to git.
func ValidID(id string) error {
	bad := func(why string) error { return fmt.Errorf("%q is %w: %s", clip(id), ErrBadID, why) }
	switch {
	case id == "":
		return bad("it is empty")
	case len(id) > 64:
		return bad("64 characters at most")
	}
	for _, c := range []byte(id) {
		if !isAlnum(c) && c != '-' && c != '_' && c != '.' {
			return bad("only letters, digits, '-', '_' and '.' may be in it")
		}
	}
	switch {
	case !isAlnum(id[0]) || !isAlnum(id[len(id)-1]):
		// A leading '-' is an option to every CLI, a leading '.' is hidden, a
		// trailing '.' is dropped by Windows.
		return bad("it must begin and end with a letter or digit")
	case strings.Contains(id, ".."):
		return bad("'..' may not be in it")
	case strings.HasSuffix(strings.ToLower(id), ".lock"):
		return bad("git refuses names that end in .lock")
	case isDevice(id):
		return bad("it is the name of a device on Windows")
	}
	return nil
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// isDevice knows CON, PRN, AUX, NUL, COM0-9 and LPT0-9, with any extension.
func isDevice(id string) bool {
	base, _, _ := strings.Cut(strings.ToLower(id), ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (base[:3] == "com" || base[:3] == "lpt") && '0' <= base[3] && base[3] <= '9'
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
