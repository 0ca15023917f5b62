package keeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/rein-run/rein/host/driver"
)

// The protocol: frames of one kind byte, a big-endian 32-bit length, and that
// many bytes. One stream serves one command, or one Look, and then closes. The
// first frame of each direction begins with the version.
const version = 3

const (
	// window is how far, per output stream, the keeper reads beyond what the
	// client has acknowledged. Then the command is held back by its full pipe.
	window = 4 << 20
	// credit is how many bytes of stdin may be on their way beyond what the
	// command's pipe has taken.
	credit = 256 << 10
	// chunk is the most that one data frame carries: small enough that the
	// answer to a kill never waits long behind output.
	chunk = 64 << 10
	// maxQuestion is the longest question: the content of a file that a tool is
	// to write is in it. What is longer is refused.
	maxQuestion = 16 << 20
	maxReply    = 1 << 20
)

type kind byte

// Client to keeper.
const (
	kStart      kind = 'S' // version, startMsg
	kLook       kind = 'L' // version, lookMsg
	kStdin      kind = 'i' // bytes
	kCloseStdin kind = 'c'
	kAck        kind = 'a' // stream, offset: all before it was delivered
	kSignal     kind = 's' // seq, name of the signal
	kKill       kind = 'k' // seq
	kExtend     kind = 't' // nanoseconds from now
	kReply      kind = 'r' // seq, driver.Reply
)

// Keeper to client.
const (
	kStarted     kind = 'U' // version, startedMsg
	kRefused     kind = 'R' // version, refusedMsg
	kPlace       kind = 'P' // version, driver.Place
	kData        kind = 'd' // stream, offset of the first byte, bytes
	kSpooled     kind = 'o' // stream, offset: all before it is in the file
	kCredit      kind = 'w' // bytes of stdin taken since the start
	kStdinClosed kind = 'x' // the command closed its stdin
	kSample      kind = 'm' // driver.Sample
	kAnswer      kind = 'A' // seq, answerMsg
	kQuestion    kind = 'q' // seq, the bytes that a program of the command asked
	kExit        kind = 'E' // driver.Exit
)

// errFrame is matched by every breach of the protocol. Who meets one gives the
// stream up: a peer that is wrong once cannot be believed about an exit code.
var errFrame = errors.New("keeper protocol error")

// limit is the longest payload of each kind, so that a hostile length costs no
// memory. An unknown kind has none.
func (k kind) limit() int {
	switch k {
	case kStart:
		return 16 << 20 // an argv and an environment: the kernel's own limit is below 8 MiB
	case kLook, kStarted, kRefused, kPlace, kAnswer, kExit:
		return 4 << 20 // lists of processes, a long PATH
	case kQuestion:
		return 4 + maxQuestion
	case kReply:
		return maxReply
	case kStdin:
		return chunk
	case kData:
		return chunk + 9
	case kSample:
		return 4 << 10
	case kAck, kSpooled:
		return 9
	case kSignal:
		return 64
	case kKill:
		return 4
	case kExtend, kCredit:
		return 8
	case kCloseStdin, kStdinClosed:
		return 0
	}
	return -1
}

// readFrame reads one frame. io.EOF means that the stream ended between two
// frames; an end inside one is io.ErrUnexpectedEOF. The payload is the
// caller's.
func readFrame(r *bufio.Reader) (kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return 0, nil, err
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return 0, nil, unexpected(err)
	}
	k, n := kind(head[0]), int64(binary.BigEndian.Uint32(head[1:]))
	switch max := k.limit(); {
	case max < 0:
		return 0, nil, fmt.Errorf("%w: unknown frame %q", errFrame, head[0])
	case n > int64(max):
		return 0, nil, fmt.Errorf("%w: frame %q of %d bytes", errFrame, head[0], n)
	}
	if n <= chunk+9 {
		p := make([]byte, n)
		_, err := io.ReadFull(r, p)
		return k, p, unexpected(err)
	}
	// A long frame grows with what arrives, not with what was announced.
	p := make([]byte, 0, chunk)
	for int64(len(p)) < n {
		step := min(n-int64(len(p)), max(int64(len(p)), chunk))
		at := len(p)
		p = append(p, make([]byte, step)...)
		if _, err := io.ReadFull(r, p[at:]); err != nil {
			return 0, nil, unexpected(err)
		}
	}
	return k, p, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends a frame whose payload is the parts, one after another.
func appendFrame(b []byte, k kind, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func appendUint64(b []byte, k kind, v uint64) []byte {
	var p [8]byte
	binary.BigEndian.PutUint64(p[:], v)
	return appendFrame(b, k, p[:])
}

// appendOffset appends an ack, a spooled or the head of a data frame.
func appendOffset(b []byte, k kind, s driver.Stream, off int64, data ...[]byte) []byte {
	var p [9]byte
	p[0] = byte(s)
	binary.BigEndian.PutUint64(p[1:], uint64(off))
	return appendFrame(b, k, append([][]byte{p[:]}, data...)...)
}

// parseOffset reads what appendOffset wrote.
func parseOffset(p []byte) (s driver.Stream, off int64, data []byte, err error) {
	if len(p) < 9 || p[0] > byte(driver.Stderr) {
		return 0, 0, nil, fmt.Errorf("%w: malformed offset", errFrame)
	}
	off = int64(binary.BigEndian.Uint64(p[1:9]))
	if off < 0 {
		return 0, 0, nil, fmt.Errorf("%w: negative offset", errFrame)
	}
	return driver.Stream(p[0]), off, p[9:], nil
}

func parseUint64(p []byte) (uint64, error) {
	if len(p) != 8 {
		return 0, fmt.Errorf("%w: malformed number", errFrame)
	}
	return binary.BigEndian.Uint64(p), nil
}

func seqBytes(seq uint32) []byte { return binary.BigEndian.AppendUint32(nil, seq) }

func parseSeq(p []byte) (uint32, []byte, error) {
	if len(p) < 4 {
		return 0, nil, fmt.Errorf("%w: malformed sequence number", errFrame)
	}
	return binary.BigEndian.Uint32(p), p[4:], nil
}
