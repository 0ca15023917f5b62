package claude

import (
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/internal/golden"
)

func factsOf(name string) agent.Facts {
	_, v, _ := strings.Cut(name, "_claude-")
	v, _, _ = strings.Cut(v, "_")
	return agent.Facts{Version: v}
}

func TestGolden(t *testing.T) { golden.All(t, Agent{}, factsOf) }

func read(t *testing.T, name string) golden.Readings {
	t.Helper()
	name += "_2026-11-30"
	return golden.File(t, Agent{}, factsOf(name), name)
}

func TestToolCall(t *testing.T) {
	for _, v := range []string{"2.1.197", "2.1.332"} {
		rs := read(t, "bash-skipperm-sandbox_claude-"+v)
		started, finished := rs.Of(agent.KindToolStarted), rs.Of(agent.KindToolFinished)
		if len(started) != 1 || started[0].Tool.Command != "touch made-by-tool && echo ok" || started[0].Tool.Name != "Bash" {
			t.Errorf("%s: started %+v", v, started)
		}
		if len(finished) != 1 || finished[0].Tool.ID != started[0].Tool.ID || finished[0].Tool.Failed {
			t.Errorf("%s: finished %+v", v, finished)
		}
		if s := rs.Last(t, agent.KindSession); s.Version != v || s.SessionID == "" || s.Model == "" {
			t.Errorf("%s: session %+v", v, s)
		}
		if end := rs.Last(t, agent.KindTurnEnded); !end.OK || end.Text != "All done." || end.Failure != nil {
			t.Errorf("%s: end %+v", v, end)
		}
	}
}

// The assistant lines repeat the placeholder of message_start (1 output
// token); the truth is in message_delta.
func TestUsageIsNotThePlaceholder(t *testing.T) {
	for _, v := range []string{"2.1.197", "2.1.332"} {
		last := map[string]int64{}
		rs := read(t, "bash-skipperm-sandbox_claude-"+v)
		for _, r := range rs.Of(agent.KindUsage) {
			if r.Usage.Scope == agent.PerRequest {
				last[r.Usage.ID] = r.Usage.Output
			}
		}
		if len(last) != 2 {
			t.Errorf("%s: %d requests, want 2", v, len(last))
		}
		for id, out := range last {
			if out != 50 {
				t.Errorf("%s: %s ends with %d output tokens, want 50", v, id, out)
			}
		}
	}
}

