//go:build !real

package rein_test

// killRounds is small in the fast loop; `make test` does a hundred.
const killRounds = 3
