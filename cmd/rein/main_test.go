package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rein-run/rein/internal/fakeagent"
)

// TestMain lets the test binary be rein (and its keeper) and the agents. The
// children of a scripted agent come first: they are the same binary under
// another name.
func TestMain(m *testing.M) {
	agent := func() { os.Exit(fakeagent.Main()) }
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "fakeagent-child":
			agent()
		case "keeper":
			main()
		}
	}
	testscript.Main(m, map[string]func(){"rein": main, "claude": agent, "codex": agent, "pi": agent})
}

// TestScripts are what a user types, and what comes back.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
			e.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else a second at each exit under the race detector
			return os.MkdirAll(home, 0o700)
		},
	})
}
