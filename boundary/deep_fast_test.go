//go:build !real

package boundary

// deep runs every row of the tables. The fast loop runs one of each kind: a row
// is some forty git processes.
const deep = false
