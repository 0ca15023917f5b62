//go:build !real

package rein_test

// Small in the fast loop; `make test` takes the sizes of the other file.
const (
	killRounds    = 3 // SIGKILLs of the supervisor
	shortChildren = 50
	streamBytes   = 32 << 20
	longLine      = 20 << 20
	everyWay      = false // each case with every means, agent and host
)
