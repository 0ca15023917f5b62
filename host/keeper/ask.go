package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/disk"
	"github.com/rein-run/rein/internal/unixsock"
)

const (
	// AskSocket is the name of the socket in driver.Ask.Dir.
	AskSocket = "ask"
	// askTime is how long one question may take, from the start of the program
	// that asks to its end. Then the answer is no.
	askTime = 30 * time.Second
	// maxAsking questions are under way at a time; more wait for their turn. It
	// bounds the memory that a hostile command can make a keeper hold.
	maxAsking = 16
	// largeQuestion is one of which only one is passed on at a time, for the same
	// reason at the client's end: together there are never 2 * maxQuestion bytes
	// on their way.
	largeQuestion = 1 << 20
	// maxAskFiles and their bytes travel in the start frame.
	maxAskFiles = 16
)

// asks is the socket on which programs of one command ask the client, through
// the keeper: the client may be on another machine, the keeper is beside the
// command. Whatever goes wrong, the answer is no; a program that gets none says
// no by itself (AskMain).
type asks struct {
	dir   string
	made  bool // dir is ours: it goes when the command does
	files []string
	l     net.Listener
	out   *outbox
	owner <-chan struct{} // closed when the client is gone
	top   []int           // who asks descends from one of these; nil: not checked

	life  context.Context // ends with the command
	over  context.CancelFunc
	conns sync.WaitGroup
	slots chan struct{}
	large chan struct{}

	mu      sync.Mutex
	seq     uint32
	waiting map[uint32]chan []byte
}

// openAsks makes the directory and the socket, and places the files. An error
// leaves nothing behind.
func openAsks(a *driver.Ask, out *outbox, owner <-chan struct{}) (_ *asks, err error) {
	if !filepath.IsAbs(a.Dir) {
		return nil, refuse(driver.ErrArgument, "the directory for questions is not absolute")
	}
	if len(a.Files) > maxAskFiles {
		return nil, refuse(driver.ErrArgument, fmt.Sprintf("%d files to place, %d are the most", len(a.Files), maxAskFiles))
	}
	s := &asks{
		dir: a.Dir, out: out, owner: owner,
		slots: make(chan struct{}, maxAsking), large: make(chan struct{}, 1), waiting: make(map[uint32]chan []byte),
	}
	defer func() {
		if err != nil {
			s.remove()
		}
	}()
	switch err := os.Mkdir(s.dir, 0o700); {
	case err == nil:
		s.made = true
	case !errors.Is(err, os.ErrExist):
		return nil, err
	}
	fi, err := os.Lstat(s.dir)
	if err != nil {
		return nil, err
	}
	if !disk.Private(fi) {
		return nil, fmt.Errorf("%s is not a directory of this user that is closed to others", s.dir)
	}
	for _, f := range a.Files {
		if err := s.place(f); err != nil {
			return nil, err
		}
	}
	if s.l, err = unixsock.Listen(s.dir, AskSocket); err != nil {
		return nil, err
	}
	s.life, s.over = context.WithCancel(context.Background())
	return s, nil
}

func (s *asks) place(f driver.File) error {
	if checkID(f.Name) != nil || f.Name == "" || f.Name == AskSocket {
		return refuse(driver.ErrArgument, fmt.Sprintf("%q cannot be the name of a file to place", f.Name))
	}
	name := filepath.Join(s.dir, f.Name)
	w, err := disk.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.files = append(s.files, name)
	_, err = w.Write(f.Data)
	return errors.Join(err, w.Close())
}

// remove undoes what openAsks did to the disk.
func (s *asks) remove() {
	if s.l != nil {
		_ = s.l.Close() // and unlinks the socket
	}
	for _, f := range s.files {
		_ = os.Remove(f)
	}
	if s.made {
		_ = os.Remove(s.dir)
	}
}

// serve accepts until close. Not more than can be answered: a command that
// connects again and again must not use up the descriptors with which the
// keeper finds and ends it. The others wait in the kernel's queue.
func (s *asks) serve() {
	for {
		select {
		case s.slots <- struct{}{}:
		case <-s.life.Done():
			return
		}
		conn, err := s.l.Accept()
		if err == nil {
			s.conns.Go(func() {
				defer func() { <-s.slots }()
				s.one(conn)
			})
			continue
		}
		<-s.slots
		if s.life.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		// No descriptor is left, say: who waits is refused by its own program.
		select {
		case <-time.After(50 * time.Millisecond):
		case <-s.life.Done():
			return
		}
	}
}

// close ends the questions that are under way, with no, and removes everything.
func (s *asks) close() {
	if s == nil {
		return
	}
	s.over()
	s.remove()
	s.conns.Wait() // nothing in one waits for longer than life
}

// one answers one question.
func (s *asks) one(conn net.Conn) {
	defer conn.Close()
	// The program has all of it when it connects: who dawdles keeps others out.
	_ = conn.SetDeadline(time.Now().Add(askTime / 3))
	unblock := context.AfterFunc(s.life, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer unblock()
	if err := mayAsk(conn, s.top); err != nil {
		s.reply(conn, driver.Refuse("rein: "+err.Error()))
		return
	}
	k, q, err := readFrame(bufio.NewReader(conn))
	if err != nil || k != kQuestion {
		s.reply(conn, driver.Refuse("rein: the question could not be read"))
		return
	}
	if len(q) > largeQuestion {
		select {
		case s.large <- struct{}{}:
			defer func() { <-s.large }()
		case <-s.life.Done():
			return
		}
	}
	s.reply(conn, s.ask(q))
}

func (s *asks) reply(conn net.Conn, r driver.Reply) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(appendFrame(nil, kReply, encode(r)))
}

// ask passes a question on and waits for the reply.
func (s *asks) ask(q []byte) driver.Reply {
	ch := make(chan []byte, 1)
	s.mu.Lock()
	s.seq++
	seq := s.seq
	s.waiting[seq] = ch
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, seq)
		s.mu.Unlock()
	}()
	s.out.frame(kQuestion, seqBytes(seq), q)
	t := time.NewTimer(askTime)
	defer t.Stop()
	select {
	case b := <-ch:
		var r driver.Reply
		if err := json.Unmarshal(b, &r); err != nil {
			return driver.Refuse("rein: the answer could not be read")
		}
		return r
	case <-s.owner:
		return driver.Refuse("rein: nobody supervises this run any more")
	case <-s.life.Done():
		return driver.Refuse("rein: the run is over")
	case <-t.C:
		return driver.Refuse("rein: no answer within " + askTime.String())
	}
}

// answered takes a reply of the client; one that nobody waits for any more is
// dropped.
func (s *asks) answered(seq uint32, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch := s.waiting[seq]; ch != nil {
		delete(s.waiting, seq)
		ch <- b
	}
}
