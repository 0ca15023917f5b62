package keeper

import "io"

// Pipe returns the two ends of a stream in memory, for a keeper that is served
// by a goroutine of its client's process. Closing either end ends both.
func Pipe() (client, server io.ReadWriteCloser) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return &memConn{r1, w2}, &memConn{r2, w1}
}

type memConn struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func (c *memConn) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c *memConn) Write(p []byte) (int, error) { return c.w.Write(p) }

func (c *memConn) Close() error {
	c.r.Close()
	c.w.Close()
	return nil
}
