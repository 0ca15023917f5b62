//go:build real

package link

var sizes = struct{ seeds, stream, cuts int }{seeds: 300, stream: 100 << 20, cuts: 50}
