package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// ClientOptions say what a client may ask of its keeper.
type ClientOptions struct {
	// LocalSpool says that the keeper's spool lies on this machine: an Output
	// that is a driver.SpoolOutput reads the files itself.
	LocalSpool bool
	// RequireContainment refuses a start when only the marker would hold the
	// tree.
	RequireContainment bool
}

// Start asks the keeper at the other end of conn to start a command, and
// returns when it has, or has refused to. conn is closed with the process, or
// before Start returns an error; the keeper then ends whatever it started. ctx
// bounds the call only. The Process also has the method
//
//	Extend(ctx context.Context, ttl time.Duration) error
//
// which sets Spec.TTL anew, from now.
func Start(ctx context.Context, conn io.ReadWriteCloser, spec *driver.Spec, out driver.Output, o *ClientOptions) (driver.Process, error) {
	if o == nil {
		o = &ClientOptions{}
	}
	p := &process{conn: conn, out: out, duplex: spec.Duplex}
	if so, ok := out.(driver.SpoolOutput); ok && o.LocalSpool {
		p.spoolOut = so
	}
	p.wake.L = &p.mu
	p.ended, p.done = make(chan struct{}), make(chan struct{})
	p.moved, p.writing = make(chan struct{}), make(chan struct{}, 1)
	p.answers = make(map[uint32]chan answerMsg)
	p.box = newOutbox(conn, p.acks)
	p.box.frame(kStart, versionByte, encode(newStartMsg(spec, o, p.spoolOut != nil)))
	go p.box.run()

	give := func(err error) (driver.Process, error) {
		p.box.fail(err)
		conn.Close()
		<-p.box.done
		return nil, err
	}
	if spec.Input != nil {
		return give(errors.New("keeper: Spec.Input is for package host to pump"))
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	k, b, err := first(ctx, conn, r)
	if err != nil {
		return give(err)
	}
	var s startedMsg
	switch k {
	case kRefused:
		return give(refused(b))
	case kStarted:
		err = decodeFirst(b, &s)
	default:
		err = fmt.Errorf("%w: the first frame is %q", errFrame, byte(k))
	}
	if err != nil {
		return give(err)
	}
	p.containment = s.Containment
	if !s.Spooled {
		p.spoolOut = nil
	} else {
		p.files = [2]string{s.Stdout, s.Stderr}
	}
	go p.read(r)
	go p.deliver()
	return p, nil
}

// Look asks the keeper at the other end of conn what its environment is, and
// where name resolves in it. It closes conn. ctx bounds the call.
func Look(ctx context.Context, conn io.ReadWriteCloser, name string, env driver.Env) (*driver.Place, error) {
	defer conn.Close()
	unblock := context.AfterFunc(ctx, func() { conn.Close() })
	_, err := conn.Write(appendFrame(nil, kLook, versionByte, encode(&lookMsg{Name: []byte(name), Env: envMsgs(env)})))
	unblock()
	if err != nil {
		return nil, cause(ctx, err)
	}
	k, b, err := first(ctx, conn, bufio.NewReader(conn))
	if err != nil {
		return nil, err
	}
	p := new(driver.Place)
	switch k {
	case kRefused:
		return nil, refused(b)
	case kPlace:
		return p, decodeFirst(b, p)
	}
	return nil, fmt.Errorf("%w: the answer is %q", errFrame, byte(k))
}

// first reads the first frame of the keeper. When ctx ends, conn is closed.
func first(ctx context.Context, conn io.Closer, r *bufio.Reader) (kind, []byte, error) {
	unblock := context.AfterFunc(ctx, func() { conn.Close() })
	k, b, err := readFrame(r)
	if !unblock() {
		return 0, nil, cause(ctx, err)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("the keeper has not answered: %w", err)
	}
	return k, b, nil
}

func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func refused(b []byte) error {
	var m refusedMsg
	if err := decodeFirst(b, &m); err != nil {
		return err
	}
	return m.err()
}

// process is the client's side of one command. Three goroutines: read takes
// frames and never blocks on the Output; deliver gives them to the Output; the
// outbox writes.
type process struct {
	conn        io.ReadWriteCloser
	out         driver.Output
	spoolOut    driver.SpoolOutput // nil: bytes come in frames
	files       [2]string
	box         *outbox
	duplex      bool
	containment driver.Containment

	ended   chan struct{} // the keeper has said how it ended, or is lost
	done    chan struct{} // and all output was delivered
	writing chan struct{} // held by the one Write at work

	mu        sync.Mutex
	wake      sync.Cond // for deliver
	queue     []piece   // data in the order it came
	announced [2]int64  // in the spool
	got       [2]int64  // received
	given     [2]int64  // delivered to the Output
	paces     [2]pace   // of the announcements; for deliver alone
	acked     [2]int64  // of these, told to the keeper
	sample    *driver.Sample
	exit      *driver.Exit

	wrote, taken uint64        // bytes of stdin
	noStdin      bool          // closed, by whomever
	moved        chan struct{} // replaced when taken or noStdin changed

	seq     uint32
	answers map[uint32]chan answerMsg
	asking  int // questions that are being answered
	askSize int // and their bytes
}

type piece struct {
	s driver.Stream
	p []byte
}

// read obeys the keeper until the stream ends.
func (p *process) read(r *bufio.Reader) {
	err := p.obey(r)
	p.mu.Lock()
	if p.exit == nil {
		detail := "the keeper's stream closed before the command was over"
		if !errors.Is(err, io.EOF) {
			detail = "the keeper's stream broke: " + err.Error()
		}
		p.exit = &driver.Exit{Reason: driver.Lost, Detail: detail, Containment: p.containment}
		if p.spoolOut != nil {
			// What is in the files was written by the command, announced or not.
			for i, f := range p.files {
				if fi, err := os.Stat(f); err == nil {
					p.announced[i] = max(p.announced[i], fi.Size())
				}
			}
		}
	}
	p.noStdin = true
	p.changed()
	close(p.ended)
	p.wake.Broadcast()
	p.mu.Unlock()
	p.box.fail(driver.ErrClosed)
	p.conn.Close()
}

// changed wakes those who wait for credit; p.mu is held.
func (p *process) changed() {
	close(p.moved)
	p.moved = make(chan struct{})
}

// obey returns nil after the exit frame.
func (p *process) obey(r *bufio.Reader) error {
	for {
		k, b, err := readFrame(r)
		if err != nil {
			return err
		}
		if done, err := p.frame(k, b); done || err != nil {
			return err
		}
	}
}

func (p *process) frame(k kind, b []byte) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch k {
	case kData, kSpooled:
		s, off, data, err := parseOffset(b)
		if err != nil {
			return false, err
		}
		if k == kSpooled {
			if p.spoolOut == nil || off < p.announced[s] {
				return false, fmt.Errorf("%w: %s announced to %d", errFrame, s, off)
			}
			p.announced[s] = off
		} else {
			if p.spoolOut != nil || off != p.got[s] || p.got[s]-p.given[s] > window {
				return false, fmt.Errorf("%w: %s at offset %d", errFrame, s, off)
			}
			p.got[s] += int64(len(data))
			p.queue = append(p.queue, piece{s, data})
		}
		p.wake.Signal()
	case kCredit:
		n, err := parseUint64(b)
		if err != nil {
			return false, err
		}
		if n < p.taken || n > p.wrote {
			return false, fmt.Errorf("%w: %d bytes of stdin taken, %d were sent", errFrame, n, p.wrote)
		}
		p.taken = n
		p.changed()
	case kStdinClosed:
		p.noStdin = true
		p.changed()
	case kSample:
		s := new(driver.Sample)
		if err := decode(b, s); err != nil {
			return false, err
		}
		p.sample = s
		p.wake.Signal()
	case kAnswer:
		seq, b, err := parseSeq(b)
		if err != nil {
			return false, err
		}
		var m answerMsg
		if err := decode(b, &m); err != nil {
			return false, err
		}
		if ch := p.answers[seq]; ch != nil {
			delete(p.answers, seq)
			ch <- m
		}
	case kQuestion:
		seq, q, err := parseSeq(b)
		if err != nil {
			return false, err
		}
		if p.asking >= 2*maxAsking || p.askSize+len(q) > 2*maxQuestion {
			return false, fmt.Errorf("%w: more questions than a keeper may pass on", errFrame)
		}
		p.asking++
		p.askSize += len(q)
		go p.reply(seq, q)
	case kExit:
		e := new(driver.Exit)
		if err := decode(b, e); err != nil {
			return false, err
		}
		if p.spoolOut != nil {
			p.announced = [2]int64{e.Stdout, e.Stderr}
		}
		p.exit = e
		return true, nil
	default:
		return false, fmt.Errorf("%w: %q is no frame of a keeper", errFrame, byte(k))
	}
	return false, nil
}

