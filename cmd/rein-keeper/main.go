// Command rein-keeper is the keeper alone: small and static, to be copied to
// other hosts.
package main

import (
	"os"

	"github.com/rein-run/rein/guard/sandbox/inside"
	"github.com/rein-run/rein/host/keeper"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == inside.Verb {
		os.Exit(inside.Run(os.Args[2:], os.Stderr))
	}
	os.Exit(keeper.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
