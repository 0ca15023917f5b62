package keeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// ServeOptions say what Serve may do with the process that it runs in.
type ServeOptions struct {
	// Subreaper makes this process the one that orphans of the tree come back
	// to, and waits for every child it has. Only for a process that does
	// nothing else: a keeper. It is ignored where there is no such thing.
	Subreaper bool
	// Spool is the folder below which every command gets one of its own, named
	// by Spec.ID. "" means no spool: output is kept in memory, at most 4 MiB
	// per stream, until the client took it.
	Spool string
	// Self is the argv that starts this very program, for driver.Place.Keeper;
	// nil: it cannot be named.
	Self []string
}

const (
	// firstFrame bounds the wait for the client to say what it wants.
	firstFrame = time.Minute
	// linger bounds the wait for a client that is connected and takes none of
	// the output of a command that is long over.
	linger = 10 * time.Minute
	// syncWait bounds the wait for the disk before the end is told.
	syncWait = 2 * time.Second
)

var errGone = errors.New("the client was gone before the end could be told")

// Serve serves one command, or one Look, over conn, and closes conn. It returns
// when the command is over, its tree is proved to be gone, and the client has
// been told; or, when conn ends before that, once it has ended the tree by
// itself: terminate, Spec.Grace (2 s at most), kill. The end of ctx does the
// same. The error says why nothing, or not all, could be told to the client.
func Serve(ctx context.Context, conn io.ReadWriteCloser, o *ServeOptions) error {
	if o == nil {
		o = &ServeOptions{}
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 16<<10)

	// A peer that says nothing is given up: closing conn unblocks the read.
	silent := time.AfterFunc(firstFrame, func() { conn.Close() })
	cancelled := context.AfterFunc(ctx, func() { conn.Close() })
	k, p, err := readFrame(r)
	silent.Stop()
	cancelled()
	if err != nil {
		return fmt.Errorf("read the first frame: %w", err)
	}
	switch k {
	case kLook:
		return serveLook(conn, p, o)
	case kStart:
		return serveStart(ctx, conn, r, p, o)
	}
	return fmt.Errorf("%w: the first frame is %q", errFrame, byte(k))
}

func serveLook(conn io.Writer, p []byte, o *ServeOptions) error {
	var m lookMsg
	if err := decodeFirst(p, &m); err != nil {
		return err
	}
	place, err := look(string(m.Name), envOf(m.Env))
	if err == nil {
		place.Keeper, place.Private = o.Self, abs(os.TempDir())
		if o.Spool != "" {
			place.Private = abs(o.Spool)
		}
	}
	return reply(conn, kPlace, place, err)
}

// reply writes the one answer of a conversation that goes no further.
func reply(conn io.Writer, k kind, v any, err error) error {
	if err != nil {
		k, v = kRefused, newRefusedMsg(err)
	}
	_, werr := conn.Write(appendFrame(nil, k, versionByte, encode(v)))
	return werr
}

func serveStart(ctx context.Context, conn io.ReadWriteCloser, r *bufio.Reader, p []byte, o *ServeOptions) error {
	var m startMsg
	if err := decodeFirst(p, &m); err != nil {
		return err
	}
	c, err := begin(&m, conn, o)
	if err != nil {
		return reply(conn, kRefused, nil, err)
	}
	// From here on the tree is ours, and every way out goes through run.
	done := make(chan struct{})
	writer := make(chan struct{})
	go func() { // a write error means the same as the end of the stream
		defer close(writer)
		c.out.run()
		if c.out.broken() {
			c.abandon("the owner's stream broke")
		}
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if !c.spec.Helper {
			c.usage.watch(done)
		}
	}()
	go c.in.pump()
	go c.listen(r)
	if c.asks != nil {
		go c.asks.serve()
	}
	for _, s := range c.outs {
		go s.pump()
	}
	unwatch := context.AfterFunc(ctx, func() {
		why := context.Cause(ctx).Error()
		c.stop(&stopReason{detail: why, grace: orphanGrace})
		// The client may be there to be told, but has only so long to take it.
		time.AfterFunc(2*orphanGrace, func() { c.abandon(why) })
	})

	exit := c.run()
	close(done)
	<-watched
	unwatch()
	c.close(&exit)

	c.out.last(c.allSent, kExit, encode(exit))
	c.awaitWritten(writer)
	conn.Close() // unblocks the writer, if it is blocked, and listen
	<-writer
	c.spool.close()
	if c.out.broken() {
		return errGone
	}
	return nil
}

