package hosttest

import (
	"os"
	"testing"

	"github.com/rein-run/rein/host/hosttest/far"
)

func TestMain(m *testing.M) {
	Main()
	far.Main()
	os.Exit(m.Run())
}
