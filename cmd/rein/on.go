package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rein-run/rein/config"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/ssh"
)

// remoteStart bounds a start elsewhere, and the first one connects, logs in and
// puts a keeper there, of a few MB: 30 s are for hosts that are there already.
const remoteStart = 2 * time.Minute

// elsewhere is a host that is not this machine.
type elsewhere struct {
	*host.Host
	dir string // of its URL, as there; "" when it names none
}

// openHost turns --on into a host; nil is this machine. It is the one place that
// knows every kind of host, so that their clients are linked here alone. No
// error repeats the URL: there may be a password in it.
func openHost(on string) (*elsewhere, error) {
	scheme, _, _ := strings.Cut(on, ":")
	switch {
	case on == "", on == "local", on == "local:":
		return nil, nil
	case scheme == "ssh":
		h, err := ssh.New(on, nil)
		if err != nil {
			return nil, usage("--on ssh: %w", err)
		}
		return &elsewhere{host.New(h, &host.Options{StartTimeout: remoteStart}), h.Dir()}, nil
	}
	return nil, usage("--on: there are local: and ssh://[user@]host[:port][/dir]")
}

// where settles what --on says, for a verb that has no use for the rest of the
// configuration. A project has no say in it.
func where(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	cfg, err := config.Load(".", os.Getenv, &config.Options{NoProject: true})
	if err != nil {
		return "", usageError{err}
	}
	return cfg.On, nil
}

// workDir is the directory of a run there: --dir, else that of the URL.
func (e *elsewhere) workDir(ctx context.Context, dir string) (string, error) {
	if dir == "" {
		dir = e.dir
	}
	switch {
	case dir == "~" || strings.HasPrefix(dir, "~/"):
		place, err := e.Look(ctx, "", nil)
		if err != nil {
			return "", startError{err}
		}
		return place.Home + dir[1:], nil
	case dir == "":
		return "", usage("say in which directory of %s: --dir /path, --dir '~/path', or in the URL behind the host", e.Name())
	case !strings.HasPrefix(dir, "/"):
		return "", usage("--dir %s: on %s it is an absolute path, or one that begins with '~/'", dir, e.Name())
	}
	return dir, nil
}

// named is what a report and a screen call the place.
func (e *elsewhere) named() string {
	if e == nil {
		return "local:"
	}
	return e.Name()
}

func (e *elsewhere) close() {
	if e != nil {
		if err := e.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "rein:", oneLine(err))
		}
	}
}
