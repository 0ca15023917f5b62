package link

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// The same bytes over a unix socket, bare and below a link: the ratio is what
// the link costs.
func BenchmarkStream(b *testing.B) {
	const piece = 64<<10 + 14 // what a keeper writes
	move := func(b *testing.B, w io.Writer, r io.Reader) {
		b.SetBytes(piece)
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.CopyN(io.Discard, struct{ io.Reader }{r}, int64(b.N)*piece)
		}()
		p := make([]byte, piece)
		b.ResetTimer()
		for range b.N {
			if _, err := w.Write(p); err != nil {
				b.Error(err)
				break
			}
		}
		<-done
	}
	listen := func(b *testing.B) (net.Listener, func(context.Context) (io.ReadWriteCloser, error)) {
		l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
		if err != nil {
			b.Fatal(err)
		}
		return l, func(context.Context) (io.ReadWriteCloser, error) { return net.Dial("unix", l.Addr().String()) }
	}
	b.Run("bare", func(b *testing.B) {
		l, dial := listen(b)
		defer l.Close()
		near, err := dial(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		far, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		defer near.Close()
		defer far.Close()
		move(b, far, near)
	})
	b.Run("link", func(b *testing.B) {
		l, dial := listen(b)
		client, err := Dial(b.Context(), dial, nil)
		if err != nil {
			b.Fatal(err)
		}
		server := Serve(l, client.key, nil)
		move(b, server, client)
		client.Close()
		finished(b, client, server)
	})
}
