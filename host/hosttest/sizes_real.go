//go:build real

package hosttest

// sizes: see the file without the build tag. 80 MB is the longest line that an
// agent has been seen to write.
var sizes = struct {
	stream  int64
	line    int64
	duplex  int64
	tree    int
	churned int
}{
	stream:  1 << 30,
	line:    80 << 20,
	duplex:  64 << 20,
	tree:    500,
	churned: 20000,
}
