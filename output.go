package rein

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/transcript"
	"github.com/rein-run/rein/watch"
)

// output is where the bytes of a run arrive. Bytes first (law 1): they are in
// the transcript before they are hashed, split into lines and read. All of it
// happens inside the driver's call, so that a reader that falls behind holds
// the agent back (a few MiB later) instead of growing a queue.
type output struct {
	watch  *watch.Watch
	hooks  *hooks
	gate   *gate       // nil: the agent does not ask …
	warden *warden     // … and what it does is judged as it is seen
	fail   func(error) // Rein's own failure: the transcript cannot be written

	// Either the host spools on this machine and these are its files …
	spooled [2]*os.File
	// … or the bytes come through Data and go to these.
	own [2]*transcript.Writer

	dir    string // of the run
	sum    sum
	sha256 string   // of all; set by finish
	buf    []byte   // of stderr
	size   [2]int64 // handled
	lines  transcript.Lines
	index  *transcript.IndexWriter
	inode  os.FileInfo // of the spool's transcript, as it was opened
	reader agent.Reader
	emit   func(agent.Reading) // read; made once, not once a line
	lineNo int64

	inside *latch // in front of all of the above but gate and warden
	behind string // the bytes were not read to their end, and why; set by finish

	mu     sync.Mutex // guards digest and sample
	over   bool       // the report is being made: nothing changes it any more
	digest digest
	sample driver.Sample
	peak   driver.Sample
}

func newOutput(dir string, reader agent.Reader, w *watch.Watch, h *hooks, fail func(error)) *output {
	if reader == nil {
		reader = noReader{}
	}
	o := &output{watch: w, hooks: h, fail: fail, dir: dir, reader: reader, lines: newLines()}
	o.emit = o.read
	o.inside = newLatch(func() { _, _ = o.close() })
	return o
}

// Spool implements driver.SpoolOutput.
func (o *output) Spool(stdout, stderr string) {
	o.inside.pass(func() { o.openSpool(stdout, stderr) })
}

// Spooled implements driver.SpoolOutput.
func (o *output) Spooled(s driver.Stream, n int64) { o.inside.pass(func() { o.readSpool(s, n) }) }

// Data implements driver.Output.
func (o *output) Data(s driver.Stream, p []byte) { o.inside.pass(func() { o.write(s, p) }) }

func (o *output) openSpool(stdout, stderr string) {
	for s, path := range []string{stdout, stderr} {
		f, err := os.Open(path)
		if err != nil {
			o.fail(fmt.Errorf("reading the transcript: %w", err))
			continue
		}
		o.spooled[s] = f
		if driver.Stream(s) == driver.Stdout {
			o.inode, _ = f.Stat()
		}
	}
}

func (o *output) readSpool(s driver.Stream, n int64) {
	o.watch.Output(n - o.size[s])
	f := o.spooled[s]
	if f == nil {
		o.size[s] = n
		return
	}
	if s == driver.Stderr && o.hooks.Output == nil {
		o.size[s] = n
		return
	}
	for o.size[s] < n {
		p := o.room(s)
		p = p[:min(int64(len(p)), n-o.size[s])]
		k, err := f.ReadAt(p, o.size[s])
		if k > 0 {
			o.take(s, p[:k])
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			o.fail(fmt.Errorf("reading the transcript: %w", err))
		} else {
			// The keeper says n bytes are there and they are not: somebody
			// truncated the file.
			o.fail(fmt.Errorf("the transcript was truncated at byte %d", o.size[s]))
		}
		o.size[s] = n
		return
	}
}

func (o *output) write(s driver.Stream, p []byte) {
	o.watch.Output(int64(len(p)))
	if o.own[s] == nil {
		w, err := transcript.Create(o.file(s))
		if err != nil {
			o.fail(err)
			return
		}
		o.own[s] = w
	}
	k, err := o.own[s].Write(p)
	for p = p[:k]; len(p) > 0; { // what is on disk, no more
		room := o.room(s)
		n := copy(room, p)
		o.take(s, room[:n])
		p = p[n:]
	}
	if err != nil {
		o.fail(err)
	}
}

// Sample implements driver.Sampler.
func (o *output) Sample(s driver.Sample) {
	o.watch.Sample(s)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return
	}
	o.sample = s
	o.peak.RSS = max(o.peak.RSS, s.RSS)
	o.peak.CPU = max(o.peak.CPU, s.CPU)
	o.peak.Procs = max(o.peak.Procs, s.Procs)
}

