//go:build linux

package hosttest

import (
	"flag"
	"os"
	"testing"

	"github.com/rein-run/rein/host/hosttest/far"
)

func TestMain(m *testing.M) {
	Main()
	far.Main()
	if len(os.Args) > 1 && os.Args[1] == supervisorWord {
		os.Exit(supervise())
	}
	// Most of these tests wait for another process, or for a bound that is real
	// time. As many at a time as there are processors would stand in line for
	// nothing. -parallel beats it: flags are parsed in Run.
	flag.Set("test.parallel", "4")
	os.Exit(m.Run())
}