func (c *command) allSent() bool { return c.outs[0].allSent() && c.outs[1].allSent() }

// awaitWritten waits until the client was sent everything, is gone, or has not
// taken anything for linger.
func (c *command) awaitWritten(writer <-chan struct{}) {
	tick := time.NewTicker(linger / 10)
	defer tick.Stop()
	var last int64 = -1
	for still := 0; still < 10; still++ {
		select {
		case <-writer:
			return
		case <-c.orphan:
			c.out.fail(errGone)
			return
		case <-tick.C:
		}
		if now := c.outs[0].delivered() + c.outs[1].delivered(); now != last {
			last, still = now, 0
		}
	}
	c.out.fail(errGone)
}

// begin starts the command. An error leaves nothing behind.
func begin(m *startMsg, conn io.Writer, o *ServeOptions) (*command, error) {
	spec := m.spec()
	l, err := newLaunch(spec, os.Environ())
	if err != nil {
		return nil, err
	}
	c := &command{
		spec: spec, urgent: make(chan struct{}), orphan: make(chan struct{}), extend: make(chan time.Duration, 1),
	}
	var undo []func()
	defer func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}()

	adopt := o.Subreaper && (spec.Containment == "" || spec.Containment == driver.ByCgroup || spec.Containment == driver.ByKeeper)
	if adopt && proctree.SetSubreaper() != nil {
		adopt = false
	}
	c.how = driver.ByMarker
	if adopt {
		c.how = driver.ByKeeper
	}
	if !spec.Helper && spec.ID != "" && (spec.Containment == "" || spec.Containment == driver.ByCgroup) {
		if g, gerr := proctree.NewCgroup(cgroupName(spec.ID)); gerr == nil {
			l.cgroup, c.how = g, driver.ByCgroup
			undo = append(undo, func() { _ = g.Remove(); g.Close() })
		} else if spec.Containment == driver.ByCgroup {
			return nil, refuse(driver.ErrContainment, "cgroup: "+gerr.Error())
		}
	}
	if m.Require && c.how == driver.ByMarker {
		return nil, refuse(driver.ErrContainment, "no cgroup can be made and no keeper holds the tree: only the marker would; name a keeper, or do without the requirement")
	}

	if o.Spool != "" && spec.ID != "" && !spec.Helper {
		if c.spool, err = openSpool(o.Spool, spec.ID); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		undo = append(undo, c.spool.undo)
	}
	ends, err := c.pipes(l, conn)
	if err != nil {
		return nil, err
	}
	undo = append(undo, ends.closeOurs)
	if spec.Ask != nil {
		if c.asks, err = openAsks(spec.Ask, c.out, c.orphan); err != nil {
			return nil, fmt.Errorf("listen for questions: %w", err)
		}
		undo = append(undo, c.asks.close)
	}
	if spec.Folder != nil {
		if c.folder, err = placeFolder(spec.Folder); err != nil {
			return nil, fmt.Errorf("place files: %w", err)
		}
		undo = append(undo, c.folder.remove)
	}
	if c.lead, err = l.start(adopt); err != nil && l.cgroup != nil && spec.Containment == "" {
		// The kernel may refuse clone3(2) into the cgroup (a seccomp filter, a
		// frozen or a full one): what is left is still a keeper's.
		ferr := l.refusal(err)
		var nf *driver.NotFoundError
		if !errors.As(ferr, &nf) && !errors.Is(ferr, driver.ErrArgument) && (!m.Require || adopt) {
			_ = l.cgroup.Remove()
			l.cgroup, c.how = nil, driver.ByMarker
			if adopt {
				c.how = driver.ByKeeper
			}
			c.lead, err = l.start(adopt)
		}
	}
	ends.closeTheirs()
	if err != nil {
		return nil, l.refusal(err)
	}
	undo = nil

	c.tree = &proctree.Tree{Leader: c.lead.proc, Cgroup: l.cgroup, Marker: l.mark}
	if adopt {
		c.tree.Root = os.Getpid()
	}
	if c.asks != nil {
		c.asks.top = []int{c.lead.proc.PID, os.Getpid()}
	}
	c.usage = &usage{tree: c.tree, out: c.out}
	c.record(l)

	started := &startedMsg{PID: c.lead.proc.PID, Containment: c.how, Spooled: m.Announce && c.spool != nil}
	if started.Spooled {
		started.Stdout, started.Stderr = c.spool.paths()
		started.Stdout, started.Stderr = abs(started.Stdout), abs(started.Stderr)
		c.outs[0].announce, c.outs[1].announce = true, true
	}
	c.out.frame(kStarted, versionByte, encode(started))
	return c, nil
}

