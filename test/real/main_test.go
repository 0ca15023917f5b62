//go:build real

// Package real runs the real agent CLIs, at pinned versions, against the
// scripted model server on loopback.
package real

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/test/clis"
)

// TestMain installs the CLIs, and then runs the tests where nothing can leave
// the machine: in a network namespace that has only loopback, where that can
// be made (Linux, as root).
func TestMain(m *testing.M) {
	fakeagent.Reexec()
	if os.Getenv(mcpMark) != "" {
		os.Exit(mcpServer())
	}
	if os.Getenv(isolated) == "" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		for _, name := range clis.Names {
			if _, err := clis.Install(ctx, name); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		cancel()
		if code, ok := isolate(); ok {
			os.Exit(code)
		}
	}
	if os.Getenv(isolated) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "loopback:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// isolated marks the process that runs in its own network namespace.
const isolated = "REIN_TEST_ISOLATED"
