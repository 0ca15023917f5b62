package remote

import (
	"strings"
	"sync"

	"github.com/rein-run/rein/host/driver"
)

// said keeps the beginning of what a login shell prints on stdout.
type said struct {
	mu   sync.Mutex
	b    strings.Builder
	deaf bool
	full chan struct{} // closed when there was more
}

func (s *said) Data(stream driver.Stream, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stream != driver.Stdout || s.deaf {
		return
	}
	if s.b.Len()+len(p) > maxNoise+2*maxPath {
		s.deaf = true
		close(s.full)
		return
	}
	s.b.Write(p)
}

// forget: the answer is not to be believed.
func (s *said) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
	s.deaf = true
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
