//go:build real

package rein_test

const killRounds = 100
