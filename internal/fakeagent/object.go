package fakeagent

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
)

// object is a JSON object that keeps the order of its keys: the real CLIs have
// one, and it is not always "type" that comes first.
type object []any // key, value, key, value …

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := 0; i < len(o); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(marshal(o[i]))
		b.WriteByte(':')
		b.Write(marshal(o[i+1]))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal writes JSON as a JavaScript CLI does: without escaping <, > and &.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func timestamp() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }
