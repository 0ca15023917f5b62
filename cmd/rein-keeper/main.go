// Command rein-keeper is the keeper alone: small and static, to be copied to
// other hosts.
package main

import (
	"os"

	"github.com/rein-run/rein/host/keeper"
)

func main() { os.Exit(keeper.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
