package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/store"
)

// produce is the agent of BenchmarkGuardAndMeter: so many bytes of 4 KiB lines as
// claude writes them, of each 50 one with usage, one with a shell command and one
// with its result, and a result at the end.
func produce(size int64) int {
	const line, every = 4096, 50
	fill := func(head, tail string) []byte {
		return []byte(head + strings.Repeat("x", line-len(head)-len(tail)-1) + tail + "\n")
	}
	plain := fill(`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"`, `"}]},"session_id":"s"}`)
	var block bytes.Buffer
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	fmt.Fprintln(out, `{"type":"system","subtype":"init","session_id":"s","model":"claude-sonnet-4-5","tools":["Bash"]}`)
	for n, i := int64(0), 0; n < size; i++ {
		block.Reset()
		id := fmt.Sprintf("%09d", i)
		block.Write(fill(`{"type":"assistant","message":{"id":"msg_`+id+`","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"`,
			`"}],"usage":{"input_tokens":100,"output_tokens":50,"cache_read_input_tokens":1000}},"session_id":"s"}`))
		block.Write(fill(`{"type":"assistant","message":{"id":"msg_`+id+`","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"toolu_`+id+`","name":"Bash","input":{"command":"cd pkg && go test ./... 2>&1 | tee out.txt","description":"`,
			`"}}],"usage":{"input_tokens":100,"output_tokens":50,"cache_read_input_tokens":1000}},"session_id":"s"}`))
		block.Write(fill(`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_`+id+`","content":"`, `"}]},"session_id":"s"}`))
		for block.Len() < every*line {
			block.Write(plain)
		}
		out.Write(block.Bytes())
		n += int64(block.Len())
	}
	fmt.Fprintln(out, `{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","usage":{"input_tokens":1,"output_tokens":1}}`)
	if out.Flush() != nil {
		return 1
	}
	return 0
}

// producer is an agent whose program is produce. With blind its readings have
// nothing that a meter counts or a guard judges.
type producer struct {
	agent.Agent
	exe   string
	size  int64
	blind bool
}

func (p producer) Command(inv agent.Invocation, f agent.Facts) (agent.Command, error) {
	c, err := p.Agent.Command(inv, f)
	c.Argv, c.Stdin = []string{p.exe, "produce", strconv.FormatInt(p.size, 10)}, nil
	return c, err
}

func (p producer) NewReader(f agent.Facts) agent.Reader {
	r := p.Agent.(agent.Decoder).NewReader(f)
	if p.blind {
		return blind{r}
	}
	return r
}

func (p producer) VersionArgs() []string { return p.Agent.(agent.Prober).VersionArgs() }
func (p producer) ParseVersion(b []byte) string {
	return p.Agent.(agent.Prober).ParseVersion(b)
}

type blind struct{ agent.Reader }

func hide(emit func(agent.Reading)) func(agent.Reading) {
	return func(r agent.Reading) {
		r.Usage, r.Tool = nil, nil
		emit(r)
	}
}

func (b blind) Read(l agent.Line, emit func(agent.Reading)) { b.Reader.Read(l, hide(emit)) }
func (b blind) End(emit func(agent.Reading))                { b.Reader.End(hide(emit)) }

// BenchmarkGuardAndMeter: what the guard (of an agent that cannot be made to ask,
// so that every call is judged in the stream), the meter and a budget of money
// cost a stream of 1 GiB (BENCH_MIB says another size); beside it the same stream
// whose readings hold nothing for them. Aim: at most 15 %.
func BenchmarkGuardAndMeter(b *testing.B) {
	size := int64(1 << 30)
	if mib, err := strconv.ParseInt(os.Getenv("BENCH_MIB"), 10, 64); err == nil {
		size = mib << 20
	}
	e := newEnv(b)
	s, err := store.Open(filepath.Join(e.home, "state", "rein"))
	if err != nil {
		b.Fatal(err)
	}
	vars := driver.Env{}
	for _, kv := range e.vars {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	claude, err := rein.Agents().Lookup("claude")
	if err != nil {
		b.Fatal(err)
	}
	run := func(blind bool) float64 {
		task := rein.Task{Prompt: "flood", Agent: "claude", Dir: e.dir, Env: vars}
		if !blind {
			task.Limits.CostUSD = 1e6
		}
		begin := time.Now()
		rep, err := rein.Do(context.Background(), task, &rein.Options{Store: s, Agents: agent.New(producer{claude, exe, size, blind})})
		took := time.Since(begin).Seconds()
		switch calls := int(size / 4096 / 50); {
		case err != nil:
			b.Fatal(err)
		case !blind && (!rep.OK || rep.Usage.ToolCalls < calls || rep.Usage.CostUSD == 0), rep.Transcript.Bytes < size:
			b.Fatalf("ok %v, %+v, %d bytes: %s", rep.OK, rep.Usage, rep.Transcript.Bytes, rep.Failure)
		}
		if err := s.Remove(rep.ID); err != nil {
			b.Fatal(err)
		}
		return took
	}
	run(true) // the version probe, and the disk
	for b.Loop() {
		var ratios, with, without []float64
		for range pairs {
			off, on := run(true), run(false)
			ratios, with, without = append(ratios, on/off), append(with, on), append(without, off)
		}
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(median(with), "with-s")
		b.ReportMetric(median(without), "without-s")
	}
}
