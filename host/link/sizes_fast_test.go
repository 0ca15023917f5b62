//go:build !real

package link

// sizes are small here: the fast loop has two cores and a few seconds.
var sizes = struct{ seeds, stream, cuts int }{seeds: 6, stream: 10 << 20, cuts: 10}
