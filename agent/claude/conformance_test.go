package claude

import (
	"os"
	"testing"

	"github.com/rein-run/rein/agent/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m) }

func TestConformance(t *testing.T) {
	o := &agenttest.Options{}
	for _, name := range []string{"bad-tool_claude-2.1.197", "run-in-bg-py_claude-2.1.332", "err401-retries0_claude-2.1.332"} {
		b, err := os.ReadFile("testdata/" + name + "_2026-11-30.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		o.Transcripts = append(o.Transcripts, b)
	}
	agenttest.Run(t, Agent{}, o)
}
