package claude

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

// stream is lines of 4 KiB as they come in a run: deltas and results of tools,
// and one of 50 with the usage of a request. The text is what tools print:
// newlines, quotes, backslashes.
func stream() [][]byte {
	const session = `"session_id":"34204820-b3f0-4279-bc90-cbc42ec77d98","parent_tool_use_id":null,"uuid":"954ceea8-cc5c-4425-b32d-9d6b616ea90b","api_message_id":"msg_1"}`
	text := strings.Repeat(`\tif err := r.read(ctx, \"watch/clock.go\"); err != nil {\n`, 4096)
	fill := func(line string, size int) []byte {
		i := strings.Index(line, "TEXT")
		t := text[:size-len(line)+4]
		return []byte(line[:i] + strings.TrimRight(t, `\`) + line[i+4:])
	}
	var lines [][]byte
	for i := range 50 {
		switch {
		case i == 0:
			lines = append(lines, fill(`{"type":"stream_event","event":{"delta":{"stop_reason":"end_turn","note":"TEXT"},"type":"message_delta","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":100,"output_tokens":50}},`+session, 4096))
		case i == 1:
			lines = append(lines, fill(`{"type":"assistant","message":{"content":[{"type":"text","text":"TEXT"}],"id":"msg_1","model":"claude-opus-4-8","role":"assistant","type":"message","usage":{"input_tokens":100,"output_tokens":50}},`+session, 4096))
		case i%2 == 0:
			lines = append(lines, fill(`{"type":"stream_event","event":{"delta":{"text":"TEXT","type":"text_delta"},"index":0,"type":"content_block_delta"},`+session, 4096))
		default:
			lines = append(lines, fill(fmt.Sprintf(`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","content":"TEXT","is_error":false}]},`, i)+session, 4096))
		}
	}
	return lines
}

// A reader must not be what slows an agent down: the target is 800 MB/s.
func BenchmarkReader(b *testing.B) {
	lines := stream()
	var size int64
	for _, l := range lines {
		size += int64(len(l))
	}
	r := Agent{}.NewReader(agent.Facts{})
	n := 0
	emit := func(agent.Reading) { n++ }
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for _, l := range lines {
			r.Read(agent.Line{Bytes: l}, emit)
		}
	}
	if n == 0 {
		b.Fatal("nothing was read")
	}
}
