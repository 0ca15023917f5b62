package link

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
)

// Key is what a transport must know to take up a link: 128 random bits. It is
// sent in the hello and never in an argv, and it does not print.
type Key [16]byte

func newKey() (k Key) {
	rand.Read(k[:]) // never fails: crypto/rand ends the process instead
	return k
}

func (k Key) equal(l Key) bool { return subtle.ConstantTimeCompare(k[:], l[:]) == 1 }

func (k Key) String() string { return "link.Key" }

// Format keeps every verb from printing the key.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// MarshalText keeps encodings from holding it.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
