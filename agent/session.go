package agent

import (
	"crypto/sha256"
	"fmt"
)

// NewSessionID is an id for a new session of the run that has dir to itself, for
// CLIs that take a UUID and tell theirs in the last line alone, which a run that
// is stopped never has. Version 8 is that of one's own making (RFC 9562).
func NewSessionID(dir string) string {
	b := sha256.Sum256([]byte(dir))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
