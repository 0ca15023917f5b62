// Package sandbox puts an agent behind the kernel: the file system is read-only
// but for the directory of the run, the agent's own state and temporary files,
// and the references, HEAD, configuration and hooks of the repository are
// read-only even there. It is bubblewrap's command line and nothing that could
// be undone from inside.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rein-run/rein/host/driver"
)

// Options say what the agent may write and reach. Paths are absolute, where the
// run runs.
type Options struct {
	Dir string // the run's directory: writable
	Git *Git   // the repository that it is in; nil for none
	// Commits lets the run's own branch move: refs/heads and the logs are
	// writable then, since a branch is moved by renaming a file in its folder.
	Commits bool
	// Write are further writable paths: the agent's own state. Those that do
	// not exist are left out.
	Write []string
	// Reach are paths below /run or /tmp, which are hidden else, that stay
	// visible, read-only: a socket in them can still be connected to.
	Reach []string
	// Network leaves the network as it is; without it there is loopback alone.
	Network bool
	UID     int    // of who runs it
	Bwrap   string // the program; "" is bwrap on the PATH
	// Blank is an existing empty directory with an existing empty file "file" in
	// it, not writable to the agent: what does not exist in the repository and
	// must not be made is covered by them.
	Blank string
	// Exists says whether a path is there.
	Exists func(string) bool
}

// Git is where the repository of the run lies.
type Git struct {
	CommonDir string // refs, objects, config
	GitDir    string // HEAD and index of this working tree
	Top       string // of this working tree, "" in a bare repository
}

// Errors of Check and Wrap.
var (
	ErrMissing = errors.New("a sandbox needs bubblewrap (bwrap 0.8 or newer) where the agent runs: apt-get install bubblewrap")
	ErrKernel  = errors.New("the kernel does not let bubblewrap make a sandbox here")
	ErrDir     = errors.New("the whole file system, or what the sandbox hides, cannot be the directory of a sandboxed run")
)

// Runner runs a short command where the agent would run and returns its stdout.
type Runner func(ctx context.Context, argv ...string) ([]byte, error)

// Check makes an empty sandbox: what the kernel or a policy of the machine
// refuses is known before anything of the run exists.
func Check(ctx context.Context, run Runner, o Options) error {
	argv := append([]string{o.bwrap()}, base(o)...)
	if !o.Network {
		argv = append(argv, "--unshare-net")
	}
	out, err := run(ctx, append(argv, "--", "/bin/sh", "-c", "echo inside")...)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return ErrMissing
	case err != nil:
		return fmt.Errorf("%w: %w", ErrKernel, err)
	case strings.TrimSpace(string(out)) != "inside":
		return ErrKernel
	}
	return nil
}

func (o Options) bwrap() string {
	if o.Bwrap != "" {
		return o.Bwrap
	}
	return "bwrap"
}

// base is the part that makes the boundary hold.
func base(o Options) []string {
	args := []string{
		"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent",
		"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
	}
	if o.UID == 0 {
		// Root without a user namespace keeps its capabilities, and undoes every
		// read-only mount with one remount. Seen with bubblewrap 0.8 and kernel 6.18.
		// Without capabilities it still owns the files of /proc/sys, and one of
		// them (kernel.core_pattern) names a program that the kernel starts outside.
		args = append(args, "--cap-drop", "ALL")
		for _, p := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"} {
			args = append(args, "--ro-bind-try", p, p)
		}
		return args
	}
	// A further user namespace would give the capabilities back inside it.
	return append(args, "--unshare-user", "--disable-userns")
}

// Wrap is the command line that runs argv in the sandbox.
func Wrap(o Options, argv []string) ([]string, error) {
	for _, p := range append([]string{o.Dir}, o.Write...) {
		if clean := path.Clean(p); clean == "/" || !path.IsAbs(p) || inside(clean, "/proc", "/dev", "/sys") {
			return nil, fmt.Errorf("%w: %s", ErrDir, p)
		}
	}
	args := append([]string{o.bwrap()}, base(o)...)
	// Whoever can reach the socket of a container engine, of systemd or of a tmux
	// server has left the sandbox: a socket can be connected to through a
	// read-only mount.
	args = append(args, "--tmpfs", "/run", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", "/dev/shm")
	if o.Network {
		for _, p := range []string{"/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/nscd"} {
			args = append(args, "--ro-bind-try", p, p) // where /etc/resolv.conf may lead
		}
	} else {
		args = append(args, "--unshare-net")
	}
	for _, p := range o.Reach {
		args = append(args, "--ro-bind", p, p)
	}
	for _, p := range o.Write {
		args = append(args, "--bind-try", p, p)
	}
	args = append(args, "--bind", o.Dir, o.Dir)
	if o.Git != nil {
		args = append(args, repository(o)...)
	}
	args = append(args, "--chdir", o.Dir, "--setenv", "TMPDIR", "/tmp", "--setenv", "XDG_CACHE_HOME", "/tmp/cache", "--")
	return append(args, argv...), nil
}

func inside(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") })
}

// repository makes read-only what names history and what git would run, and
// leaves the index and the objects writable, so that add and diff work.
//
// The directory is bound on itself first: a mount point cannot be renamed, and
// "mv .git x; cp -r x .git" would leave every mount behind.
func repository(o Options) []string {
	g := o.Git
	var args []string
	rw := func(p string) { args = append(args, "--bind", p, p) }
	ro := func(p string) {
		switch {
		case o.Exists(p):
			args = append(args, "--ro-bind", p, p)
		case inside(p, g.CommonDir): // must not come to be
			args = append(args, "--ro-bind", o.Blank, p)
		}
	}
	file := func(p string) {
		if !o.Exists(p) {
			args = append(args, "--ro-bind", path.Join(o.Blank, "file"), p)
			return
		}
		args = append(args, "--ro-bind", p, p)
	}
	rw(g.CommonDir)
	linked := g.GitDir != g.CommonDir
	ro(path.Join(g.CommonDir, "worktrees"))
	if linked {
		rw(g.GitDir) // its index
		for _, name := range []string{"HEAD", "commondir", "gitdir"} {
			file(path.Join(g.GitDir, name))
		}
		if g.Top != "" {
			file(path.Join(g.Top, ".git"))
		}
	}
	ro(path.Join(g.CommonDir, "refs"))
	ro(path.Join(g.CommonDir, "logs"))
	ro(path.Join(g.GitDir, "logs"))
	for _, name := range []string{"packed-refs", "HEAD", "config"} {
		file(path.Join(g.CommonDir, name))
	}
	for _, p := range []string{path.Join(g.CommonDir, "config.worktree"), path.Join(g.GitDir, "config.worktree")} {
		if o.Exists(p) {
			file(p)
		}
	}
	ro(path.Join(g.CommonDir, "hooks"))
	ro(path.Join(g.CommonDir, "modules")) // repositories of submodules: whole
	if o.Commits {
		for _, p := range []string{path.Join(g.CommonDir, "refs/heads"), path.Join(g.CommonDir, "logs"), path.Join(g.GitDir, "logs")} {
			if o.Exists(p) {
				rw(p)
			}
		}
	}
	return args
}