// Ask implements driver.Asker. It waits for none of what the other methods do.
func (o *output) Ask(q []byte) driver.Reply {
	if o.gate == nil {
		return driver.Refuse("rein: nobody judges the tool calls of this run")
	}
	return o.gate.answer(q)
}

func (o *output) file(s driver.Stream) string {
	if s == driver.Stderr {
		return filepath.Join(o.dir, "stderr")
	}
	return filepath.Join(o.dir, "transcript")
}

// room is where the next bytes of s are put before take is told of them.
func (o *output) room(s driver.Stream) []byte {
	if s == driver.Stdout {
		return o.sum.room()
	}
	if o.buf == nil {
		o.buf = make([]byte, 64<<10)
	}
	return o.buf
}

// take handles bytes that are in the transcript, and at the beginning of room.
func (o *output) take(s driver.Stream, p []byte) {
	o.size[s] += int64(len(p))
	o.hooks.output(s, p)
	if s == driver.Stderr {
		return
	}
	o.sum.took(len(p)) // first: they are hashed while they are read
	o.lines.Feed(p, o.line)
	if o.index != nil {
		// An aid: an index that cannot be written is rebuilt from the transcript.
		_ = o.index.Note(o.size[s], o.lineNo, time.Now())
	}
}

func (o *output) line(l agent.Line) {
	o.lineNo++
	o.reader.Read(l, o.emit)
}

func (o *output) read(r agent.Reading) {
	o.watch.Read(r)
	o.gate.read(r)
	o.warden.read(r)
	o.hooks.reading(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.digest.read(r)
	}
}

// kept is what stands in the report about the files of the run.
func (o *output) kept() (stdout, stderr Bytes) {
	stdout, stderr = Bytes{Path: o.file(driver.Stdout)}, Bytes{Path: o.file(driver.Stderr)}
	if o.behind == "" {
		stdout.Bytes, stdout.SHA256, stderr.Bytes = o.size[driver.Stdout], o.sha256, o.size[driver.Stderr]
		return stdout, stderr
	}
	// Of what was read nothing is known; the call that hangs has it.
	stdout.Bytes, stdout.SHA256, _ = transcript.Sum(stdout.Path)
	if info, err := os.Lstat(stderr.Path); err == nil {
		stderr.Bytes = info.Size()
	}
	return stdout, stderr
}

// damaged says what somebody did to the transcript while the run went on; the
// agent runs as the same user and can. The bytes that were read are what the
// report speaks of, but they are no longer on the disk.
func (o *output) damaged(path string) string {
	if o.behind != "" {
		return o.behind
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && o.size[driver.Stdout] == 0:
		return ""
	case err != nil:
		return "the transcript is gone: " + err.Error()
	case o.inode != nil && !os.SameFile(o.inode, info):
		return "the transcript was replaced"
	case info.Size() != o.size[driver.Stdout]:
		return fmt.Sprintf("the transcript was changed: it has %d bytes, %d were written", info.Size(), o.size[driver.Stdout])
	case info.Size() > rehash:
		return ""
	}
	if _, sum, err := transcript.Sum(path); err != nil || sum != o.sha256 {
		return "the transcript was changed: it is not what was read of it"
	}
	return ""
}

// rehash is the size up to which a transcript is read again at the end: a
// fraction of a second. A larger one is compared by its size and identity.
const rehash = 64 << 20

// outputPatience is how long finish waits for a call that is inside; the host
// has waited for it already, except where the start failed.
const outputPatience = 2 * time.Second

// finish handles what stands after the last newline and closes the files. A call
// that hangs does not hold it up: then the readings end where they are, and the
// files are closed when it returns.
func (o *output) finish() error {
	var err error
	if !o.inside.shut(outputPatience, func() {
		o.lines.Flush(o.line)
		o.reader.End(o.emit)
		o.sha256, err = o.close()
	}) {
		o.behind = "what the agent wrote was not read to its end: reading it hangs"
		err = errors.New(o.behind)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	return err
}

// close closes the files and returns the hash of the transcript.
func (o *output) close() (sha256 string, err error) {
	sha256 = o.sum.end()
	for s := range 2 {
		if o.spooled[s] != nil {
			o.spooled[s].Close()
		}
		if o.own[s] != nil {
			err = errors.Join(err, o.own[s].Sync(), o.own[s].Close())
		}
	}
	if o.index != nil {
		_ = o.index.Close()
	}
	return sha256, err
}
