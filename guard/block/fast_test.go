//go:build !real

package block_test

// every says whether every script of the tables runs: with the tag real.
const every = false
