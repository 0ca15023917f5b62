package rein

import (
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/boundary"
	"github.com/rein-run/rein/host/driver"
)

func code(n int) *int { return &n }

// digested makes a digest as a reader would fill it.
func digested(readings ...agent.Reading) *digest {
	d := &digest{}
	for _, r := range readings {
		d.read(r)
	}
	return d
}

var (
	worked = agent.Reading{Kind: agent.KindToolStarted, Tool: &agent.Tool{ID: "1", Name: "bash", Command: "true"}}
	done   = agent.Reading{Kind: agent.KindTurnEnded, OK: true, Text: "done"}
)

func failed(class agent.Class, text string) agent.Reading {
	return agent.Reading{Kind: agent.KindTurnEnded, Failure: &agent.Failure{Class: class, Text: text}}
}

func TestVerdict(t *testing.T) {
	caps := agent.Capabilities{Terminal: true, Usage: true}
	for _, c := range []struct {
		name     string
		d        *digest
		exit     driver.Exit
		stop     *stop
		end      End
		ok       bool
		code     int
		findings string // kinds, in order
	}{
		{
			"finished", digested(worked, done),
			driver.Exit{Reason: driver.Exited, Code: code(0)},
			nil,
			End{Kind: Exited},
			true, 0, "",
		},
		{
			"exited before the first signal beats the clock", digested(worked, done),
			driver.Exit{Reason: driver.Exited, Code: code(0)},
			&stop{end: End{Kind: TimedOut, Detail: "idle"}},
			End{Kind: Exited},
			true, 0, "",
		},
		{
			"exit 0 is no success", digested(worked, failed(agent.Other, "model exploded")),
			driver.Exit{Reason: driver.Exited, Code: code(0)},
			nil,
			End{Kind: Exited},
			false, 1, "reported_error",
		},
		{
			"a login that failed", digested(failed(agent.Auth, "401")),
			driver.Exit{Reason: driver.Exited, Code: code(1)},
			nil,
			End{Kind: Exited},
			false, 1, "auth exit_nonzero",
		},
		{
			"a retry that was overcome is no finding",
			digested(agent.Reading{Kind: agent.KindRetry, Failure: &agent.Failure{Class: agent.Overloaded, Text: "529"}}, worked, done),
			driver.Exit{Reason: driver.Exited, Code: code(0)},
			nil,
			End{Kind: Exited},
			true, 0, "",
		},
		{
			"success claimed, exit 1", digested(worked, done),
			driver.Exit{Reason: driver.Exited, Code: code(1)},
			nil,
			End{Kind: Exited},
			false, 1, "exit_nonzero",
		},
		{
			"no terminal event", digested(worked),
			driver.Exit{Reason: driver.Exited, Code: code(0)},
			nil,
			End{Kind: Exited},
			false, 1, "terminal_event_missing",
		},
		{
			"success without any work", digested(agent.Reading{Kind: agent.KindTurnEnded, OK: true, Text: "Nothing to do."}),
			driver.Exit{Reason: driver.Exited, Code: code(0)},
			nil,
			End{Kind: Exited},
			false, 1, "no_work",
		},
		{
			"a slash command that there is not", digested(agent.Reading{Kind: agent.KindTurnEnded, OK: true, Text: "Unknown command: /x"}),
			driver.Exit{Reason: driver.Exited, Code: code(0)},
			nil,
			End{Kind: Exited},
			false, 1, "unknown_command",
		},
		{
			"killed by a stranger", digested(worked),
			driver.Exit{Reason: driver.Signaled, Signal: "SIGSEGV"},
			nil,
			End{Kind: Exited},
			false, 1, "terminal_event_missing signaled",
		},
		{
			"stopped on a clock", digested(worked),
			driver.Exit{Reason: driver.Killed, Signal: "SIGTERM"},
			&stop{end: End{Kind: TimedOut, Detail: "tool"}},
			End{Kind: TimedOut, Detail: "tool"},
			false, 3, "",
		},
		{
			"stayed after its result", digested(worked, done),
			driver.Exit{Reason: driver.Killed, Code: code(143)},
			&stop{end: End{Kind: Exited, Forced: true}},
			End{Kind: Exited, Forced: true},
			true, 0, "",
		},
		{
			"limit after the result", digested(worked, done),
			driver.Exit{Reason: driver.Killed, Code: code(143)},
			&stop{end: End{Kind: Exited, Forced: true}, late: "total"},
			End{Kind: Exited, Forced: true},
			true, 0, "limit_after_result",
		},
		{
			"survivors", digested(worked, done),
			driver.Exit{Reason: driver.Exited, Code: code(0), Survivors: []driver.Proc{{PID: 7, Name: "rooted"}}},
			nil,
			End{Kind: Exited},
			false, 9, "survivors",
		},
		{
			"leftovers are a warning", digested(worked, done),
			driver.Exit{Reason: driver.Exited, Code: code(0), Leftovers: []driver.Proc{{PID: 7, Name: "sleep"}}},
			nil,
			End{Kind: Exited},
			true, 0, "leftovers",
		},
		{
			"lost", digested(worked),
			driver.Exit{Reason: driver.Lost, Detail: "stream"},
			nil,
			End{Kind: Lost, Detail: "stream"},
			false, 8, "",
		},
		{
			"full disk", digested(worked),
			driver.Exit{Reason: driver.Failed, Detail: "spool: no space left on device"},
			nil,
			End{Kind: Aborted, Detail: "spool: no space left on device"},
			false, 10, "",
		},
		{
			"gave up", digested(agent.Reading{Kind: agent.KindRetry, Failure: &agent.Failure{Class: agent.Auth, Text: "401 no"}}),
			driver.Exit{Reason: driver.Killed, Code: code(143)},
			&stop{end: End{Kind: GaveUp, Detail: "auth"}, evidence: "401 no"},
			End{Kind: GaveUp, Detail: "auth"},
			false, 11, "auth",
		},
		{
			"interrupted", digested(worked),
			driver.Exit{Reason: driver.Killed, Signal: "SIGTERM"},
			&stop{end: End{Kind: Cancelled, Detail: CancelInterrupt}},
			End{Kind: Cancelled, Detail: CancelInterrupt},
			false, 130, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep := &Report{Boundary: Boundary{Checked: true, Clean: true}}
			end := decideEnd(c.exit, c.stop)
			fill(rep, c.d, end, c.exit, c.stop, caps, nobody{}, "")
			if rep.End != c.end {
				t.Errorf("end = %+v, want %+v", rep.End, c.end)
			}
			if rep.OK != c.ok || rep.ExitCode() != c.code {
				t.Errorf("ok %v exit %d, want %v %d", rep.OK, rep.ExitCode(), c.ok, c.code)
			}
			var kinds []string
			for _, f := range rep.Findings {
				kinds = append(kinds, f.Kind)
			}
			if got := strings.Join(kinds, " "); got != c.findings {
				t.Errorf("findings %q, want %q", got, c.findings)
			}
			if rep.OK != (rep.Failure == "") {
				t.Errorf("ok %v with failure %q", rep.OK, rep.Failure)
			}
		})
	}
}

