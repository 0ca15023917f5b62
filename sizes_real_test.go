//go:build real

package rein_test

// The sizes of `make test`.
const (
	killRounds    = 100 // SIGKILLs of the supervisor
	shortChildren = 2000
	streamBytes   = 1 << 30
	longLine      = 80 << 20 // the longest that an agent was seen to write
	everyWay      = true     // each case with every means, agent and host
)
