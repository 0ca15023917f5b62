package transcript

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/rein-run/rein/internal/disk"
)

// Mark is one entry of the index: at Time the first Offset bytes had arrived,
// and Lines newlines were among them.
type Mark struct {
	Offset int64
	Lines  int64
	Time   time.Time // zero when it was lost
}

const (
	markBytes = 1 << 20                // a new mark after so many bytes ...
	markTime  = 100 * time.Millisecond // ... or after so much time
	// slack is what may lie behind the last mark before the index is called
	// short: what one write of a busy run can bring.
	slack = 1 << 20

	// A record is the offset, the lines, the nanoseconds since 1970, and the
	// CRC-32C of those 24 bytes, then zeros: little endian, 32 bytes. The sum is
	// there because a power loss leaves blocks of zeros or of old data.
	recordSize = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (m Mark) record() [recordSize]byte {
	var b [recordSize]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(m.Offset))
	binary.LittleEndian.PutUint64(b[8:], uint64(m.Lines))
	binary.LittleEndian.PutUint64(b[16:], uint64(m.Time.UnixNano()))
	binary.LittleEndian.PutUint32(b[24:], crc32.Checksum(b[:24], castagnoli))
	return b
}

func parseMark(b []byte) (Mark, bool) {
	m := Mark{
		Offset: int64(binary.LittleEndian.Uint64(b[0:])),
		Lines:  int64(binary.LittleEndian.Uint64(b[8:])),
		Time:   time.Unix(0, int64(binary.LittleEndian.Uint64(b[16:]))),
	}
	ok := crc32.Checksum(b[:24], castagnoli) == binary.LittleEndian.Uint32(b[24:]) && m.Lines <= m.Offset
	return m, ok
}

// follows says whether m can stand behind last.
func (m Mark) follows(last Mark) bool {
	return m.Offset > last.Offset && m.Lines >= last.Lines &&
		m.Lines-last.Lines <= m.Offset-last.Offset && !m.Time.Before(last.Time)
}

// IndexWriter writes the index beside a transcript while the bytes arrive. The
// index is an aid: when it cannot be written it ends where it ends, and what is
// missing is found again from the transcript. It is used by one goroutine.
type IndexWriter struct {
	f    *os.File
	last Mark // written
	next Mark // noted and not written
	err  error
}

// CreateIndex makes the index file, or continues one that is there behind its
// last intact record.
func CreateIndex(path string) (*IndexWriter, error) {
	f, err := disk.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("index of the transcript: %w", err)
	}
	w := &IndexWriter{f: f}
	marks, size, _, err := readMarks(f)
	if len(marks) > 0 {
		w.last = marks[len(marks)-1]
	}
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("index of the transcript: %w", err)
	}
	w.next = w.last
	return w, nil
}

// Note says that at the time at the first offset bytes of the transcript had
// arrived, lines newlines among them. It may be called for every chunk: at most
// one record per MiB or 100 ms is written. A time before the last one (the
// clock was set) counts as the last one. An error is of the index alone; it is
// returned once, and nothing is written after it.
func (w *IndexWriter) Note(offset, lines int64, at time.Time) error {
	if at = at.Round(0); at.Before(w.next.Time) {
		at = w.next.Time
	}
	m := Mark{Offset: offset, Lines: lines, Time: at}
	if w.err != nil || !m.follows(w.next) {
		return nil
	}
	w.next = m
	if m.Offset-w.last.Offset < markBytes && m.Time.Sub(w.last.Time) < markTime {
		return nil
	}
	return w.flush()
}

func (w *IndexWriter) flush() error {
	if w.err != nil || w.next.Offset == w.last.Offset {
		return nil
	}
	b := w.next.record()
	if _, err := w.f.Write(b[:]); err != nil {
		w.err = fmt.Errorf("index of the transcript: %w", err)
		return w.err
	}
	w.last = w.next
	return nil
}

// Close writes the last note and closes the file.
func (w *IndexWriter) Close() error {
	err := w.flush()
	if cerr := w.f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("index of the transcript: %w", cerr)
	}
	return err
}

// Index answers where a line begins and what had arrived at a time. It is not
// changed after it was made and may be used concurrently.
type Index struct {
	Marks []Mark // ascending in all three, except that lost times are zero
	// TimesLost says that the index was missing, short or damaged, and that the
	// marks made from the transcript instead have no time.
	TimesLost bool
}

