//go:build !unix

package disk

import "io/fs"

// Ours: the profile directory is private by its access list.
func Ours(fs.FileInfo) bool { return true }

// Private says whether st is a directory.
func Private(st fs.FileInfo) bool { return st.IsDir() }
