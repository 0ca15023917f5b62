package store

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocket(t *testing.T) {
	for name, dir := range map[string]string{
		"short": t.TempDir(),
		"long":  filepath.Join(t.TempDir(), strings.Repeat("d", 100), strings.Repeat("e", 100)),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(dir)
			must(t, err)
			p := start(t, "listen", s.Dir, "a")
			if p.err != "" {
				t.Fatal(p.err)
			}
			r, err := s.Get("a")
			must(t, err)
			if _, err := r.Listen(); err == nil {
				t.Fatal("two listen on one socket")
			}
			p.kill(t)
			if c, err := r.Dial(t.Context()); err == nil {
				c.Close()
				t.Fatal("somebody answers")
			}
			l, err := r.Listen() // over what the dead one left
			must(t, err)
			defer l.Close()
			go func() {
				if c, err := l.Accept(); err == nil {
					io.Copy(c, c)
					c.Close()
				}
			}()
			c, err := r.Dial(t.Context())
			must(t, err)
			io.WriteString(c, "ping")
			b := make([]byte, 4)
			if _, err := io.ReadFull(c, b); err != nil || string(b) != "ping" {
				t.Errorf("%q, %v", b, err)
			}
			c.Close()
		})
	}
}
