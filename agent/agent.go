// Package agent is the vocabulary between Rein and the coding-agent CLIs: what
// an agent is asked (Invocation), how its command is built (Command), and the
// facts that are read from what it writes (Reading). All that is known about
// one CLI lives in the folder of that CLI.
package agent

import (
	"time"

	"github.com/rein-run/rein/host/driver"
)

// Agent knows one coding-agent CLI. Implementations are values without state.
type Agent interface {
	// Name is the name that users type, lower case: "claude".
	Name() string
	// Capabilities says what the CLI can do at a version as Facts give it; ""
	// is the newest that is known.
	Capabilities(version string) Capabilities
	// Command builds the command. It is pure: no file is written, no process
	// started, nothing read but its arguments. What is unsupported or
	// contradictory is an *Error that names the alternative.
	Command(Invocation, Facts) (Command, error)
}

// Optional abilities of an Agent, found by assertion.
type (
	// Decoder makes a Reader for the transcript of one run.
	Decoder interface {
		NewReader(Facts) Reader
	}
	// Prober says how the CLI is asked for its version.
	Prober interface {
		// VersionArgs are the arguments that print the version and end at once.
		VersionArgs() []string
		// ParseVersion reads it from what was printed; "" when it is not there.
		// output is stdout and stderr together: pi 0.73.1 prints it on stderr.
		ParseVersion(output []byte) string
	}
)

// Reader turns the lines of one stdout stream into readings, in order. It is
// used by one goroutine and keeps what it must remember between lines. It
// treats every line as hostile: it never panics and never grows without bound.
type Reader interface {
	// Read is given one line without its newline and calls emit for each
	// reading in it. line and the readings' raw bytes are valid only during
	// the call. A line it does not know is a reading of kind Unknown.
	Read(line Line, emit func(Reading))
	// End is called once, after the last line.
	End(emit func(Reading))
}

// Line is one line of the transcript.
type Line struct {
	Bytes []byte // without the newline; elided when Elided
	// Elided says that the line was longer than a Reader is given
	// (transcript.MaxLine) and that long strings inside were shortened; the
	// transcript has all of it.
	Elided bool
	Offset int64 // of the first byte in the transcript
	Size   int64 // of the whole line, newline included
}

// Invocation is what an agent is asked.
type Invocation struct {
	Prompt  string
	Dir     string // working directory where the agent runs, absolute
	Model   string // "" is the CLI's own default
	Mode    Mode   // "" is Autonomous
	Session Session
	Effort  string // "" is the CLI's own default
	// Args are the user's own arguments for the CLI, put where its parser
	// takes options.
	Args []string
	// FilesDir is a directory where the agent runs in which Command.Files will
	// stand: "" when none can be placed.
	FilesDir string
	// Withhold is what the CLI's own flags are to refuse, as far as it has such
	// flags: a hint, since "git -C . push" gets past those of every CLI.
	Withhold Withhold
	// Limits is a text that the agent is told beside the prompt: Markdown, "" for
	// none. It goes where the CLI has a place for it that is neither the prompt
	// nor the user's own files, else behind the prompt.
	Limits string
	// Gate makes the CLI ask before it runs a tool; nil: it does not. Only for
	// an agent whose Capabilities say Gate.
	Gate *Hook
	// Rules is the text of the user's rules, given to the agent as it stands; ""
	// for none.
	Rules string
	// RulesBy is the way they take; "" is the first of Capabilities.Rules.
	RulesBy RuleChannel
	// Observer asks for a look from outside: read-only, without the user's own
	// configuration and without a shell. Only where Capabilities say so.
	Observer bool
	// Schema is a JSON schema, an object, that the answer has to match; nil for
	// none. Only where Capabilities say so.
	Schema []byte
	// Boxed says that the run is in a sandbox already, which holds what Mode
	// asks for: a CLI's own would have to be made inside of it.
	Boxed bool
}

// Withhold is what a CLI is to refuse by its own means.
type Withhold struct {
	Commands []string // in words: "git push"
	Web      bool     // its tools that fetch from the web
}

// Mode is what the agent may do without asking.
type Mode string

const (
	Autonomous Mode = "autonomous" // everything, nobody is asked
	ReadOnly   Mode = "read-only"  // nothing is changed; the CLI's plan mode or read-only sandbox
)

// Session says which conversation the run belongs to. The zero value is a
// fresh one whose id the CLI chooses.
type Session struct {
	// Resume continues a session: an id as a Reading gave it, or "latest" for
	// the latest one in the directory.
	Resume string
}