// subtype is "success" in all of these.
func TestFailureBeatsSubtype(t *testing.T) {
	for _, c := range []struct {
		name   string
		class  agent.Class
		status int
		text   string
	}{
		{"err401-retries0_claude-2.1.332", agent.Auth, 401, "Invalid API key"},
		{"err401_claude-2.1.197", agent.Auth, 401, ""},
		{"err401-nokey_claude-2.1.197", agent.Auth, 0, "Not logged in"},
		{"err401-nokey_claude-2.1.332", agent.Auth, 0, "Not logged in"},
		{"err403_claude-2.1.332", agent.Auth, 403, ""},
		{"err429-longretry_claude-2.1.332", agent.RateLimit, 429, "429"},
		{"err429-ratelimit-unified_claude-2.1.197", agent.RateLimit, 429, ""},
		{"err500-retries1_claude-2.1.332", agent.Overloaded, 500, ""},
		{"err400_claude-2.1.332", agent.Other, 400, "too long"},
		{"max-turns_claude-2.1.332", agent.Limit, 0, "maximum number of turns"},
		{"max-budget_claude-2.1.197", agent.Limit, 0, "maximum budget"},
		{"fg-int_claude-2.1.332", agent.Cancelled, 0, "interrupted"},
		{"hang-mid-int_claude-2.1.332", agent.Cancelled, 0, "interrupted"},
		{"resume-unknown_claude-2.1.332", agent.Other, 0, "No conversation found"},
		{"resume-unknown_claude-2.1.197", agent.Other, 0, "No conversation found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rs := read(t, c.name)
			var f *agent.Failure
			if ends := rs.Of(agent.KindTurnEnded); len(ends) > 0 {
				end := ends[len(ends)-1]
				if end.OK {
					t.Fatalf("OK is true: %+v", end)
				}
				f = end.Failure
			} else {
				f = rs.Last(t, agent.KindRetry).Failure // cut before the retries were used up
			}
			if f == nil || f.Class != c.class || f.Status != c.status || !strings.Contains(f.Text, c.text) {
				t.Errorf("failure %+v, want class %s status %d text %q", f, c.class, c.status, c.text)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	rs := read(t, "err401_claude-2.1.332")
	retries := rs.Of(agent.KindRetry)
	if len(retries) < 2 {
		t.Fatalf("%d retries", len(retries))
	}
	r := retries[1]
	if r.Attempt != 2 || r.Failure.Class != agent.Auth || r.After.Milliseconds() != 1147 {
		t.Errorf("second retry %+v %+v", r, r.Failure)
	}
	if n := len(rs.Of(agent.KindTurnEnded)); n != 0 {
		t.Errorf("%d ends in a stream that was cut", n)
	}
}

func TestDenials(t *testing.T) {
	for _, v := range []string{"2.1.197", "2.1.332"} {
		d := read(t, "bash-default_claude-"+v).Of(agent.KindDenied)
		if len(d) != 1 || d[0].Tool.Name != "Bash" || d[0].Tool.ID == "" {
			t.Errorf("%s: %+v", v, d)
		}
	}
}

// 2.1.332 stays alive for a background task after its result, then begins a
// turn by itself and prints a second result.
func TestBackgroundTasks(t *testing.T) {
	rs := read(t, "run-in-bg-py_claude-2.1.332")
	var order []string
	for _, r := range rs {
		switch r.Kind {
		case agent.KindTasks:
			order = append(order, "tasks"+string(rune('0'+r.Tasks)))
		case agent.KindTurnStarted, agent.KindTurnEnded:
			order = append(order, string(r.Kind))
		}
	}
	want := "turn_started tasks1 tasks1 turn_ended tasks1 tasks1 tasks0 turn_started turn_ended"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if end := rs.Last(t, agent.KindTurnEnded); end.Text != "done" {
		t.Errorf("answer %q", end.Text)
	}
	// 2.1.197 has no list: it is kept from what starts and stops.
	if last := read(t, "run-in-bg-py_claude-2.1.197").Last(t, agent.KindTasks); last.Tasks != 0 {
		t.Errorf("2.1.197: %d tasks open at the end", last.Tasks)
	}
}

// The list is the whole truth where there is one; without one, a task in the
// foreground is none.
func TestTaskList(t *testing.T) {
	const listed = `{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"a"}]}` + "\n"
	const started = `{"type":"system","subtype":"task_started","task_id":"b"}` + "\n"
	const front = `{"type":"system","subtype":"task_started","task_id":"c","is_backgrounded":false}` + "\n"
	for stream, want := range map[string]int{listed + started: 1, started + listed: 1, started: 1, front: 0, started + front: 1} {
		rs := golden.Read(t, Agent{}.NewReader(agent.Facts{}), []byte(stream))
		if got := rs.Last(t, agent.KindTasks).Tasks; got != want {
			t.Errorf("%d open after\n%s", got, stream)
		}
	}
}

func TestSubAgent(t *testing.T) {
	r := Agent{}.NewReader(agent.Facts{})
	rs := golden.Read(t, r, []byte(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","model":"claude-haiku-4-5","usage":{"input_tokens":7,"output_tokens":1}}},"parent_tool_use_id":"toolu_1"}
{"type":"stream_event","event":{"type":"message_start","message":{"id":"m2","model":"claude-opus-4-8","usage":{"input_tokens":9,"output_tokens":1}}},"parent_tool_use_id":null}
{"type":"stream_event","event":{"type":"message_delta","delta":{},"usage":{"output_tokens":30}},"parent_tool_use_id":"toolu_1"}
{"type":"assistant","message":{"id":"m2","model":"claude-opus-4-8","content":[{"type":"tool_use","id":"toolu_9","name":"Task","input":{"prompt":"x","description":"y"}},{"type":"tool_use","id":"toolu_8","name":"Edit","input":{"file_path":"/a/watch/clock.go"}}]},"parent_tool_use_id":null}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_7","is_error":true,"content":"Exit code 137\nkilled"}]},"parent_tool_use_id":"toolu_1"}`))
	u := rs.Of(agent.KindUsage)
	if len(u) != 3 || u[2].SubAgent != "toolu_1" || u[2].Usage.ID != "m1" || u[2].Usage.Input != 7 || u[2].Usage.Output != 30 || u[2].Usage.Model != "claude-haiku-4-5" {
		t.Errorf("usage %+v %+v", u, u[len(u)-1].Usage)
	}
	ts := rs.Of(agent.KindToolStarted)
	if len(ts) != 2 || !ts[0].Tool.Spawns || !ts[1].Tool.Writes || ts[1].Activity != "editing watch/clock.go" {
		t.Errorf("tools %+v", ts)
	}
	f := rs.Last(t, agent.KindToolFinished)
	if f.SubAgent != "toolu_1" || f.Tool.Exit == nil || *f.Tool.Exit != 137 || !f.Tool.Failed {
		t.Errorf("finished %+v", f.Tool)
	}
	// The model of a sub-agent is not the model of the run.
	for _, s := range rs.Of(agent.KindSession) {
		if s.Model == "claude-haiku-4-5" {
			t.Error("a sub-agent's model was told as the run's")
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"type":"result","is_error":1,"usage":{"input_tokens":-1e400},"errors":{}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"Exit code `,
		`{"type":"stream_event","event":{"type":"message_start","message":{"id":7}}}`,
		`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"\u0041\"}"},7,{"type":"tool_use","input":[]}],"usage":{"input_tokens":3}}}`,
		`{"type":"assistant","message":{"model":"<synthetic>","content":{"text":1}},"error":{}}`,
		`{"type":"system","subtype":"background_tasks_changed","tasks":[{}]}`, "\x00\xff", "[[[[",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		golden.Read(t, Agent{}.NewReader(agent.Facts{}), b)
	})
}
