//go:build !real

package hosttest

// sizes are the amounts that the kit moves. The fast loop has two cores and a
// few seconds; build tag real has the amounts that agents are known to reach.
var sizes = struct {
	stream  int64 // one byte-compared stream
	line    int64 // one line without a newline in it
	duplex  int64 // in and out at the same time
	tree    int   // processes of the large tree
	churned int   // short children that pass through while the tree is killed
}{
	stream:  16 << 20,
	line:    8 << 20,
	duplex:  5 << 20,
	tree:    60,
	churned: 400,
}
