package rein

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"math/rand/v2"
	"testing"
)

func TestSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 1000, sumBuffer - 1, sumBuffer, sumBuffer + 1, 7*sumBuffer + 13} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		var s sum
		for rest := data; len(rest) > 0; {
			room := s.room()
			n := min(len(rest), len(room), 1+rng.IntN(sumBuffer))
			copy(room, rest[:n])
			s.took(n)
			if !bytes.Equal(room[:n], rest[:n]) {
				t.Fatal("the bytes changed while they could be read")
			}
			rest = rest[n:]
		}
		want := sha256.Sum256(data)
		for range 2 {
			if got := s.end(); got != hex.EncodeToString(want[:]) {
				t.Errorf("%d bytes: %s", size, got)
			}
		}
	}
}

// stuck is a hash that has no time.
type stuck struct {
	hash.Hash
	gate chan struct{}
}

func (h stuck) Write(p []byte) (int, error) {
	<-h.gate
	return h.Hash.Write(p)
}

// When the hash is behind, the reading waits: memory is bounded.
func TestSumIsBounded(t *testing.T) {
	gate := make(chan struct{})
	s := sum{hash: stuck{sha256.New(), gate}}
	for range sumBuffers {
		s.took(len(s.room()))
	}
	more := make(chan int)
	go func() { more <- len(s.room()) }()
	select {
	case <-more:
		t.Fatal("there is room although nothing was hashed")
	case gate <- struct{}{}: // the first buffer
	}
	if n := <-more; n != sumBuffer || s.made != sumBuffers {
		t.Errorf("%d bytes of room, %d buffers", n, s.made)
	}
	close(gate)
	want := sha256.Sum256(make([]byte, sumBuffers*sumBuffer))
	if got := s.end(); got != hex.EncodeToString(want[:]) {
		t.Error("the hash is", got)
	}
}