// reply answers one question, on a goroutine of its own: an Output that is
// behind with the data must not keep a tool waiting.
func (p *process) reply(seq uint32, q []byte) {
	r := driver.Refuse("rein: nobody answers here")
	if a, ok := p.out.(driver.Asker); ok {
		r = a.Ask(q)
	}
	b := encode(r)
	if len(b) > maxReply-4 {
		b = encode(driver.Refuse("rein: the answer is too long"))
	}
	p.mu.Lock()
	p.asking--
	p.askSize -= len(q)
	p.mu.Unlock()
	p.box.frame(kReply, seqBytes(seq), b)
}

// deliver is the only one that calls the Output.
func (p *process) deliver() {
	defer close(p.done)
	sampler, _ := p.out.(driver.Sampler)
	if p.spoolOut != nil {
		p.spoolOut.Spool(p.files[0], p.files[1])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case len(p.queue) > 0:
			q := p.queue[0]
			p.queue[0] = piece{}
			if p.queue = p.queue[1:]; len(p.queue) == 0 {
				p.queue = nil
			}
			p.unlocked(func() { p.out.Data(q.s, q.p) })
			p.given[q.s] += int64(len(q.p))
			p.box.poke()
		case p.spoolOut != nil && p.announced[0] > p.given[0]:
			p.spooled(driver.Stdout)
		case p.spoolOut != nil && p.announced[1] > p.given[1]:
			p.spooled(driver.Stderr)
		case p.sample != nil:
			s := *p.sample
			p.sample = nil
			if sampler != nil {
				p.unlocked(func() { sampler.Sample(s) })
			}
		case p.exit != nil:
			if p.exit.Reason == driver.Lost {
				p.exit.Stdout, p.exit.Stderr = p.given[0], p.given[1]
				p.exit.Detail += fmt.Sprintf("; %d bytes of stdout and %d of stderr had come", p.given[0], p.given[1])
			}
			return
		default:
			p.wake.Wait()
		}
	}
}

