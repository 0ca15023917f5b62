//go:build real

package block_test

const every = true
