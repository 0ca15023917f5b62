package git

import (
	"context"
	"os"
	"path/filepath"
	"slices"
)

// Nested finds repositories below the working tree top that have a .git folder
// of their own: neither submodules nor linked working trees, whose .git is a
// file. cut says that it did not look everywhere.
type Nested func(ctx context.Context, top string) (paths []string, cut bool)

// maxFolders and maxDepth bound what Nested reads: an answer within some
// milliseconds is worth more than one about every corner of a monorepo.
const (
	maxFolders = 256
	maxDepth   = 3
)

// LocalNested is Nested for this machine. It follows no links.
func LocalNested(ctx context.Context, top string) (paths []string, cut bool) {
	type folder struct {
		path  string
		depth int
	}
	queue := []folder{{top, 0}}
	for n := 0; len(queue) > 0; n++ {
		if n == maxFolders || ctx.Err() != nil {
			return paths, true
		}
		at := queue[0]
		queue = queue[1:]
		d, err := os.Open(at.path)
		if err != nil {
			continue
		}
		ents, err := d.ReadDir(4096)
		d.Close()
		cut = cut || err == nil && len(ents) == 4096
		if at.depth > 0 && slices.ContainsFunc(ents, func(e os.DirEntry) bool { return e.Name() == ".git" && e.IsDir() }) {
			paths = append(paths, at.path)
			continue
		}
		for _, e := range ents {
			if !e.IsDir() || e.Name() == ".git" || e.Name() == "node_modules" {
				continue
			}
			if at.depth == maxDepth {
				cut = true
				continue
			}
			queue = append(queue, folder{filepath.ToSlash(filepath.Join(at.path, e.Name())), at.depth + 1})
		}
	}
	return paths, cut
}
