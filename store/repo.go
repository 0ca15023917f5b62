package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rein-run/rein/internal/disk"
)

// Peer is a run that works in a repository, or did. Several runs may be in one
// repository at once, each in its own working tree.
type Peer struct {
	ID     string    `json:"id"`
	Top    string    `json:"top"`    // its working tree
	Branch string    `json:"branch"` // that its HEAD was on at the start; "" when detached
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero while it works, and for ever when it died
	// Left is how it left its part of the repository, where it is over and that
	// was read: what is different later was done by somebody else.
	Left *Left `json:"left,omitempty"`
}

// Left is what belonged to a run as the check at its end saw it.
type Left struct {
	Head   string            `json:"head,omitempty"` // the branch that its working tree was on; "" when detached
	OID    string            `json:"oid,omitempty"`
	Gone   bool              `json:"gone,omitempty"` // the working tree is not there
	Tips   map[string]string `json:"tips"`           // branch, by its full name → object; "" where there is none
	Config map[string]string `json:"config"`         // branch → hash of its settings
}

// Membership is the record of a run in a repository. Keep it until Leave: the
// death of the process ends it, and so does the garbage collector.
type Membership struct {
	lock, record *os.File
	dir          string
	peer         Peer
}

// forget is how long the record of a run that has ended stays, while others come
// and go: longer than any run that it could have overlapped with.
const forget = 7 * 24 * time.Hour

func (s *Store) repoDir(host, common string) string {
	sum := sha256.Sum256([]byte("repository\x00" + host + "\x00" + common))
	return filepath.Join(s.leases(), hex.EncodeToString(sum[:16]))
}

// JoinRepo records that the run works in the repository whose common directory
// is common, on the named host. It excludes nobody.
func (s *Store) JoinRepo(host, common string, p Peer) (*Membership, error) {
	if err := ValidID(p.ID); err != nil {
		return nil, fmt.Errorf("store: repository: %w", err)
	}
	d := s.repoDir(host, common)
	for end := time.Now().Add(retryFor); ; time.Sleep(retryEvery) {
		l, err := takeLease(d, Holder{ID: p.ID, Since: p.Since, Shared: true})
		if err == nil {
			m := &Membership{lock: l.lock, record: l.record, dir: d, peer: p}
			if err = m.write(); err == nil {
				m.prune()
				return m, nil
			}
			l.Release()
		}
		if time.Now().After(end) || !errors.Is(err, errBusy) {
			return nil, fmt.Errorf("store: repository: %w", err)
		}
	}
}

func (m *Membership) write() error {
	b, err := json.Marshal(m.peer)
	if err == nil {
		if err = m.record.Truncate(0); err == nil {
			_, err = m.record.WriteAt(b, 0)
		}
	}
	return err
}

// Leave says that the run is over. Its record stays while other runs are in the
// repository, for they may ask what it did there. left is how it left its part,
// nil where nobody knows or something of the run may still be alive. It may be
// called again, and on nil.
func (m *Membership) Leave(left *Left) error {
	if m == nil || m.record == nil {
		return nil
	}
	m.peer.Until, m.peer.Left = time.Now(), left
	err := m.write()
	name := filepath.Join(m.dir, m.peer.ID+".json")
	if others, _ := peers(m.dir, m.peer.ID, m.peer.Until); len(others) == 0 {
		os.Remove(name)
	}
	release(m.record)
	release(m.lock)
	m.record, m.lock = nil, nil
	return err
}

// prune removes what is too old to matter to anybody.
func (m *Membership) prune() {
	ents, _ := os.ReadDir(m.dir)
	for _, e := range ents {
		name := filepath.Join(m.dir, e.Name())
		p, ok := readPeer(name)
		if !ok || p.ID == m.peer.ID {
			continue
		}
		if live, err := held(name); err == nil && !live && time.Since(p.Since) > forget && time.Since(p.Until) > forget {
			os.Remove(name)
		}
	}
}

// LeaveRepo says that a run is over whose process died without leaving. left is
// as for Leave.
func (s *Store) LeaveRepo(host, common, id string, left *Left) error {
	if err := ValidID(id); err != nil {
		return fmt.Errorf("store: repository: %w", err)
	}
	d := s.repoDir(host, common)
	name := filepath.Join(d, id+".json")
	p, ok := readPeer(name)
	if !ok {
		return nil // swept, or it never joined
	}
	f, err := acquire(name, false)
	if err != nil {
		return fmt.Errorf("store: repository: %w", err)
	}
	m := &Membership{record: f, dir: d, peer: p}
	m.peer.Until, m.peer.Left = time.Now(), left
	return errors.Join(m.write(), release(f))
}

// Peers names the runs other than self that were in the repository at some time
// since then. One that died without leaving counts as being there.
func (s *Store) Peers(host, common, self string, since time.Time) ([]Peer, error) {
	return peers(s.repoDir(host, common), self, since)
}

func peers(d, self string, since time.Time) ([]Peer, error) {
	ents, err := os.ReadDir(d)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: repository: %w", err)
	}
	var all []Peer
	for _, e := range ents {
		p, ok := readPeer(filepath.Join(d, e.Name()))
		if ok && p.ID != self && (p.Until.IsZero() || !p.Until.Before(since)) {
			all = append(all, p)
		}
	}
	return all, nil
}

func readPeer(name string) (p Peer, ok bool) {
	id, ok := strings.CutSuffix(filepath.Base(name), ".json")
	if !ok {
		return p, false
	}
	b, err := disk.ReadFile(name, 64<<10)
	if err != nil || json.Unmarshal(b, &p) != nil || p.ID != id {
		return p, false
	}
	return p, true
}
