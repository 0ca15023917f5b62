// Command prog is the helper program of the conformance kit alone: a small
// static binary for hosts on which the test binary itself cannot run.
package main

import (
	"fmt"
	"os"

	"github.com/rein-run/rein/host/hosttest"
)

func main() {
	hosttest.Main()
	fmt.Fprintln(os.Stderr, "this program is started by the conformance kit of package hosttest only")
	os.Exit(2)
}
