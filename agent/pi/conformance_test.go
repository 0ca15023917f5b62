package pi

import (
	"os"
	"testing"

	"github.com/rein-run/rein/agent/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m) }

func TestConformance(t *testing.T) {
	o := &agenttest.Options{}
	for _, name := range []string{"err401_pi-0.73.1", "err429_pi-0.73.1", "fg-term_pi-1.6.0"} {
		b, err := os.ReadFile("testdata/" + name + "_2026-11-30.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		o.Transcripts = append(o.Transcripts, b)
	}
	agenttest.Run(t, Agent{}, o)
}
