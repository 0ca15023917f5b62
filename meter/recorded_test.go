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

		model                string // asked for
		cut                  string // lines with this are left out
		estimate             bool
		subagents, delegated int64
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
		// Killed: no result at all, and the stream told one request. Its price is
		// what the CLI itself charges for it in its results.
		{agent: claude.Agent{}, file: "bash-fg-term_claude-2.1.332", in: 100, out: 50, cost: 0.0014, estimate: true, tools: 1},
		{agent: claude.Agent{}, file: "bash-fg-term_claude-2.1.197", in: 100, out: 50, cost: 0.00175, estimate: true, tools: 1},
		// Killed in the middle of an answer: the input was spent.
		{agent: claude.Agent{}, file: "hang-mid-term_claude-2.1.332", in: 100, out: 1, cost: 0.00042, estimate: true},
		// Sub-agents: the stream tells placeholders of what they wrote, the result
		// the truth; three results are printed together at the end.
		{agent: claude.Agent{}, file: "subagents-bg_claude-2.1.332", in: 3600, out: 805, cost: 0.0305164, tools: 3, subagents: 2, delegated: 1200 + 605},
		{agent: claude.Agent{}, file: "subagents-fg_claude-2.1.332", in: 3400, out: 705, cost: 0.0277164, tools: 3, subagents: 2, delegated: 1200 + 605},
		// The same, killed before its results: what was told while it went on.
		{agent: claude.Agent{}, file: "subagents-bg_claude-2.1.332", cut: "\"type\":\"result\"", in: 3600, out: 40 + 60 + 50 + 50 + 3, cost: 0.0184764, estimate: true, tools: 3, subagents: 2, delegated: 1203},
		// Refused: nothing was used.
		{agent: claude.Agent{}, file: "err401-retries0_claude-2.1.332"},
		{agent: codex.Agent{}, file: "exec-bypass_codex-0.171.0", in: 200, out: 100, tools: 1},
		// codex never tells the model: what was asked for is priced.
		{agent: codex.Agent{}, file: "exec-bypass_codex-0.171.0", model: "gpt-5.2-codex", in: 200, out: 100, cost: 0.00175, estimate: true, tools: 1},
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
			m := meter.Meter{Resumed: c.resumed, Baseline: c.baseline, Model: c.model}
			r := c.agent.(agent.Decoder).NewReader(agent.Facts{})
			for line := range bytes.Lines(b) {
				if c.cut != "" && bytes.Contains(line, []byte(c.cut)) {
					continue
				}
				r.Read(agent.Line{Bytes: bytes.TrimSuffix(line, []byte("\n")), Size: int64(len(line))}, m.Add)
			}
			r.End(m.Add)
			got := m.Totals()
			if got.Input != c.in || got.Output != c.out || got.ToolCalls != c.tools || math.Abs(got.CostUSD-c.cost) > 1e-9 {
				t.Errorf("%+v, want %d in, %d out, %g USD, %d tools", got, c.in, c.out, c.cost, c.tools)
			}
			source := meter.FromAgent
			switch {
			case c.estimate:
				source = meter.FromTable
			case c.cost == 0:
				source = meter.FromNowhere
			}
			if got.CostSource != source || int64(got.Subagents) != c.subagents || got.Delegated != c.delegated {
				t.Errorf("%+v, want cost from %s, %d sub-agents, %d delegated", got, source, c.subagents, c.delegated)
			}
			if got.EarlierRuns != (c.resumed && c.baseline == nil) {
				t.Errorf("EarlierRuns is %v", got.EarlierRuns)
			}
		})
	}
}