func (p *process) spooled(s driver.Stream) {
	n := p.announced[s]
	p.unlocked(func() {
		p.spoolOut.Spooled(s, n)
		// The next announcement comes with the answer to this one. In a flood it
		// is worth a moment: what comes meanwhile is announced together.
		p.paces[s].moved(int(n - p.given[s]))
	})
	p.given[s] = n
	p.box.poke()
}

func (p *process) unlocked(f func()) {
	p.mu.Unlock()
	defer p.mu.Lock()
	f()
}

// acks is what the outbox writes when no control frame waits.
func (p *process) acks(b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.given {
		if p.given[s] > p.acked[s] {
			p.acked[s] = p.given[s]
			b = appendOffset(b, kAck, driver.Stream(s), p.given[s])
		}
	}
	return b
}

func (p *process) Write(ctx context.Context, b []byte) error {
	if err := p.lockStdin(ctx); err != nil {
		return err
	}
	defer func() { <-p.writing }()
	for first := true; first || len(b) > 0; first = false {
		part := b[:min(len(b), chunk)]
		b = b[len(part):]
		if err := p.spend(ctx, len(part)); err != nil {
			return err
		}
		if len(part) > 0 {
			p.box.frame(kStdin, part)
		}
	}
	return nil
}

func (p *process) lockStdin(ctx context.Context) error {
	select {
	case p.writing <- struct{}{}:
		return nil
	case <-p.ended:
		return driver.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spend waits until n more bytes may be on their way.
func (p *process) spend(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		switch {
		case !p.duplex || p.noStdin:
			p.mu.Unlock()
			return driver.ErrClosed
		case p.wrote+uint64(n)-p.taken <= credit:
			p.wrote += uint64(n)
			p.mu.Unlock()
			return nil
		}
		moved := p.moved
		p.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *process) CloseStdin(ctx context.Context) error {
	if err := p.lockStdin(ctx); err != nil {
		if errors.Is(err, driver.ErrClosed) {
			return nil
		}
		return err
	}
	defer func() { <-p.writing }()
	p.mu.Lock()
	already := p.noStdin
	p.noStdin = true
	p.changed()
	p.mu.Unlock()
	if !already {
		p.box.frame(kCloseStdin)
	}
	return nil
}

func (p *process) Signal(ctx context.Context, sig driver.Signal) error {
	m, over, err := p.ask(ctx, kSignal, []byte(sig))
	switch {
	case err != nil:
		return err
	case over:
		return p.unverified()
	case m.Err != "":
		return errors.New(m.Err)
	}
	return nil
}

func (p *process) Kill(ctx context.Context) error {
	m, over, err := p.ask(ctx, kKill, nil)
	switch {
	case err != nil:
		return err
	case over:
		return p.unverified()
	case m.Err != "":
		return errors.New(m.Err)
	case len(m.Survivors) > 0:
		return fmt.Errorf("%d processes could not be ended, the first is %d (%q)",
			len(m.Survivors), m.Survivors[0].PID, m.Survivors[0].Name)
	}
	return nil
}

// unverified says that a keeper which is lost cannot vouch for anybody.
func (p *process) unverified() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit.Reason == driver.Lost {
		return errors.New(p.exit.Detail)
	}
	return nil
}

// Extend sets the time to live anew, from now.
func (p *process) Extend(_ context.Context, ttl time.Duration) error {
	if closed(p.ended) {
		return driver.ErrClosed
	}
	p.box.frame(kExtend, appendUint64(nil, kExtend, uint64(ttl))[5:])
	return nil
}

// ask sends a request and waits for its answer; over says that the command's
// end came first.
func (p *process) ask(ctx context.Context, k kind, b []byte) (m answerMsg, over bool, err error) {
	if closed(p.ended) {
		return m, true, nil
	}
	ch := make(chan answerMsg, 1)
	p.mu.Lock()
	p.seq++
	seq := p.seq
	p.answers[seq] = ch
	p.mu.Unlock()
	p.box.frame(k, seqBytes(seq), b)
	select {
	case m = <-ch:
		return m, false, nil
	case <-p.ended:
		return m, true, nil
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.answers, seq)
		p.mu.Unlock()
		return m, false, context.Cause(ctx)
	}
}

func (p *process) Wait(ctx context.Context) (driver.Exit, error) {
	select {
	case <-p.done: // an end that has come beats a context that has ended
		return *p.exit, nil
	default:
	}
	select {
	case <-p.done:
		return *p.exit, nil
	case <-ctx.Done():
		return driver.Exit{}, context.Cause(ctx)
	}
}
