// Package bench measures Rein against the same work done without it, in one
// run, interleaved. docs/benchmarks.md holds the numbers and the command.
package bench
