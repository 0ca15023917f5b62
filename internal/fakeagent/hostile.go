package fakeagent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

// hostile does the steps that a supervisor must survive.
func (a *agent) hostile(s Step) error {
	switch s.Do {
	case "spawn": // How, Count, Millis, Ignore, Argv: see spawn.go
		return a.spawn(s)
	case "ignore_term": // Text: prints it each time, and goes on
		a.setOnTerm(s)
	case "on_term": // Text, Code (143): prints the tail when TERM comes, and ends
		a.setOnTerm(s)
	case "long_line": // Bytes (80 MiB)
		n := s.Bytes
		if n == 0 {
			n = 80 << 20
		}
		a.out.write(a.wire.filler(int(n), nil, 0))
	case "flood": // Bytes, Size (4096) of a line, Every (50), Usage
		a.flood(s)
	case "chunks": // lines of 64 KiB-1, 64 KiB and 64 KiB+1, in writes of each
		a.chunks()
	case "chatty": // a line each Millis (10), Count times (0: for ever)
		for i := 0; s.Count == 0 || i < s.Count; i++ {
			a.out.write(a.wire.filler(256, nil, i))
			a.pause(max(s.Millis, 10))
		}
	case "noise": // Text: plain lines between the JSON ones
		text := s.Text
		if text == "" {
			text = "warning: this is not JSON\n{\"neither\": is this\n[1,2\n\n"
		}
		a.out.write([]byte(text))
	case "invalid_utf8": // bytes that are no UTF-8, GBK text, U+FFFD, U+2028
		a.out.write(bytes.Replace(a.wire.filler(512, nil, 0), []byte("xxxxxxxxxxxxxxxxxx"),
			[]byte("\xff\xfe\x80\xc3(\xc4\xe3\xba\xc3 \xef\xbf\xbd \xe2\x80\xa8 "), 1))
	case "nul": // NUL inside a line
		a.out.write(bytes.Replace(a.wire.filler(512, nil, 0), []byte("xxx"), []byte("\x00\x00\x00"), 1))
	case "half_line": // the last line has no newline
		line := a.wire.filler(max(s.Size, 200), nil, 0)
		a.out.write(line[:len(line)/2])
	case "numbered": // Path: numbered lines for ever; Path holds how many were written, whatever kills us
		return a.numbered(s.Path)
	case "close_stdout":
		return os.Stdout.Close()
	default:
		return fmt.Errorf("unknown step %q", s.Do)
	}
	return nil
}

func (a *agent) setOnTerm(s Step) {
	a.mu.Lock()
	a.onTerm = &s
	a.mu.Unlock()
}

// flood writes at least Bytes, one line a write, as fast as it can: a block of
// lines is built once, and only the ids in its one usage line change.
func (a *agent) flood(s Step) {
	size, every := s.Size, s.Every
	if size == 0 {
		size = 4096
	}
	if every == 0 {
		every = 50
	}
	usage := Usage{In: 100, Out: 50}
	if s.Usage != nil {
		usage = *s.Usage
	}
	plain := a.wire.filler(size, nil, 0)
	counted := a.wire.filler(size, &usage, 0)
	for n, i := int64(0), 1; n < s.Bytes; i++ {
		line := plain
		if i%every == 0 {
			patch(counted, "_fill", i/every)
			a.used.add(usage)
			if w, ok := a.wire.(*claude); ok {
				w.usage.add(usage)
			}
			line = counted
		}
		a.waiting(func() { a.out.write(line) })
		n += int64(len(line))
	}
}

func (a *agent) chunks() {
	sizes := []int{1<<16 - 1, 1 << 16, 1<<16 + 1}
	var all []byte
	for i, n := range sizes {
		all = append(all, a.wire.filler(n, nil, i)...)
	}
	for _, n := range sizes {
		for part := range slices.Chunk(all, n) {
			a.out.write(part)
		}
	}
}

// numbered writes {"type":"numbered","n":N} lines as fast as they are read, and
// notes how many writes have returned: eight bytes, little endian. What was
// noted survives a SIGKILL, so a test knows what a transcript must hold.
func (a *agent) numbered(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var note [8]byte
	for n := uint64(0); ; n++ {
		a.out.write(fmt.Appendf(nil, "{\"type\":\"numbered\",\"n\":%d}\n", n))
		binary.LittleEndian.PutUint64(note[:], n+1)
		if _, err := f.WriteAt(note[:], 0); err != nil {
			return err
		}
	}
}
