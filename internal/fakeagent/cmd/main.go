// Command cmd is the fake agent as a program of its own: build it as claude,
// codex or pi.
package main

import (
	"os"

	"github.com/rein-run/rein/internal/fakeagent"
)

func main() { os.Exit(fakeagent.Main()) }
