package rein

import (
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/boundary"
	"github.com/rein-run/rein/host/driver"
)

// Schemas of what Rein writes for other programs. Within a schema fields may be
// added, never renamed, never given another meaning.
const (
	ReportSchema = "rein.report/1"
	EventSchema  = "rein.event/1"
	stateSchema  = "rein.run/1"
)

// Report is the proof of one run: how it ended, what was found, what it cost.
// docs/report.md describes each field.
type Report struct {
	Schema string            `json:"schema"`
	ID     string            `json:"id"`
	Labels map[string]string `json:"labels"`
	Parent string            `json:"parent"` // id of the run inside which this one was started
	// Attempt counts the runs on one task, from 1; RetryOf is the id of the
	// first, "" for the first itself. See Retry.
	Attempt int    `json:"attempt"`
	RetryOf string `json:"retry_of"`
	// Attempts are all of them so far, this one the last; empty when it is the
	// only one.
	Attempts []Attempt `json:"attempts"`

	Agent        string             `json:"agent"`
	AgentVersion string             `json:"agent_version"`
	Host         string             `json:"host"`
	Containment  driver.Containment `json:"containment"`
	Model        string             `json:"model"`      // asked for; "" is the CLI's own default
	ModelUsed    string             `json:"model_used"` // as the agent reported it

	Dir       string    `json:"dir"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`

	OK           bool   `json:"ok"`
	Answer       string `json:"answer"`
	LastActivity string `json:"last_activity"`
	SessionID    string `json:"session_id"`
	Billing      string `json:"billing"` // subscription, key:NAME or unknown

	End      End       `json:"end"`
	Exit     Exit      `json:"exit"`
	Failure  string    `json:"failure"` // one line for a person, "" when OK
	Findings []Finding `json:"findings"`

	Usage Usage `json:"usage"`
	// Nested are the runs that the agent started by itself; their usage is not in
	// Usage, and counts for the budgets of this run.
	Nested    []Nested  `json:"nested"`
	Resources Resources `json:"resources"`

	Leftovers []driver.Proc `json:"leftovers"`
	Survivors []driver.Proc `json:"survivors"`

	Rules      *Rules   `json:"rules"` // null: none were given
	Guard      Guard    `json:"guard"`
	Gate       Gate     `json:"gate"`
	Sandbox    Sandbox  `json:"sandbox"`
	Boundary   Boundary `json:"boundary"`
	Transcript Bytes    `json:"transcript"`
	Stderr     Bytes    `json:"stderr"`
}

// EndKind says who or what ended a run.
type EndKind string

const (
	Exited     EndKind = "exited"      // the agent, by itself; with Forced: after its terminal event
	TimedOut   EndKind = "timed_out"   // Detail: startup, idle, tool, stall, total
	Halted     EndKind = "halted"      // Detail: the command, or HaltedByGate
	OverBudget EndKind = "over_budget" // Detail: tokens, cost, subagents, output, memory, processes
	GaveUp     EndKind = "gave_up"     // Detail: auth, billing, limit; waiting could not have helped
	Cancelled  EndKind = "cancelled"   // Detail: by whom
	Lost       EndKind = "lost"        // Detail: stream, supervisor_died
	Aborted    EndKind = "aborted"     // Detail: Rein's own failure, a full disk for example
	NotStarted EndKind = "not_started" // Detail: the cause
)

// HaltedByGate is the detail of Halted when a tool ran that the gate had not
// allowed: whatever made the agent ask does so no more.
const HaltedByGate = "gate"

// End is who or what ended the run. It is mechanical and authoritative.
type End struct {
	Kind   EndKind `json:"kind"`
	Detail string  `json:"detail"`
	// Forced says that Rein ended a process whose work was done: a terminal
	// event had been read and the completion clock ran out.
	Forced bool `json:"forced"`
}

// Exit is how the leader went: a code or a signal, never both, never merged.
type Exit struct {
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
}

// Severity of a finding.
type Severity string

const (
	Error   Severity = "error"   // the run is not OK
	Warning Severity = "warning" // the user should know
)

// Finding is something read or checked that the user should know.
type Finding struct {
	Kind     string     `json:"kind"`
	Severity Severity   `json:"severity"`
	Evidence string     `json:"evidence"` // in the agent's or git's own words, redacted
	Until    *time.Time `json:"until,omitempty"`
}

// Finding kinds.
const (
	FoundReportedError   = "reported_error"
	FoundAuth            = "auth"
	FoundRateLimited     = "rate_limited"
	FoundOverloaded      = "overloaded"
	FoundBilling         = "billing"
	FoundNetwork         = "network"
	FoundUnknownCommand  = "unknown_command"
	FoundNoWork          = "no_work"
	FoundExitNonzero     = "exit_nonzero"
	FoundSignaled        = "signaled"
	FoundTerminalMissing = "terminal_event_missing"
	FoundSurvivors       = "survivors"
	FoundBoundary        = "boundary"
	FoundTranscript      = "transcript_damaged"
	FoundRulesLeft       = "rules_left"  // the rules could not be taken out of their file again
	FoundGateSilent      = "gate_silent" // a tool ran that the gate had not allowed

	FoundForbidden = "forbidden" // the command for which the run was halted

	FoundRefused          = "refused" // by the gate, before it ran
	FoundWarned           = "warned"  // it ran, and a rule says that you should know
	FoundDenied           = "permission_denied"
	FoundModelDiffers     = "model_differs"
	FoundLeftovers        = "leftovers"
	FoundLimitAfterResult = "limit_after_result"
	FoundBudgetBlind      = "budget_blind" // a budget that could not be enforced as it was meant
	FoundStdoutHeld       = "stdout_held"
	FoundMovedByOthers    = "moved_by_others"
	FoundRemoteSilent     = "remote_silent" // it answered before the run and not after
)