// Facts are what can be known only where the agent runs, from one probe per
// host and binary.
type Facts struct {
	Version      string // of the CLI, "" when unknown
	OS           string // GOOS
	UID          int    // -1 where there is no such thing
	Home         string
	Path         string // PATH there
	Exe          string // absolute path of the executable
	GitCommonDir string // of Dir, "" outside a repository
}

// Command is how the CLI is started.
type Command struct {
	Argv  []string   // Argv[0] is the executable
	Env   driver.Env // set, over the user's own
	Unset []string   // removed, and the user's own value with it
	// Stdin is written to stdin, then end of file. nil: end of file at once.
	Stdin []byte
	// Files are placed in Invocation.FilesDir before the start, mode 0600.
	Files []File
	// SessionID is the session that the CLI was told to use, where that is known
	// before it says so itself: some tell it in their last line alone.
	SessionID string
	// Stop is what is sent before SIGKILL, in order. nil: terminate, then the
	// grace of the run.
	Stop []StopStep
}

// File is a file to place beside the run.
type File struct {
	Name string // base name
	Data []byte
}

// StopStep is one rung of the ladder that ends in SIGKILL.
type StopStep struct {
	Signal driver.Signal
	// Share of the run's grace that is waited after it, 0..1.
	Share float64
}

// Channel is the way a prompt takes to the CLI.
type Channel string

const (
	ByStdin Channel = "stdin"
	ByFile  Channel = "file"
	ByArg   Channel = "argument"
)

// Capabilities say what a CLI can do. The zero value is the most careful
// assumption.
type Capabilities struct {
	Executables []string // names to look for, in order
	Aliases     []string // other names a user may type for the agent
	Install     string   // the command that installs it: "npm install -g …"

	Modes    []Mode
	Resume   bool
	Efforts  []string
	Families []string // model families, or nil for any
	// StrictModels: a model of no known family is refused, because the CLI
	// would silently use another one.
	StrictModels bool
	// Reserved are flags that the user's Args may not hold, and why: "use …".
	Reserved map[string]string

	Prompt    Channel
	PromptMax int64 // bytes the CLI takes in one prompt, 0: no limit known

	// Announces: a first line is written before the model has answered, so a
	// start-up clock makes sense.
	Announces bool
	// Silent: nothing is written while the agent works, so idle = total.
	Silent bool
	// Terminal: success needs a terminal event; the exit code alone is no proof.
	Terminal bool
	// Tools: tool calls are visible as readings.
	Tools bool
	// Gate: the CLI asks a hook before it runs a tool, and the agent is a Gate.
	Gate bool
	// Usage: token counts are visible as readings.
	Usage bool
	// UsageLive: they come request by request while the agent works, and not
	// only when a turn ends. A budget can then end a run in the middle.
	UsageLive bool
	// Cost: the CLI tells money itself.
	Cost bool
	// CostLive is for Cost what UsageLive is for Usage.
	CostLive bool
	// TellsModel: readings say which model answers. Without it, tokens are
	// priced as those of the model that was asked for.
	TellsModel bool

	// Credentials are the variables that the CLI reads as credentials.
	Credentials []string
	// CredentialsIf are more of them, that count when a variable is set: claude
	// logs in with a cloud's keys only where it is told to use that cloud.
	CredentialsIf map[string][]string
	// Subscriptions are those of Credentials that log in to a subscription; what
	// the others pay for is counted by use.
	Subscriptions []string
	// AfterLogin are those of Credentials over which a login of the CLI's own wins.
	AfterLogin []string
	// EnvFiles are files of NAME=VALUE lines that the CLI reads by itself: below
	// Invocation.Dir, or below the home directory with "~/" in front.
	EnvFiles []string
	// Scrub are variables that are always removed (nested-agent markers).
	Scrub []string

	// Rules are the ways by which the CLI takes rules, the best first; none: it
	// takes no rules.
	Rules []RuleChannel
	// RulesFile is the file of RulesByFile, relative to Invocation.Dir, slashes:
	// "AGENTS.md".
	RulesFile string
	// Observer and Schema are what an Invocation may ask for.
	Observer bool
	Schema   bool
	// PTY: the CLI does not work without a terminal.
	PTY bool
	// Roams: the CLI may work elsewhere than in Invocation.Dir: in a worktree of
	// its own making, or in the main checkout of a linked one.
	Roams bool
	// Subagents: those of the agent are seen as readings, and can be counted.
	Subagents bool
	// Metered: every run costs money, whatever the login; else a subscription may
	// pay for it.
	Metered bool
}

// Kind is what a Reading tells.
type Kind string

