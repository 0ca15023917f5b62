//go:build real

package boundary

const deep = true