// Usage is what the run used. Input excludes what came from a cache, for every
// agent. Numbers never go down while a run lives.
type Usage struct {
	InputTokens      int64   `json:"input_tokens"`
	OutputTokens     int64   `json:"output_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens"`
	CacheWriteTokens int64   `json:"cache_write_tokens"`
	DelegatedTokens  int64   `json:"delegated_tokens"`
	Subagents        int     `json:"subagents"`
	ToolCalls        int     `json:"tool_calls"`
	CostUSD          float64 `json:"cost_usd"`
	CostSource       string  `json:"cost_source"` // agent, table or none
}

// Resources are the machine's share of the cost.
type Resources struct {
	RSSMaxBytes int64   `json:"rss_max_bytes"` // highest sample of the whole tree
	CPUSeconds  float64 `json:"cpu_seconds"`   // user and system, the whole tree
}

// Bytes names a file of the run and what is in it.
type Bytes struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"`
}

// Boundary is what was compared of the repository after the run.
type Boundary struct {
	Checked bool   `json:"checked"`
	Why     string `json:"why,omitempty"` // why nothing could be checked
	// Clean: nothing counts against the run.
	Clean   bool     `json:"clean"`
	Changes []Change `json:"changes"` // that count against the run
	Allowed []Change `json:"allowed"` // that were granted to it
	Others  []Change `json:"others"`  // that are somebody else's; By says whose
	// Remotes says of each URL that the repository knew whether it was compared.
	Remotes []boundary.RemoteState `json:"remotes"`
	Unseen  []string               `json:"unseen"` // what is there and was not looked at
}

// Change is one difference between before and after.
type Change struct {
	What    string `json:"what"` // in words: committed, branch switched …
	Ref     string `json:"ref"`
	Before  string `json:"before"`
	After   string `json:"after"`
	Restore string `json:"restore"`        // the command that puts it back
	Kept    string `json:"kept,omitempty"` // the reference that keeps what Restore needs
	By      string `json:"by,omitempty"`   // "run ID", "others"
}

// Exit codes of `rein run`. The first that holds, in the order of this list,
// is the one; see Report.ExitCode.
const (
	ExitOK         = 0
	ExitFailed     = 1 // the agent failed
	ExitUsage      = 2
	ExitTimedOut   = 3
	ExitHalted     = 4
	ExitOverBudget = 5
	ExitBoundary   = 6
	ExitNotStarted = 7
	ExitLost       = 8
	ExitSurvivors  = 9
	ExitAborted    = 10
	ExitGaveUp     = 11
	ExitHangup     = 129
	ExitInterrupt  = 130
	ExitQuit       = 131
	ExitTerminate  = 143
)

// ExitCode is the exit code of `rein run` for this report.
func (r *Report) ExitCode() int {
	if r.End.Kind == NotStarted {
		return ExitNotStarted
	}
	if len(r.Boundary.Changes) > 0 {
		return ExitBoundary
	}
	if len(r.Survivors) > 0 {
		return ExitSurvivors
	}
	switch r.End.Kind {
	case TimedOut:
		return ExitTimedOut
	case Halted:
		return ExitHalted
	case OverBudget:
		return ExitOverBudget
	case Lost:
		return ExitLost
	case Aborted:
		return ExitAborted
	case GaveUp:
		return ExitGaveUp
	case Cancelled:
		switch r.End.Detail {
		case CancelHangup:
			return ExitHangup
		case CancelTerminate, CancelStop:
			return ExitTerminate
		case CancelQuit:
			return ExitQuit
		}
		return ExitInterrupt
	}
	if !r.OK {
		return ExitFailed
	}
	return ExitOK
}

// Who cancelled a run: the details of Cancelled.
const (
	CancelInterrupt = "SIGINT"
	CancelTerminate = "SIGTERM"
	CancelHangup    = "SIGHUP"
	CancelQuit      = "SIGQUIT" // without a grace
	CancelStop      = "rein runs stop"
	CancelContext   = "context"
)

// Event is one line of `rein run --json`.
type Event struct {
	Schema  string         `json:"schema,omitempty"` // on the first line only
	Type    string         `json:"type"`             // reading, retry, report, detached
	Offset  int64          `json:"offset,omitempty"` // of the line in the transcript
	Reading *agent.Reading `json:"reading,omitempty"`
	Report  *Report        `json:"report,omitempty"` // retry: of the attempt that failed
	Pause   *Pause         `json:"pause,omitempty"`  // retry: what follows

	// Of detached, which is the only line: the run, its directory, and the
	// process that supervises it in the background.
	ID     string `json:"id,omitempty"`
	RunDir string `json:"run_dir,omitempty"`
	PID    int    `json:"pid,omitempty"`
}
