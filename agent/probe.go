package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// ProbeHost is what Probe needs of a host.
type ProbeHost interface {
	driver.Looker
	// Output runs a short command to its end and returns at most limit bytes of
	// each of its streams.
	Output(ctx context.Context, spec *driver.Spec, limit int) (stdout, stderr []byte, exit driver.Exit, err error)
}

// ProbeOptions are the options of Probe.
type ProbeOptions struct {
	// HostName tells hosts apart in the Cache.
	HostName string
	// Exe is the executable to take instead of looking for one.
	Exe string
	// Env is what the agent will run with; its PATH is searched when it has one.
	Env driver.Env
	// Cache keeps versions between runs. nil: none.
	Cache *Cache
}

// Bounds of a version probe. pi 0.73.1 needs 2 s of processor time to print it,
// which took 12 s where ten runs began together; a CLI that asks for a login
// instead must not hold a run up for ever.
const (
	probeTime   = 30 * time.Second
	probeOutput = 64 << 10
)

// NotInstalledError says that the CLI of an agent was not found. It matches
// driver.ErrNotFound.
type NotInstalledError struct {
	Agent   string
	Names   []string // that were looked for
	Path    string   // the PATH that was searched there
	Install string   // the command that installs it
}

func (e *NotInstalledError) Error() string {
	names := strings.Join(e.Names, " or ")
	if e.Path == "" { // a name with a slash, which somebody gave
		return fmt.Sprintf("%s is not at %s: no such file", e.Agent, names)
	}
	s := fmt.Sprintf("%s is not installed: %s not found in PATH (%s)", e.Agent, names, e.Path)
	if e.Install != "" {
		s += "; install it: " + e.Install
	}
	return s
}

// Is matches driver.ErrNotFound.
func (e *NotInstalledError) Is(target error) bool { return target == driver.ErrNotFound }

// Probe finds the CLI of the agent on the host and asks it for its version,
// for at most 30 s beside the time that the host itself needs; ctx bounds the
// whole. GitCommonDir is left to the caller: it depends on the directory.
//
// A CLI that is not there is a *NotInstalledError. One that is there but
// cannot print its version is an error with its own words (pi 1.6.0 dies at
// its first import on node 20), and so is one that prints nothing at all: it is
// something else. A version that is printed in another form than is known is "".
func Probe(ctx context.Context, h ProbeHost, a Agent, o *ProbeOptions) (Facts, error) {
	if o == nil {
		o = &ProbeOptions{}
	}
	c := a.Capabilities("")
	names := c.Executables
	if o.Exe != "" {
		names = []string{o.Exe}
	}
	place, err := look(ctx, h, a.Name(), names, c.Install, o.Env)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{OS: place.OS, UID: place.UID, Home: place.Home, Path: place.Path, Exe: place.Exe}
	p, ok := a.(Prober)
	if !ok {
		return f, nil
	}
	key := cacheKey(o.HostName, a.Name(), place)
	if v, ok := o.Cache.get(key); ok {
		f.Version = v
		return f, nil
	}
	if f.Version, err = version(ctx, h, p, c, f.Exe, o.Env); err != nil {
		return Facts{}, fmt.Errorf("%s: %w", a.Name(), err)
	}
	if f.Version != "" {
		o.Cache.put(key, f.Version)
	}
	return f, nil
}

func look(ctx context.Context, h ProbeHost, agent string, names []string, install string, env driver.Env) (*driver.Place, error) {
	missing := &NotInstalledError{Agent: agent, Names: names, Install: install}
	for _, name := range names {
		place, err := h.Look(ctx, name, env)
		if err == nil {
			return place, nil
		}
		var nf *driver.NotFoundError
		if !errors.As(err, &nf) {
			return nil, fmt.Errorf("%s: looking for %s: %w", agent, name, err)
		}
		if nf.Why != "" { // there, but not executable: say so, not "install it"
			return nil, fmt.Errorf("%s: %w", agent, err)
		}
		missing.Path = nf.Path
	}
	return nil, missing
}

func version(ctx context.Context, h ProbeHost, p Prober, c Capabilities, exe string, env driver.Env) (string, error) {
	args := p.VersionArgs()
	what := fmt.Sprintf("%s %s", exe, strings.Join(args, " "))
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, fmt.Errorf("%s did not end within %v; run it by hand to see what it waits for", what, probeTime))
	defer cancel()
	out, errOut, exit, err := h.Output(ctx, &driver.Spec{
		Argv: append([]string{exe}, args...), Env: env, Unset: c.Scrub, Helper: true,
	}, probeOutput)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return "", err
	}
	if v := p.ParseVersion(bytes.Join([][]byte{out, errOut}, []byte("\n"))); v != "" {
		return v, nil
	}
	if exit.Reason == driver.Exited && exit.Code != nil && *exit.Code == 0 {
		if len(bytes.TrimSpace(out)) == 0 && len(bytes.TrimSpace(errOut)) == 0 {
			return "", fmt.Errorf("%s printed nothing, so %s is not the CLI that it is taken for", what, exe)
		}
		return "", nil
	}
	how := string(exit.Reason)
	if exit.Code != nil {
		how = fmt.Sprintf("exit code %d", *exit.Code)
	} else if exit.Signal != "" {
		how = exit.Signal
	}
	said := lastLine(errOut)
	if said == "" {
		said = lastLine(out)
	}
	return "", fmt.Errorf("%s failed (%s): %s", what, how, clip(said, 200))
}

// lastLine prefers a line that names an error: a stack trace of node ends with
// the version of node.
func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, l := range lines {
		if strings.Contains(l, "Error") {
			return l
		}
	}
	return lines[len(lines)-1]
}
