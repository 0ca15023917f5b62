package codex

import (
	"os"
	"testing"

	"github.com/rein-run/rein/agent/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m) }

func TestConformance(t *testing.T) {
	o := &agenttest.Options{}
	for _, name := range []string{"exec-fail_codex-0.171.0", "err401_codex-0.171.0", "exec-patch-sh_codex-0.171.0"} {
		b, err := os.ReadFile("testdata/" + name + "_2026-11-30.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		o.Transcripts = append(o.Transcripts, b)
	}
	agenttest.Run(t, Agent{}, o)
}
