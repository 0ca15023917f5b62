package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// Local runs git on this machine.
func Local(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return local(ctx, Env(), dir, args)
}

// LocalRemote runs git on this machine with RemoteEnv, for LsRemote. It has no
// terminal that ssh could ask on, and its helpers end with it.
func LocalRemote(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return local(ctx, RemoteEnv(), dir, args)
}

func local(ctx context.Context, env driver.Env, dir string, args []string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", dir, driver.ErrNoDir)
	}
	out := &limited{max: MaxOutput, full: cancel}
	msg := &limited{max: 4 << 10}
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = environ(os.Environ(), env)
	cmd.Stdout, cmd.Stderr = out, msg
	cmd.WaitDelay = time.Second // a grandchild that holds the pipe
	if env["GIT_ALLOW_PROTOCOL"] != "none" {
		unattended(cmd)
	}
	err := cmd.Run()
	if out.over {
		return nil, ErrTooLarge
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return nil, &ExitError{Args: args, Code: exit.ExitCode(), Stderr: msg.String()}
	}
	if err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// environ is base with Unset removed and env set.
func environ(base []string, env driver.Env) []string {
	unset := Unset()
	base = slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, set := env[name]
		return set || slices.Contains(unset, name)
	})
	for _, name := range env.Names() {
		base = append(base, name+"="+env[name])
	}
	return base
}

// limited keeps the first bytes. Without full the rest is thrown away in
// silence; with it, the command is ended.
type limited struct {
	bytes.Buffer
	max  int
	over bool
	full func()
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.max - l.Len(); len(p) > room {
		l.Buffer.Write(p[:max(room, 0)])
		l.over = true
		if l.full != nil {
			l.full()
		}
		return len(p), nil
	}
	return l.Buffer.Write(p)
}
