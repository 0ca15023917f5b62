package link

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// The protocol. Every transport begins with a hello of the client and the
// answer of the server; then both send frames. A frame is a head (kind, offset,
// length) and, for data only, that many bytes. The client need not wait for the
// answer with its first bytes: a start costs no round trip of its own.
const version = 1

const (
	helloSize = 4 + 1 + 1 + len(Key{}) + 8 + 8 + 4 + 4
	headSize  = 1 + 8 + 4
	// maxData is the most that one frame carries. A keeper writes 64 KiB and a
	// few bytes at a time: one frame, and not one and a crumb.
	maxData = 128 << 10
	// maxBuffer bounds Options.Buffer, and so what a peer may send beyond what
	// was read here.
	maxBuffer = 4 << 20
	minBuffer = 256 << 10
	// ackEvery is how many bytes are read before the peer is told, unless there
	// is something to be sent anyway. Well below minBuffer: a peer whose buffer
	// is full waits for it.
	ackEvery = 64 << 10
	// maxReason is the longest text of a refusal.
	maxReason = 1 << 10
	// maxNoise is how much may come before the answer: profile scripts of a
	// login shell print greetings.
	maxNoise = 64 << 10
)

// The first bytes of each direction. They are not UTF-8, so nothing that a
// shell prints looks like them, and they differ, so a terminal that echoes the
// hello does not.
var (
	helloMagic  = [4]byte{0xff, 'r', 'l', 'h'}
	answerMagic = [4]byte{0xfe, 'r', 'l', 'a'}
)

const (
	kData   byte = 'd' // offset of the first byte, bytes
	kAck    byte = 'a' // all before this offset was read by the application
	kPing   byte = 'p'
	kFin    byte = 'f' // the sender has closed; its bytes end at this offset
	kFinAck byte = 'g' // the fin has come, with all bytes before it
)

// errFrame is matched by every breach of the protocol. It ends a transport and
// not at once the link: what a dying transport prints last is no frame either.
var errFrame = errors.New("link protocol error")

// Hello is how a client begins on a transport.
type Hello struct {
	Key    Key
	Create bool          // the server may have to be made first
	Ping   time.Duration // see Options
	Lease  time.Duration

	epoch    uint64 // rises with every transport of a link
	received uint64 // bytes of the server that the client has
}

const flagCreate = 1

func (h *Hello) append(b []byte) []byte {
	b = append(b, helloMagic[:]...)
	var flags byte
	if h.Create {
		flags = flagCreate
	}
	b = append(b, version, flags)
	b = append(b, h.Key[:]...)
	b = binary.BigEndian.AppendUint64(b, h.epoch)
	b = binary.BigEndian.AppendUint64(b, h.received)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Ping/time.Millisecond))
	return binary.BigEndian.AppendUint32(b, uint32(h.Lease/time.Millisecond))
}

// readHello takes exactly the hello from r, which may be unbuffered.
func readHello(r io.Reader) (*Hello, error) {
	var b [helloSize]byte
	// In two steps: another version may have a hello of another length.
	if _, err := io.ReadFull(r, b[:5]); err != nil {
		return nil, fmt.Errorf("read the hello: %w", err)
	}
	if !bytes.Equal(b[:4], helloMagic[:]) {
		return nil, fmt.Errorf("%w: this is no hello", errFrame)
	}
	if b[4] != version {
		return nil, &refusedError{codeVersion, fmt.Sprintf("the client speaks version %d of the link, this is %d: keeper and client must be of one release", b[4], version)}
	}
	if _, err := io.ReadFull(r, b[5:]); err != nil {
		return nil, fmt.Errorf("read the hello: %w", err)
	}
	h := &Hello{Create: b[5]&flagCreate != 0}
	p := b[6:]
	p = p[copy(h.Key[:], p):]
	h.epoch = binary.BigEndian.Uint64(p)
	h.received = binary.BigEndian.Uint64(p[8:])
	h.Ping = time.Duration(binary.BigEndian.Uint32(p[16:])) * time.Millisecond
	h.Lease = time.Duration(binary.BigEndian.Uint32(p[20:])) * time.Millisecond
	if h.Ping < minPing || h.Ping > maxPing || h.Lease < minLease || h.Lease > maxLease {
		return nil, fmt.Errorf("%w: ping %v, lease %v", errFrame, h.Ping, h.Lease)
	}
	return h, nil
}

