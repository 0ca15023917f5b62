//go:build !linux

package unixsock

import "path/filepath"

func addressOf(dir, name string, create bool) (address, error) {
	if path := filepath.Join(dir, name); len(path) <= maxPath {
		return direct(path), nil
	}
	return elsewhere(dir, name, create)
}