type nobody struct{}

func (nobody) String(s string) string { return s }

// The boundary comes before everything but not started: what left the machine
// matters more than how the run ended.
func TestExitCodeOrder(t *testing.T) {
	crossed := Boundary{Checked: true, Changes: []Change{{What: "committed"}}}
	left := []driver.Proc{{PID: 1}}
	for _, c := range []struct {
		r    Report
		want int
	}{
		{Report{End: End{Kind: NotStarted}, Boundary: crossed}, 7},
		{Report{End: End{Kind: TimedOut}, Boundary: crossed, Survivors: left}, 6},
		{Report{End: End{Kind: TimedOut}, Survivors: left}, 9},
		{Report{End: End{Kind: Cancelled, Detail: CancelHangup}}, 129},
		{Report{End: End{Kind: Cancelled, Detail: CancelTerminate}}, 143},
		{Report{End: End{Kind: Cancelled, Detail: CancelContext}}, 130},
		{Report{End: End{Kind: OverBudget}}, 5},
		{Report{End: End{Kind: Halted}}, 4},
		{Report{End: End{Kind: Exited}}, 1},
		{Report{End: End{Kind: Exited}, OK: true}, 0},
	} {
		if got := c.r.ExitCode(); got != c.want {
			t.Errorf("%+v: exit %d, want %d", c.r.End, got, c.want)
		}
	}
}

