// Package fakeagent is one program that acts as a coding-agent CLI: it speaks
// the wire form of one from a scenario, really runs its tools, and misbehaves in
// every way that was ever seen.
//
// Which CLI it is, it takes from the base name of argv[0]. A test links its own
// binary under the CLI's name (Install) and calls Reexec first in TestMain; a
// demo builds internal/fakeagent/cmd under that name.
package fakeagent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Variables that the program reads. They are removed from the environment of
// nothing: a tool that it runs sees them too.
const (
	EnvScenario = "FAKEAGENT_SCENARIO" // file name, or the JSON itself when it begins with "{"
	EnvRecord   = "FAKEAGENT_RECORD"   // file that gets one Record a line
	EnvPids     = "FAKEAGENT_PIDS"     // file that gets one Proc a line for every process started
)

// Scenario says what the program does. The zero value says hello and ends well.
type Scenario struct {
	Version string `json:"version,omitempty"` // what --version says; "" is the recorded one
	Model   string `json:"model,omitempty"`
	Session string `json:"session,omitempty"` // session or thread id; "" is a fresh one, or the one of --resume
	Before  Usage  `json:"before,omitzero"`   // codex: what the thread used in earlier runs
	// Stdin says when stdin is read: "" to its end before the first step (60 s
	// at most), "late" at the step stdin, "never".
	Stdin string `json:"stdin,omitempty"`
	// Record names the variables whose values are recorded beside the names.
	Record []string `json:"record,omitempty"`
	// Says is what it prints, and ends with 0, for these arguments in words:
	// "--help", "login status".
	Says map[string]string `json:"says,omitempty"`
	// Lax skips the refusals of the real CLIs (root, missing --verbose …).
	Lax bool `json:"lax,omitempty"`
	// Chunk cuts all output into writes of this many bytes. 0: as it comes.
	Chunk int `json:"chunk,omitempty"`
	// Steps are done in order. After the last one the program exits: with the
	// code that the real CLI has after the same terminal event.
	Steps []Step `json:"steps,omitempty"`
}

// Step is one thing to do. Do names it; which other fields matter stands
// beside each name in steps.go.
type Step struct {
	Do string `json:"do"`

	Text    string   `json:"text,omitempty"`
	Path    string   `json:"path,omitempty"`
	Command string   `json:"command,omitempty"` // for the shell
	Argv    []string `json:"argv,omitempty"`    // instead of Command; "{self}" is this program
	Input   any      `json:"input,omitempty"`   // tool input to show instead of the real one
	Tool    string   `json:"tool,omitempty"`    // tool name to show instead of the real one
	Usage   *Usage   `json:"usage,omitempty"`   // of the model request; nil: 100 in, 50 out
	// Sly commands look like "make" and drop what the environment says: no gate
	// and no hook of git sees them. bash, commit, push, branch
	Sly   bool   `json:"sly,omitempty"`
	More  bool   `json:"more,omitempty"`  // the next step belongs to the same message
	Steps []Step `json:"steps,omitempty"` // subagent, repeat

	Status  int    `json:"status,omitempty"`  // HTTP status of retry and fail
	Code    *int   `json:"code,omitempty"`    // exit code
	Signal  string `json:"signal,omitempty"`  // "SIGKILL" …
	Millis  int    `json:"ms,omitempty"`      // sleep, life time, pause between
	Count   int    `json:"count,omitempty"`   // how many
	Bytes   int64  `json:"bytes,omitempty"`   // how much
	Size    int    `json:"size,omitempty"`    // of one line
	Every   int    `json:"every,omitempty"`   // flood: one usage in so many lines
	How     string `json:"how,omitempty"`     // spawn: see spawn.go
	Ignore  bool   `json:"ignore,omitempty"`  // spawn: the child ignores TERM, INT and HUP
	Error   bool   `json:"error,omitempty"`   // result: it failed
	Denied  bool   `json:"denied,omitempty"`  // tool: the CLI's permission system refuses it
	Ungated bool   `json:"ungated,omitempty"` // tool: no pre-tool hook is asked, as if something had switched it off
	Back    bool   `json:"back,omitempty"`    // bash: in the background, see await
	Subtype string `json:"subtype,omitempty"` // claude: of the result
}

// Usage is what one model request used. In excludes the cache.
type Usage struct {
	In         int64 `json:"in"`
	Out        int64 `json:"out"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

func (u *Usage) add(v Usage) {
	u.In += v.In
	u.Out += v.Out
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
}

// Env returns the variable that carries the scenario inline, as "NAME=value".
func (s Scenario) Env() string { return EnvScenario + "=" + s.JSON() }

// JSON is the scenario as a file or the variable holds it.
func (s Scenario) JSON() string {
	b, err := json.Marshal(s)
	if err != nil { // only an Input that is no JSON
		panic(err)
	}
	return string(b)
}

// loadScenario looks in the environment, then beside the program
// (claude.scenario.json), which works where no variable reaches.
func loadScenario(argv0 string) (Scenario, error) {
	text := os.Getenv(EnvScenario)
	name := text
	if text == "" {
		name = argv0 + ".scenario.json"
	}
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		b, err := os.ReadFile(name)
		if err != nil {
			if text == "" && os.IsNotExist(err) {
				return Scenario{Steps: []Step{{Do: "text", Text: "Hello from the fake agent."}, {Do: "result"}}}, nil
			}
			return Scenario{}, err
		}
		text = string(b)
	}
	var s Scenario
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields() // a typing error must not become a test that proves nothing
	if err := dec.Decode(&s); err != nil {
		return Scenario{}, fmt.Errorf("scenario: %w", err)
	}
	return s, nil
}