const (
	KindSession      Kind = "session"       // Session, Model, Version
	KindTurnStarted  Kind = "turn_started"  // the agent began a turn
	KindText         Kind = "text"          // Text of the assistant, whole blocks
	KindThinking     Kind = "thinking"      // the model is thinking; Text may be empty
	KindToolStarted  Kind = "tool_started"  // Tool
	KindToolFinished Kind = "tool_finished" // Tool.ID, Tool.Failed
	KindUsage        Kind = "usage"         // Usage
	KindRetry        Kind = "retry"         // Failure, Attempt, After: the CLI repeats a request by itself
	KindDenied       Kind = "denied"        // Tool: the CLI's own permission system refused it
	KindTasks        Kind = "tasks"         // Tasks: background tasks of the agent's own that are open
	KindError        Kind = "error"         // Failure; not terminal
	KindTurnEnded    Kind = "turn_ended"    // the terminal event: OK, Text (the answer), Failure, Usage
	KindActivity     Kind = "activity"      // alive, nothing more is known
	KindUnknown      Kind = "unknown"       // a line that this version of Rein does not know
)

// Reading is one fact decoded from the transcript: the payload of --json
// (rein.event/1). It may be wrong; the bytes are not.
type Reading struct {
	Kind Kind `json:"kind"`
	// Activity is a phrase of a few words for a person: "running go test".
	// "" leaves the last one standing.
	Activity string `json:"activity,omitempty"`

	SessionID string `json:"session_id,omitempty"`
	Model     string `json:"model,omitempty"` // the model really used
	Version   string `json:"version,omitempty"`
	Text      string `json:"text,omitempty"`

	Tool    *Tool    `json:"tool,omitempty"`
	Usage   *Usage   `json:"usage,omitempty"`
	Failure *Failure `json:"failure,omitempty"`

	OK      bool          `json:"ok,omitempty"`      // KindTurnEnded: the turn succeeded
	Attempt int           `json:"attempt,omitempty"` // KindRetry, from 1
	After   time.Duration `json:"after,omitempty"`   // KindRetry: the wait the CLI announced, nanoseconds
	Tasks   int           `json:"tasks,omitempty"`   // KindTasks: how many are open

	// SubAgent is set on what a sub-agent of the agent did.
	SubAgent string `json:"sub_agent,omitempty"`
}

// Tool is one tool call.
type Tool struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Command string   `json:"command,omitempty"` // of a shell tool, as the CLI gave it
	Argv    []string `json:"argv,omitempty"`    // where the CLI gives an array
	Files   []string `json:"files,omitempty"`   // that it reads or writes
	Writes  bool     `json:"writes,omitempty"`  // it changes Files
	// Spawns says that the tool is a sub-agent.
	Spawns bool `json:"spawns,omitempty"`
	Failed bool `json:"failed,omitempty"`
	// NotRun says that nothing shows that the tool ran: the CLI gave the model
	// the answer (no such tool, wrong input, refused).
	NotRun bool `json:"not_run,omitempty"`
	Exit   *int `json:"exit,omitempty"`
}

// Usage is a count of tokens. Input excludes cache for every agent.
type Usage struct {
	// ID names the request or message that was counted: a later Usage with the
	// same ID replaces the earlier one where it is fuller. "" never replaces.
	ID         string  `json:"id,omitempty"`
	Model      string  `json:"model,omitempty"`
	Input      int64   `json:"input"`
	Output     int64   `json:"output"`
	CacheRead  int64   `json:"cache_read"`
	CacheWrite int64   `json:"cache_write"`
	CostUSD    float64 `json:"cost_usd,omitempty"`
	// Scope says what the numbers cover.
	Scope Scope `json:"scope"`
}

// Scope of a Usage.
type Scope string

const (
	PerRequest Scope = "request" // one model request
	PerTurn    Scope = "turn"    // the turn that just ended: at least the sum of its requests
	PerProcess Scope = "process" // cumulative since this process started
	PerThread  Scope = "thread"  // cumulative over the conversation, earlier runs included
)

// Class sorts failures by what helps against them.
type Class string

const (
	Auth       Class = "auth"         // credentials are wrong: waiting cannot help
	Billing    Class = "billing"      // no credit: waiting cannot help
	RateLimit  Class = "rate_limited" // Until says when, if known
	Overloaded Class = "overloaded"   // 5xx, 529: waiting helps
	Network    Class = "network"      // connection refused or cut
	Limit      Class = "limit"        // the CLI's own --max-turns, --max-budget
	Cancelled  Class = "cancelled"    // interrupted
	Other      Class = "other"

	UnknownCommand Class = "unknown_command" // a slash command that the CLI does not have
)

// Failure is an error in the agent's own words.
type Failure struct {
	Class  Class      `json:"class"`
	Text   string     `json:"text"` // the agent's words, at most a few hundred characters
	Status int        `json:"status,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
}
