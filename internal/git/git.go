// Package git asks git about a repository, wherever the repository is, without
// running what its configuration names. What writes (Keep and HashFiles) writes
// objects and references of Rein's own only.
//
// It needs git 2.31 (2021) or newer where the repository is.
package git

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// Runner runs git with args in dir and returns what it wrote to stdout. The
// environment is that of the place, with Env set and Unset removed; stdin is
// empty. It is bounded by ctx and by MaxOutput.
//
// A git that ran and failed is an *ExitError; a git that is not there is an
// error that matches driver.ErrNotFound or exec.ErrNotFound; a dir that is not
// there matches driver.ErrNoDir.
type Runner func(ctx context.Context, dir string, args ...string) (stdout []byte, err error)

// MaxOutput bounds what a Runner keeps of one command, in bytes.
const MaxOutput = 64 << 20

// maxTime bounds one command. A repository on a dead network mount must not
// hold up the end of a run for longer.
const maxTime = 30 * time.Second

// Errors that the functions of this package return, wrapped.
var (
	ErrNoGit     = errors.New("git is not installed")
	ErrNoRepo    = errors.New("not a git repository")
	ErrUntrusted = errors.New("git does not trust the repository, which belongs to another user")
	ErrTooLarge  = errors.New("git printed more than is kept")
)

// ExitError is a git that ran and failed.
type ExitError struct {
	Args   []string // without the options that this package adds
	Code   int
	Stderr string // at most 4 KiB
}

func (e *ExitError) Error() string {
	line, _, _ := strings.Cut(strings.TrimSpace(e.Stderr), "\n")
	if line == "" {
		line = fmt.Sprintf("exit code %d", e.Code)
	}
	if len(e.Args) == 0 {
		return "git: " + line
	}
	return fmt.Sprintf("git %s: %s", e.Args[0], line)
}

// Env is set for every git of ours that asks the repository.
func Env() driver.Env {
	env := base()
	// In a partial clone the configuration of the repository names the program
	// that fetches a missing object. Nothing here may fetch: the first is for git
	// 2.44 and newer, the second for the others.
	env["GIT_NO_LAZY_FETCH"] = "1"
	env["GIT_ALLOW_PROTOCOL"] = "none"
	return env
}

// RemoteEnv is set for a git that asks a remote: LsRemote. It asks nobody for a
// password, and runs none of the programs that an "ext::" or "helper::" URL
// names: the list beats every protocol.allow in a configuration.
func RemoteEnv() driver.Env {
	env := base()
	env["GIT_ALLOW_PROTOCOL"] = "file:git:http:https:ssh"
	// An askpass that is no program fails, and then the prompt on the terminal is
	// off too. It beats core.askPass and SSH_ASKPASS.
	env["GIT_ASKPASS"] = "rein-asks-nobody"
	env["SSH_ASKPASS_REQUIRE"] = "never"
	env["GCM_INTERACTIVE"] = "never" // Git Credential Manager opens a window
	return env
}

func base() driver.Env {
	return driver.Env{
		"LC_ALL":              "C", // messages are matched below
		"GIT_OPTIONAL_LOCKS":  "0", // status must not write the index behind a working agent
		"GIT_TERMINAL_PROMPT": "0",
	}
}

// Unset is removed for every git of ours: a rein that was started from a git
// hook inherits variables that name another repository, and trace variables
// would mix into the output. What `git rev-parse --local-env-vars` lists, but
// for GIT_CONFIG_COUNT and GIT_CONFIG_PARAMETERS: they are the user's own
// configuration (CI sets safe.directory so) and git lets our -c win over them.
func Unset() []string {
	return []string{
		"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX",
		"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE",
		"GIT_CONFIG",
		"GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE",
		"GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_INTERNAL_SUPER_PREFIX",
		"GIT_ATTR_SOURCE", "GIT_EXTERNAL_DIFF", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS",
		"GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
		"GIT_TRACE", "GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF", "GIT_TRACE_SETUP",
	}
}

// safe are the options before every command: with them none of the programs
// that a repository can name is run by the commands of this package. What they
// cannot cover, the clean filters, is in status.go.
var safe = []string{
	"--no-pager", "--no-optional-locks", "--literal-pathspecs",
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.fsmonitor=false",
	"-c", "log.showSignature=false",
	"-c", "submodule.recurse=false",
	"-c", "status.submoduleSummary=false",
	"-c", "status.showStash=false",
	"-c", "core.alternateRefsCommand=",
	"-c", "diff.external=",
	"-c", "maintenance.auto=false",
	"-c", "gc.auto=0",
}

// git runs one command and sorts its failures.
func (run Runner) git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return run.gitWith(ctx, dir, nil, args...)
}

func (run Runner) gitWith(ctx context.Context, dir string, more []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	all := make([]string, 0, len(safe)+len(more)+len(args))
	all = append(append(append(all, safe...), more...), args...)
	out, err := run(ctx, dir, all...)
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("git %s in %s: %w", args[0], dir, context.Cause(ctx))
	}
	if errors.Is(err, driver.ErrNotFound) || errors.Is(err, exec.ErrNotFound) {
		return nil, ErrNoGit
	}
	exit, ok := errors.AsType[*ExitError](err)
	if !ok {
		return nil, fmt.Errorf("git %s in %s: %w", args[0], dir, err)
	}
	switch msg := exit.Stderr; {
	// With "(or any parent…" git looked everywhere; without it, it found a
	// .git file that points to nowhere, which is damage and not absence.
	case strings.Contains(msg, "not a git repository (or any"):
		return nil, fmt.Errorf("%s: %w", dir, ErrNoRepo)
	case strings.Contains(msg, "detected dubious ownership"), strings.Contains(msg, "unsafe repository"):
		return nil, fmt.Errorf("%s: %w: git config --global --add safe.directory DIR trusts it", dir, ErrUntrusted)
	}
	return nil, &ExitError{Args: args, Code: exit.Code, Stderr: exit.Stderr}
}

// failed says whether err is a git that ended with that code.
func failed(err error, code int) bool {
	e, ok := errors.AsType[*ExitError](err)
	return ok && e.Code == code
}