func abs(p string) string {
	if a, err := filepath.Abs(p); err == nil {
		return a
	}
	return p
}

// cgroupName keeps two keepers from meeting in one cgroup when a caller gives
// an id twice: the second could not tell its processes from the first's.
func cgroupName(id string) string { return fmt.Sprintf("%s.%d", id, os.Getpid()) }

// pipeEnds are the descriptors of a start.
type pipeEnds struct{ ours, theirs []*os.File }

func (e *pipeEnds) closeOurs()   { closeAll(e.ours) }
func (e *pipeEnds) closeTheirs() { closeAll(e.theirs) }

func closeAll(fs []*os.File) {
	for _, f := range fs {
		f.Close()
	}
}

// pipes makes the three streams and gives the command its ends.
func (c *command) pipes(l *launch, conn io.Writer) (*pipeEnds, error) {
	c.out = newOutbox(conn, c.next)
	e := new(pipeEnds)
	pipe := func(weRead, large bool) (ours, theirs *os.File, err error) {
		if ours, theirs, err = newPipe(weRead, large); err == nil {
			e.ours, e.theirs = append(e.ours, ours), append(e.theirs, theirs)
		}
		return ours, theirs, err
	}
	fail := func(err error) (*pipeEnds, error) {
		e.closeOurs()
		e.closeTheirs()
		return nil, err
	}
	var in, out, errs *os.File
	var err error
	if c.spec.Duplex {
		in, l.stdin, err = pipe(false, false)
	} else if l.stdin, err = os.Open(os.DevNull); err == nil {
		e.theirs = append(e.theirs, l.stdin)
	}
	if err != nil {
		return fail(err)
	}
	if out, l.stdout, err = pipe(true, !c.spec.Helper); err != nil {
		return fail(err)
	}
	if c.spec.MergeStderr {
		l.stderr = l.stdout // one pipe, one order
	} else if errs, l.stderr, err = pipe(true, false); err != nil {
		return fail(err)
	}
	c.in = newStdin(in, c.out)
	for i, f := range []*os.File{out, errs} {
		id := driver.Stream(i)
		var pipe *source
		if f != nil {
			if pipe, err = newSource(f); err != nil {
				return fail(err)
			}
			e.ours = append(e.ours, pipe.files()...)
		}
		s := newStream(id, pipe, c.spool.file(id))
		s.out, s.failed = c.out, c.spoolFailed
		c.outs[i] = s
	}
	return e, nil
}

// next is what the outbox writes when no control frame waits.
func (c *command) next(b []byte) []byte {
	b = c.usage.next(c.in.next(b))
	for _, s := range c.outs {
		b = s.next(b)
	}
	return b
}

