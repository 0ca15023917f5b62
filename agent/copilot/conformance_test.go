package copilot

import (
	"os"
	"testing"

	"github.com/rein-run/rein/agent/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m) }

func TestConformance(t *testing.T) {
	o := &agenttest.Options{}
	for _, name := range []string{"tools", "err401", "drop-mid"} {
		b, err := os.ReadFile("testdata/" + name + "_copilot-1.0.102_2026-11-30.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		o.Transcripts = append(o.Transcripts, b)
	}
	agenttest.Run(t, Agent{}, o)
}
