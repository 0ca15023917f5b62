package rein

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/claude"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/watch"
)

// BenchmarkOutput is all that this process does with the bytes of a flood:
// 4 KiB lines, one in 50 with a usage.
func BenchmarkOutput(b *testing.B) {
	text := strings.Repeat("x", 3700)
	delta := `{"type":"stream_event","event":{"delta":{"text":"` + text + `","type":"text_delta"},"index":0,"type":"content_block_delta"},"session_id":"5c0d6f14-3014-4855-823f-d07fa57b1d15","parent_tool_use_id":null,"uuid":"ca7b371a-988d-4002-85da-bc37734122f5","api_message_id":"msg_0"}` + "\n"
	whole := `{"type":"assistant","message":{"content":[{"text":"` + text + `","type":"text"}],"id":"msg_1","model":"claude-opus-4-8","role":"assistant","type":"message","usage":{"cache_read_input_tokens":0,"input_tokens":100,"output_tokens":50,"service_tier":"standard"}},"parent_tool_use_id":null,"session_id":"5c0d6f14-3014-4855-823f-d07fa57b1d15"}` + "\n"
	block := strings.Repeat(delta, 49) + whole
	data := bytes.Repeat([]byte(block), 64<<20/len(block))
	path := filepath.Join(b.TempDir(), "transcript")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	size := int64(len(data))
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		o := newOutput(filepath.Dir(path), claude.Agent{}.NewReader(agent.Facts{}), watch.New(watch.Clocks{}, watch.Limits{}, nil), newHooks(nil), func(err error) { b.Fatal(err) })
		o.Spool(path, path)
		for n := int64(0); n < size; {
			n = min(n+1<<20, size)
			o.Spooled(driver.Stdout, n)
		}
		if err := o.finish(); err != nil {
			b.Fatal(err)
		}
	}
}