// record writes the record, and keeps it up to date.
func (c *command) record(l *launch) {
	if c.spool == nil {
		return
	}
	self, _ := proctree.Read(os.Getpid())
	rec := &Record{
		BootID: proctree.BootID(), Marker: l.mark, Containment: c.how, Started: time.Now(),
		Keeper: procs([]proctree.Proc{self})[0], Leader: procs([]proctree.Proc{c.lead.proc})[0],
	}
	if l.cgroup != nil {
		rec.Cgroup = l.cgroup.Path()
	}
	write := func(ss []proctree.Session) {
		rec.Sessions = ss
		if err := c.spool.record(rec); err != nil {
			c.spoolFailed(err)
		}
	}
	write([]proctree.Session{{SID: c.lead.proc.PID, Start: c.lead.proc.Start, Seen: proctree.Ticks()}})
	c.usage.seen = write
}

// listen obeys the client until its stream ends.
func (c *command) listen(r *bufio.Reader) {
	err := c.obey(r)
	if errors.Is(err, io.EOF) {
		c.abandon("the owner's stream closed")
		return
	}
	c.abandon("the owner's stream broke: " + err.Error())
}

func (c *command) obey(r *bufio.Reader) error {
	for {
		k, p, err := readFrame(r)
		if err != nil {
			return err
		}
		switch k {
		case kStdin:
			if !c.in.put(p) {
				return fmt.Errorf("%w: more stdin than was granted", errFrame)
			}
		case kCloseStdin:
			c.in.close()
		case kAck:
			s, off, _, err := parseOffset(p)
			if err != nil {
				return err
			}
			if !c.outs[s].ack(off) {
				return fmt.Errorf("%w: acknowledged %d of %s, which was not sent", errFrame, off, s)
			}
		case kSignal:
			seq, name, err := parseSeq(p)
			if err != nil {
				return err
			}
			c.answer(seq, nil, c.signal(driver.Signal(name)))
		case kKill:
			seq, _, err := parseSeq(p)
			if err != nil {
				return err
			}
			// Aside: stdin, acks and other kills go on meanwhile.
			go func() {
				left, err := c.kill(context.Background()) // bounded by proctree's own wait
				c.answer(seq, procs(left), err)
			}()
		case kReply:
			seq, b, err := parseSeq(p)
			if err != nil {
				return err
			}
			if c.asks == nil {
				return fmt.Errorf("%w: an answer, and nobody may ask", errFrame)
			}
			c.asks.answered(seq, b)
		case kExtend:
			d, err := parseUint64(p)
			if err != nil {
				return err
			}
			select {
			case c.extend <- time.Duration(d):
			default: // one is waiting to be seen already
			}
		default:
			return fmt.Errorf("%w: %q is no frame of a client", errFrame, byte(k))
		}
	}
}

func (c *command) answer(seq uint32, left []driver.Proc, err error) {
	m := answerMsg{Survivors: left}
	if err != nil {
		m.Err = err.Error()
	}
	c.out.frame(kAnswer, binary.BigEndian.AppendUint32(nil, seq), encode(m))
}

// close releases everything, and writes down the end.
func (c *command) close(exit *driver.Exit) {
	c.folder.remove() // before the directory that it may stand in
	c.asks.close()
	c.using.Lock() // waits for requests at work; later ones find nobody
	c.closed = true
	c.using.Unlock()
	if g := c.tree.Cgroup; g != nil {
		_ = g.Remove() // fails only while a survivor is in it
		g.Close()
	}
	if c.spool == nil {
		return
	}
	synced := make(chan error, 1)
	go func() { synced <- c.spool.sync() }()
	wait := time.NewTimer(syncWait)
	defer wait.Stop()
	var err error
	select {
	case err = <-synced:
	case <-wait.C: // a slow disk; the bytes are the kernel's to keep
	}
	if err != nil && exit.Reason != driver.Failed {
		exit.Reason, exit.Detail = driver.Failed, spoolDetail(err)
	}
	if err := writeJSON(filepath.Join(c.spool.dir, exitFile), exit, true); err != nil && exit.Reason != driver.Failed {
		exit.Reason, exit.Detail = driver.Failed, spoolDetail(err)
	}
}
