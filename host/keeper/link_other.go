//go:build !unix

package keeper

import (
	"fmt"
	"os"
)

const linkVerb = "link"

func linkMain(_, _ []string, _, _, stderr *os.File) int {
	fmt.Fprintln(stderr, "rein keeper link: there is no such thing on this system: a link ends at a unix host")
	return 2
}
