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
	Dir      string // the run's directory
	ReadOnly bool   // not even Dir is writable
	Home     string // of the user; it cannot be Dir
	Git      *Git   // the repository that it is in; nil for none
	// Branch may move, "refs/heads/x": the folders that it and its log are in are
	// writable then, since a branch is moved by renaming a file in its folder.
	// "" for none.
	Branch string
	// Write are further writable paths: the agent's own state. Those that do
	// not exist are left out.
	Write []string
	// Fixed are paths below Write that are read-only all the same, and are made
	// by Place where they do not exist: what is run outside the next time.
	Fixed []string
	// Hide are directories that are empty inside, but for what Reach names.
	Hide []string
	// Reach are paths that stay visible, read-only, although they are in one of
	// Hide or below /run or /tmp, which are hidden else: a socket in them can
	// still be connected to.
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

// Errors of Check and Wrap.
var (
	ErrMissing = errors.New("a sandbox needs bubblewrap (bwrap 0.8 or newer) where the agent runs: apt-get install bubblewrap")
	ErrKernel  = errors.New("the kernel does not let bubblewrap make a sandbox here")
	ErrDir     = errors.New("it cannot be writable in a sandbox: a run needs a directory of its own, below the home directory for example")
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

// Hidden are the directories that are empty inside and private to the run:
// whoever can reach the socket of a container engine, of systemd or of a tmux
// server has left the sandbox, and a socket can be connected to through a
// read-only mount.
func Hidden() []string { return []string{"/run", "/tmp", "/var/tmp", "/dev/shm"} }

// Wrap is the command line that runs argv in the sandbox. argv starts with
// package inside, or its SIGTERM stays ignored.
func Wrap(o Options, argv []string) ([]string, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	// A signal for the tree is sent to every process of it, and bubblewrap, which
	// waits outside, would die of it and take the sandbox along before the agent
	// has said its last words. What is ignored here stays so in bubblewrap.
	args := append([]string{"/bin/sh", "-c", `trap '' HUP INT TERM; exec "$@"`, "sh", o.bwrap()}, base(o)...)
	for _, p := range Hidden() {
		args = append(args, "--tmpfs", p)
	}
	if o.Network {
		for _, p := range []string{"/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/nscd"} {
			args = append(args, "--ro-bind-try", p, p) // where /etc/resolv.conf may lead
		}
	} else {
		args = append(args, "--unshare-net")
	}
	for _, p := range o.Reach {
		if !Inside(p, o.Hide...) {
			args = append(args, "--ro-bind", p, p)
		}
	}
	for _, p := range o.Write {
		args = append(args, "--bind-try", p, p)
	}
	if o.ReadOnly {
		args = append(args, "--ro-bind", o.Dir, o.Dir)
	} else {
		args = append(args, "--bind", o.Dir, o.Dir)
		if o.Git != nil {
			args = append(args, repository(o)...)
		}
	}
	for _, p := range o.Fixed {
		args = append(args, "--ro-bind", p, p)
	}
	// Behind the binds: one of them may hold what is hidden. And read-only at
	// last, or the folder of a mount could be moved away and made anew.
	for _, h := range o.Hide {
		args = append(args, "--tmpfs", h)
		for _, p := range o.Reach {
			if Inside(p, h) {
				args = append(args, "--ro-bind", p, p)
			}
		}
		args = append(args, "--remount-ro", h)
	}
	args = append(args, "--chdir", o.Dir, "--setenv", "TMPDIR", "/tmp", "--setenv", "XDG_CACHE_HOME", "/tmp/cache", "--")
	return append(args, argv...), nil
}

// check refuses what would make the sandbox none.
func (o Options) check() error {
	for _, p := range append([]string{o.Dir}, o.Write...) {
		clean := path.Clean(p)
		if !path.IsAbs(p) || clean == "/" || Inside(clean, "/proc", "/dev", "/sys") || Inside(clean, o.Hide...) ||
			o.Home != "" && Inside(path.Clean(o.Home), clean) || slices.Contains(Hidden(), clean) {
			return fmt.Errorf("%s: %w", p, ErrDir)
		}
	}
	return nil
}

// Inside says that p is one of dirs or in one of them.
func Inside(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") })
}
