//go:build linux

package hosttest

import (
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
	os.Exit(m.Run())
}
