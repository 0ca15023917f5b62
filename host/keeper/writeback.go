package keeper

import (
	"os"
	"sync/atomic"
)

// writeback sends a flood to the disk while it comes. The kernel would keep it
// for 30 s, and the sync at the end would wait for all of it at once.
type writeback struct {
	file  *os.File
	begun int64 // up to here
	busy  atomic.Bool
}

// worthwhile is how many bytes are sent together. Less than that waits for the
// sync: few agents say as much in all their life.
const worthwhile = 32 << 20

// reached says that the file holds its first n bytes. It does not block: the
// disk may, and holds nobody back but the next piece.
func (w *writeback) reached(n int64) {
	if n-w.begun < worthwhile || !w.busy.CompareAndSwap(false, true) {
		return
	}
	at := w.begun
	w.begun = n
	go func() {
		defer w.busy.Store(false)
		startWriting(w.file, at, n-at)
	}()
}
