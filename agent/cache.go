package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/rein-run/rein/host/driver"
)

// Cache keeps the versions of executables in one JSON file, so that a run does
// not start a CLI twice. An executable that changes in size or time is asked
// anew. A file that is missing, corrupt or cannot be written costs a probe,
// never a run. It is safe for concurrent use, by several processes too: a
// write that is lost to another one costs a probe.
type Cache struct {
	file string
	mu   sync.Mutex
}

// NewCache makes a Cache in the named file. Its directory is made when the
// first version is kept, mode 0700; the file has mode 0600.
func NewCache(file string) *Cache { return &Cache{file: file} }

const (
	cacheMax     = 1 << 20 // bytes of the file
	cacheEntries = 512
)

func cacheKey(host, agent string, p *driver.Place) string {
	return fmt.Sprintf("%s|%s|%s|%d|%d", host, agent, p.Exe, p.Size, p.ModTime.UnixNano())
}

func (c *Cache) get(key string) (string, bool) {
	if c == nil || c.file == "" {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.load()[key]
	return v, ok && v != ""
}

// load returns what is in the file, and nothing when it is not a plain one.
func (c *Cache) load() map[string]string {
	info, err := os.Lstat(c.file)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(c.file)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, cacheMax))
	if err != nil {
		return nil
	}
	var m map[string]string
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	return m
}

func (c *Cache) put(key, version string) {
	if c == nil || c.file == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.load()
	if m == nil || len(m) >= cacheEntries { // old executables are never asked for again
		m = make(map[string]string)
	}
	m[key] = version
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return
	}
	dir := filepath.Dir(c.file)
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	// A new file that takes the old one's name: no reader sees half of it, and
	// a symlink that stands there is replaced, not followed.
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), c.file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
}
