package claude

import (
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/internal/jsonline"
)

// A line of many megabytes still gives its reading, although the type of it
// and the id stand behind the long string.
func TestElidedLines(t *testing.T) {
	for _, c := range []struct {
		begin, end string
		want       func(agent.Reading) bool
	}{
		{
			`{"message":{"role":"user","content":[{"content":"Exit code 7\n`, `","is_error":true,"type":"tool_result","tool_use_id":"toolu_1"}]},"type":"user","parent_tool_use_id":null}`,
			func(r agent.Reading) bool {
				return r.Kind == agent.KindToolFinished && r.Tool.ID == "toolu_1" && r.Tool.Failed && *r.Tool.Exit == 7
			},
		},
		{
			`{"is_error":false,"result":"`, `","usage":{"input_tokens":3,"output_tokens":4},"subtype":"success","type":"result"}`,
			func(r agent.Reading) bool {
				return r.Kind == agent.KindTurnEnded && r.OK && r.Usage.Output == 4 && strings.HasPrefix(r.Text, "zzz")
			},
		},
		{
			`{"type":"assistant","message":{"id":"m","model":"claude-opus-4-8","content":[{"type":"tool_use","id":"toolu_2","name":"Write","input":{"content":"`, `","file_path":"/w/big.txt"}}]}}`,
			func(r agent.Reading) bool {
				return r.Kind == agent.KindToolStarted && r.Tool.Writes && r.Tool.Files[0] == "/w/big.txt"
			},
		},
	} {
		var e jsonline.Elider
		e.Write([]byte(c.begin))
		for range 5 {
			e.Write([]byte(strings.Repeat("z", 1<<20)))
		}
		e.Write([]byte(c.end))
		b, elided := e.Line()
		if !elided {
			t.Fatal("not elided")
		}
		found := false
		Agent{}.NewReader(agent.Facts{}).Read(agent.Line{Bytes: b, Elided: true}, func(r agent.Reading) { found = found || c.want(r) })
		if !found {
			t.Errorf("no such reading of %.100s", b)
		}
	}
}
