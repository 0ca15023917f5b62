// Package rein runs coding-agent CLIs unattended: it starts the agent, keeps
// every byte it writes, stops it on a deadline or a budget, proves that nothing
// of it is left running, and reports what happened and what it cost.
//
//	report, err := rein.Do(ctx, rein.Task{Prompt: "fix the failing test", Dir: dir}, nil)
//
// Start gives a handle on a run that is under way; Do is Start and Wait.
package rein

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/meter"
	"github.com/rein-run/rein/store"
	"github.com/rein-run/rein/watch"
)

// Task is one piece of work for one agent.
type Task struct {
	Prompt string
	// Agent is the name of the agent; "" takes the only one that is installed,
	// else claude, codex, pi in that order.
	Agent string
	// Dir is the working directory where the agent runs. "" is the current
	// directory on the local host, and an error elsewhere.
	Dir     string
	Model   string // "" is the CLI's own default
	Effort  string
	Mode    agent.Mode // "" is agent.Autonomous
	Session agent.Session
	Args    []string // the user's own arguments for the CLI

	// Rules is the text of the user's rules, given to the agent as it stands. RulesBy
	// is the way they take; "" is the agent's best.
	Rules   string
	RulesBy agent.RuleChannel
	// Observer has the agent look from outside: read-only, without a shell and
	// without the user's and the repository's own configuration of it.
	Observer bool
	// Schema is a JSON schema that the answer has to match; nil for none.
	Schema []byte
	// Billing is BillingSubscription to refuse a run that something else would pay
	// for, a key in the environment for example; "" takes what there is.
	Billing string
	// RequireModel refuses a task whose Model is "".
	RequireModel bool

	// Env is set where the agent runs, Unset is removed from what it inherits.
	Env   driver.Env
	Unset []string

	// Guard says what may not happen. The zero value is the default boundary:
	// nothing is committed, pushed, published or fetched from the web.
	Guard guard.Config
	// Sandbox puts the agent behind the kernel, by the strongest means that this
	// machine has: it can write its directory, its CLI's state and temporary files
	// alone, cannot move references, and without Guard.Network reaches nothing but
	// its model. ErrSandbox when there is no such means. Report.Sandbox says what
	// does not hold.
	Sandbox bool

	Clocks watch.Clocks // zero: the defaults
	Limits watch.Limits // zero: none

	// ID names the run; "" makes one. Labels are kept with it.
	ID     string
	Labels map[string]string
}

// Options say where a run happens and who is told of it. The zero value runs
// on this machine with the agents that Rein ships.
type Options struct {
	// Host is where the agent runs; nil is this machine.
	Host *host.Host
	// HostName stands in the report; "" is what the host calls itself.
	HostName string
	// Keeper is the argv that starts a keeper on this machine, for a nil Host:
	// {"/usr/bin/rein", "keeper"}. Empty means that this very process watches
	// the agent and that Containment is marker or cgroup: a caller's own
	// process is never made a subreaper.
	Keeper []string
	// RequireContainment refuses to start where the tree could not be held by
	// a keeper or a cgroup.
	RequireContainment bool
	// Containment is the strongest means that may be used; "" is the best.
	Containment driver.Containment

	// OthersWorkHere says that people use other working trees of the repository
	// meanwhile: their files, branches, HEADs and stashes then count as
	// Boundary.Others and not against the run.
	OthersWorkHere bool

	// Store is where run directories are kept; nil is the default one.
	Store *store.Store
	// Agents is what Task.Agent is looked up in; empty is Agents().
	Agents agent.Registry
	// Exes are executables by the name of the agent; one that is not there is
	// found on the host's PATH.
	Exes map[string]string
	// Prices are the user's own prices of models, over the built-in table. They
	// are used where the agent tells no cost itself.
	Prices meter.Prices
	// Judge is asked about every tool call that Task.Guard lets pass, before it
	// runs, where the agent can be made to ask and a keeper is there to ask
	// through; Report.Gate says whether.
	Judge Judge
	// Hooks are told what happens; see there.
	Hooks *Hooks
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger
}

// Errors of Start, for errors.Is. Whatever the error, nothing was spawned or
// what was spawned is gone.
var (
	ErrTask        = errors.New("unusable task")
	ErrNoAgent     = errors.New("no agent is installed")
	ErrContainment = driver.ErrContainment
)

// NoAgentError says which CLIs were looked for. It matches ErrNoAgent and
// driver.ErrNotFound.
type NoAgentError struct {
	Missing []*agent.NotInstalledError
}

func (e *NoAgentError) Error() string {
	s := ErrNoAgent.Error()
	if len(e.Missing) == 0 {
		return s
	}
	var lines []string
	for _, m := range e.Missing {
		if m.Install != "" {
			lines = append(lines, m.Install)
		}
	}
	if len(lines) > 0 {
		s += ": install one: " + strings.Join(lines, " | ")
	}
	return s + fmt.Sprintf(" (searched PATH %s)", e.Missing[0].Path)
}

// Is matches both sentinels.
func (e *NoAgentError) Is(target error) bool {
	return target == ErrNoAgent || target == driver.ErrNotFound
}

// TaskError says which part of a Task is unusable and what would be usable.
type TaskError struct {
	Field string // as a user would name it: "--env", "prompt", "directory"
	Err   error
}

func (e *TaskError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap makes both the cause and ErrTask match.
func (e *TaskError) Unwrap() []error { return []error{ErrTask, e.Err} }

func taskError(field, format string, args ...any) error {
	return &TaskError{Field: field, Err: fmt.Errorf(format, args...)}
}
