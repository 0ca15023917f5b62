package rein

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/rein-run/rein/internal/disk"
)

// gateFile holds what a gate was asked, one JSON object a line. Its supervisor
// counts by itself; the file is for who finishes the report when that one died.
const gateFile = "gate.ndjson"

// maxGateFile is how much of it is read.
const maxGateFile = 256 << 20

// entry is one question of an agent's hook.
type entry struct {
	Allowed bool   `json:"allowed"`
	What    string `json:"what,omitempty"` // the call and why it was refused, redacted
}

// openBook makes the file. Without it the report of a run that lost its
// supervisor says that the numbers are not known.
func openBook(name string) io.WriteCloser {
	f, err := disk.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil
	}
	return f
}

// readBook fills in the gate of a run whose supervisor died, and the digest.
func readBook(name string, g Gate, d *digest) Gate {
	if !g.Armed {
		return g
	}
	b, err := disk.ReadFile(name, maxGateFile)
	if err != nil {
		g.Unknown = true
		return g
	}
	for line := range bytes.Lines(b) {
		var e entry
		if json.Unmarshal(line, &e) != nil {
			continue // the last one was not written to its end
		}
		g.Asked++
		if e.Allowed {
			continue
		}
		if g.Refused++; g.Refused <= maxRefusals {
			d.refused = append(d.refused, clip(e.What, maxEvidence))
		}
	}
	if more := g.Refused - maxRefusals; more > 0 {
		d.refused = append(d.refused, fmt.Sprintf("and %d more", more))
	}
	return g
}