// OpenIndex reads the index at idx of the transcript at path. What is missing
// of it is made anew from the transcript, in memory: a transcript without any
// index is read once, whole.
func OpenIndex(path, idx string) (*Index, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}

	x := &Index{}
	switch xf, err := disk.Open(idx); {
	case err == nil:
		var damaged bool
		x.Marks, _, damaged, err = readMarks(xf)
		xf.Close()
		x.TimesLost = damaged || err != nil
	case !errors.Is(err, fs.ErrNotExist):
		x.TimesLost = true
	}
	// A mark beyond the transcript is of another one, or the bytes are gone.
	for len(x.Marks) > 0 && x.Marks[len(x.Marks)-1].Offset > st.Size() {
		x.Marks, x.TimesLost = x.Marks[:len(x.Marks)-1], true
	}
	if rest := st.Size() - x.last().Offset; rest > slack || (rest > 0 && len(x.Marks) == 0) {
		x.TimesLost = true
		if err := x.scan(f, st.Size()); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// readMarks reads the intact records, and says where they end and whether
// something else than half a record lies behind them.
func readMarks(r io.ReaderAt) (marks []Mark, size int64, damaged bool, err error) {
	buf := make([]byte, 512*recordSize)
	for {
		n, err := r.ReadAt(buf, size)
		if err != nil && err != io.EOF {
			return marks, size, true, err
		}
		for b := buf[:n]; len(b) >= recordSize; b = b[recordSize:] {
			m, ok := parseMark(b)
			if !ok || (len(marks) > 0 && !m.follows(marks[len(marks)-1])) {
				return marks, size, true, nil
			}
			marks = append(marks, m)
			size += recordSize
		}
		if n < len(buf) {
			return marks, size, false, nil
		}
	}
}

// scan adds marks without a time behind the last one.
func (x *Index) scan(r io.ReaderAt, size int64) error {
	buf := make([]byte, markBytes)
	for m := x.last(); m.Offset < size; {
		b := buf[:min(int64(len(buf)), size-m.Offset)]
		if _, err := r.ReadAt(b, m.Offset); err != nil {
			return err
		}
		m = Mark{Offset: m.Offset + int64(len(b)), Lines: m.Lines + int64(bytes.Count(b, []byte{'\n'}))}
		x.Marks = append(x.Marks, m)
	}
	return nil
}

func (x *Index) last() Mark {
	if len(x.Marks) == 0 {
		return Mark{}
	}
	return x.Marks[len(x.Marks)-1]
}

// Find gives the last mark from which line n, counted from 1, can be found by
// reading forward: it begins behind the newline number n-1-Lines from there.
// The zero Mark is the beginning.
func (x *Index) Find(n int64) Mark {
	// Lines < n-1 and not <=: a mark may lie in the middle of a line, so that
	// the newline that precedes the wanted line must be in front of us.
	i := sort.Search(len(x.Marks), func(i int) bool { return x.Marks[i].Lines >= n-1 })
	if i == 0 {
		return Mark{}
	}
	return x.Marks[i-1]
}

// At gives the last mark whose time is at or before t: what had arrived by
// then. The zero Mark means that nothing had.
func (x *Index) At(t time.Time) Mark {
	known := x.Marks
	if x.TimesLost {
		// Lost times are behind the known ones.
		if i := slices.IndexFunc(known, func(m Mark) bool { return m.Time.IsZero() }); i >= 0 {
			known = known[:i]
		}
	}
	i := sort.Search(len(known), func(i int) bool { return known[i].Time.After(t) })
	if i == 0 {
		return Mark{}
	}
	return known[i-1]
}

// LineOffset is where line n, counted from 1, begins in the transcript r. It is
// io.EOF when the transcript has no such line.
func (x *Index) LineOffset(r io.ReaderAt, n int64) (int64, error) {
	if n < 1 {
		return 0, fmt.Errorf("line %d: lines are counted from 1", n)
	}
	m := x.Find(n)
	skip := n - 1 - m.Lines // newlines
	at := m.Offset
	buf := make([]byte, markBytes)
	for {
		c, err := r.ReadAt(buf, at)
		b := buf[:c]
		for skip > 0 {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				break
			}
			b = b[i+1:]
			skip--
		}
		if skip == 0 && len(b) > 0 {
			return at + int64(c-len(b)), nil
		}
		if err != nil {
			return 0, err
		}
		at += int64(c)
	}
}