// The answer: welcome with the number of bytes received so far, or a refusal.
const (
	codeWelcome byte = iota
	codeGone         // there is no such link, or no longer
	codeKey
	codeVersion
	codeStale // a later transport of this client has been here
	codeOther
)

// refusedError is a refusal; it matches ErrRefused, and ErrGone when it says so.
type refusedError struct {
	code byte
	text string
}

func (e *refusedError) Error() string { return e.text }

func (e *refusedError) Is(target error) bool {
	return target == ErrRefused || target == ErrGone && e.code == codeGone
}

func appendWelcome(b []byte, received uint64) []byte {
	b = append(b, answerMagic[:]...)
	return binary.BigEndian.AppendUint64(append(b, version, codeWelcome), received)
}

func appendRefusal(b []byte, e *refusedError) []byte {
	b = append(b, answerMagic[:]...)
	text := e.text[:min(len(e.text), maxReason)]
	b = binary.BigEndian.AppendUint16(append(b, version, e.code), uint16(len(text)))
	return append(b, text...)
}

// readAnswer skips what comes before the answer, and returns the bytes that the
// server has received. noise is the beginning of what was skipped.
func readAnswer(r *bufio.Reader) (received uint64, noise []byte, err error) {
	for skipped, i := 0, 0; i < len(answerMagic); skipped++ {
		b, err := r.ReadByte()
		if err != nil {
			return 0, noise, err
		}
		switch {
		case b == answerMagic[i]:
			i++
		case b == answerMagic[0]:
			i = 1
		default:
			i = 0
			if len(noise) < 200 {
				noise = append(noise, b)
			}
		}
		if skipped > maxNoise {
			return 0, noise, fmt.Errorf("%w: no answer in %d bytes", errFrame, maxNoise)
		}
	}
	var b [10]byte
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return 0, noise, err
	}
	if b[0] != version {
		return 0, noise, &refusedError{codeVersion, fmt.Sprintf("the keeper there speaks version %d of the link, this is %d: keeper and client must be of one release", b[0], version)}
	}
	code := b[1]
	if code == codeWelcome {
		_, err := io.ReadFull(r, b[2:])
		return binary.BigEndian.Uint64(b[2:]), noise, err
	}
	if _, err := io.ReadFull(r, b[2:4]); err != nil {
		return 0, noise, err
	}
	n := binary.BigEndian.Uint16(b[2:4])
	if code > codeOther || n > maxReason {
		return 0, noise, fmt.Errorf("%w: refusal %d of %d bytes", errFrame, code, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return 0, noise, err
	}
	return 0, noise, &refusedError{code, string(text)}
}

// head is the beginning of a frame.
type head struct {
	kind byte
	off  uint64
	n    int // bytes that follow
}

func (h head) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, h.kind), h.off)
	return binary.BigEndian.AppendUint32(b, uint32(h.n))
}

// put writes the head into the room that was left for it.
func (h head) put(b []byte) {
	b[0] = h.kind
	binary.BigEndian.PutUint64(b[1:], h.off)
	binary.BigEndian.PutUint32(b[9:], uint32(h.n))
}

// readHead reads the head of a frame. buf is scratch space.
func readHead(r io.Reader, buf *[headSize]byte) (head, error) {
	if _, err := io.ReadFull(r, buf[:]); err != nil {
		return head{}, err
	}
	h := head{buf[0], binary.BigEndian.Uint64(buf[1:]), int(binary.BigEndian.Uint32(buf[9:]))}
	switch h.kind {
	case kData:
		if h.n < 1 || h.n > maxData {
			return head{}, fmt.Errorf("%w: %d bytes of data", errFrame, h.n)
		}
	case kAck, kPing, kFin, kFinAck:
		if h.n != 0 {
			return head{}, fmt.Errorf("%w: frame %q of %d bytes", errFrame, h.kind, h.n)
		}
	default:
		return head{}, fmt.Errorf("%w: unknown frame %q", errFrame, h.kind)
	}
	if h.off > 1<<62 {
		return head{}, fmt.Errorf("%w: offset %d", errFrame, h.off)
	}
	return h, nil
}