func TestSameModel(t *testing.T) {
	for _, c := range []struct {
		asked, used string
		same        bool
	}{
		{"claude-opus-5-5", "claude-opus-5-5", true},
		{"opus", "claude-opus-5-5", true},
		{"Claude-Opus-5", "claude-opus-5-20270101", true},
		{"anthropic/claude-opus-5-5", "claude-opus-5-5", true},
		{"claude-opus-5-5", "claude-opus-5-5[1m]", true},
		{"opus", "claude-sonnet-5", false},
		{"opus[1m]", "claude-opus-5-5", true},
		{"us.anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5", false}, // a version of a provider's own, which cannot be told
		{"us.anthropic.claude-opus-5-5", "claude-opus-5-5", true},
		{"claude-opus-5-5@20270101", "claude-opus-5-5", true},
		{"sonnet:high", "anthropic/claude-sonnet-5", true},
		{"default", "claude-sonnet-5", true},
		{"gpt-6", "gpt-60", false},
	} {
		if got := sameModel(c.asked, c.used); got != c.same {
			t.Errorf("sameModel(%q, %q) = %v", c.asked, c.used, got)
		}
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("é", 400)
	got := clip(long, maxEvidence)
	if len(got) > maxEvidence || !strings.HasSuffix(got, "…") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("clip cut inside a rune: %q", got)
	}
	if got := clip("a\n\tb\xffc", 10); got != "a b\uFFFDc" {
		t.Errorf("clip: %q", got)
	}
}

// The failure never shows the argv, and prefers the stream's own words.
func TestFailureLine(t *testing.T) {
	d := digested(agent.Reading{Kind: agent.KindUnknown, Text: "plain words"})
	end := End{Kind: Exited}
	exit := driver.Exit{Reason: driver.Exited, Code: code(3)}
	if got := failureLine(d, end, exit, nil, nil, "from stderr"); got != "the agent failed (exit 3): plain words" {
		t.Errorf("plain lines: %q", got)
	}
	if got := failureLine(&digest{}, end, exit, nil, nil, "from stderr"); got != "the agent failed (exit 3): from stderr" {
		t.Errorf("stderr: %q", got)
	}
	d = digested(agent.Reading{Kind: agent.KindUnknown, Text: "plain"}, failed(agent.Other, "its own words"))
	if got := failureLine(d, end, exit, nil, nil, "x"); got != "the agent failed (exit 3): its own words" {
		t.Errorf("own words: %q", got)
	}
}

// What a limit's end is told by, and what does not make it forgotten.
func TestDigestKeepsTheReset(t *testing.T) {
	at := time.Now().Add(time.Hour).UTC()
	var d digest
	d.read(agent.Reading{Kind: agent.KindError, Failure: &agent.Failure{Class: agent.RateLimit, Until: &at}})
	d.read(agent.Reading{Kind: agent.KindTurnEnded, Failure: &agent.Failure{Class: agent.RateLimit, Text: "429"}})
	if u := d.failure.Until; u == nil || !u.Equal(at) {
		t.Errorf("forgotten: %v", u)
	}
	// A wait that the CLI announces is one from now, unless the readings are old.
	for _, live := range []bool{true, false} {
		d := digest{live: live}
		d.read(agent.Reading{Kind: agent.KindRetry, After: time.Hour, Failure: &agent.Failure{Class: agent.RateLimit}})
		u := d.failure.Until
		if (u != nil) != live || live && (u.Before(at) || u.After(at.Add(time.Minute))) {
			t.Errorf("live %v: %v", live, u)
		}
	}
}

// A cut network is a finding of its own, in the agent's words.
func TestNetworkFinding(t *testing.T) {
	var d digest
	d.read(agent.Reading{Kind: agent.KindTurnEnded, Failure: agent.Fail(0, "connect ECONNREFUSED 127.0.0.1:1")})
	got := findings(&d, End{Kind: Exited}, driver.Exit{}, nil, agent.Capabilities{Terminal: true}, "", Boundary{})
	if len(got) != 1 || got[0].Kind != FoundNetwork || got[0].Evidence != "connect ECONNREFUSED 127.0.0.1:1" || got[0].Severity != Error {
		t.Errorf("%+v", got)
	}
}

// What left the boundary comes first, whatever ended the run; and a remote that
// fell silent during the run is said.
func TestBoundaryComesFirst(t *testing.T) {
	end := End{Kind: Cancelled, Detail: CancelInterrupt}
	b := Boundary{Checked: true, Changes: []Change{{What: "committed", Ref: "refs/heads/main"}}, Remotes: []boundary.RemoteState{
		{Name: "origin", Why: boundary.AfterTheRun + "no such directory"}, {Name: "other", Why: "before the run: no such directory"},
	}}
	d := &digest{}
	found := findings(d, end, driver.Exit{}, nil, agent.Capabilities{}, "", b)
	if got := failureLine(d, end, driver.Exit{}, nil, found, ""); got != "left the boundary: committed refs/heads/main; cancelled by SIGINT" {
		t.Errorf("%q", got)
	}
	silent := 0
	for _, f := range found {
		if f.Kind == FoundRemoteSilent {
			silent++
		}
	}
	if silent != 1 {
		t.Errorf("%+v", found)
	}
}
