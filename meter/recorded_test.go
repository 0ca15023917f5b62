package meter_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/claude"
	"github.com/rein-run/rein/agent/codex"
	"github.com/rein-run/rein/agent/pi"
	"github.com/rein-run/rein/meter"
)

// Recorded streams of real CLIs, whose scripted model answered each request
// with 100 tokens in and 50 out unless the case says otherwise.
func TestRecorded(t *testing.T) {
	for _, c := range []struct {
		agent    agent.Agent
		file     string
		in, out  int64
		cost     float64
		tools    int
		resumed  bool
		baseline *agent.Usage
	}{
		{agent: claude.Agent{}, file: "bash-skipperm-sandbox_claude-2.1.332", in: 200, out: 100, cost: 0.0028, tools: 1},
		{agent: claude.Agent{}, file: "bash-skipperm-sandbox_claude-2.1.197", in: 200, out: 100, cost: 0.0035, tools: 1},
		// Two results in one process.
		{agent: claude.Agent{}, file: "run-in-bg-py_claude-2.1.332", in: 300, out: 150, cost: 0.0042, tools: 1},
		// Resumed: the sums in the result of 2.1.332 hold the earlier runs too.
		{agent: claude.Agent{}, file: "resume_claude-2.1.197", in: 100, out: 50, cost: 0.00175},
		{agent: claude.Agent{}, file: "resume_claude-2.1.332", in: 100, out: 50, cost: 0.0014},
		// The result's usage is zero; what the budget was is in modelUsage.
		{agent: claude.Agent{}, file: "max-budget_claude-2.1.332", in: 1_000_000, out: 100_000, cost: 6, tools: 1},
		// Killed: no result at all, and the stream told one request.
		{agent: claude.Agent{}, file: "bash-fg-term_claude-2.1.332", in: 100, out: 50, tools: 1},
		{agent: claude.Agent{}, file: "bash-fg-term_claude-2.1.197", in: 100, out: 50, tools: 1},
		// Killed in the middle of an answer: the input was spent.
		{agent: claude.Agent{}, file: "hang-mid-term_claude-2.1.332", in: 100, out: 1},
		// Refused: nothing was used.
		{agent: claude.Agent{}, file: "err401-retries0_claude-2.1.332"},
		{agent: codex.Agent{}, file: "exec-bypass_codex-0.171.0", in: 200, out: 100, tools: 1},
		{agent: codex.Agent{}, file: "resume-2_codex-0.171.0", in: 300, out: 30, resumed: true, baseline: &agent.Usage{Input: 100, Output: 50}},
		{agent: codex.Agent{}, file: "resume-2_codex-0.171.0", in: 400, out: 80, resumed: true},
		{agent: pi.Agent{}, file: "bash-touch_pi-0.73.1", in: 200, out: 100, cost: 0.0004, tools: 1},
		{agent: pi.Agent{}, file: "bash-touch_pi-1.6.0", in: 200, out: 100, cost: 0.0004, tools: 1},
		// The failed attempts tell zeros.
		{agent: pi.Agent{}, file: "drop-mid_pi-0.73.1", in: 100, out: 50, cost: 0.0002},
		{agent: pi.Agent{}, file: "drop-mid_pi-1.6.0", in: 100, out: 50, cost: 0.0002},
	} {
		t.Run(c.file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("..", "agent", c.agent.Name(), "testdata", c.file+"_2026-11-30.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			m := meter.Meter{Resumed: c.resumed, Baseline: c.baseline}
			r := c.agent.(agent.Decoder).NewReader(agent.Facts{})
			for line := range bytes.Lines(b) {
				r.Read(agent.Line{Bytes: bytes.TrimSuffix(line, []byte("\n")), Size: int64(len(line))}, m.Add)
			}
			r.End(m.Add)
			got := m.Totals()
			if got.Input != c.in || got.Output != c.out || got.ToolCalls != c.tools || math.Abs(got.CostUSD-c.cost) > 1e-9 {
				t.Errorf("%+v, want %d in, %d out, %g USD, %d tools", got, c.in, c.out, c.cost, c.tools)
			}
			if got.EarlierRuns != (c.resumed && c.baseline == nil) {
				t.Errorf("EarlierRuns is %v", got.EarlierRuns)
			}
		})
	}
}
