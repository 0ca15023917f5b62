//go:build unix

package keeper

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rein-run/rein/host/link"
	"github.com/rein-run/rein/internal/disk"
	"github.com/rein-run/rein/internal/unixsock"
)

// linkVerb is the argument that makes the keeper's program the far end of a
// link (see package link): `rein keeper link [--spool DIR] LINKDIR`, once per
// transport.
//
// The first of them starts the server, the same program with --serve, which
// leaves the session: it outlives this process, its SSH session and its
// container exec. What it does not outlive is systemd-logind with
// KillUserProcesses=yes (logind.conf(5); off in Debian, Ubuntu and Fedora),
// which kills all of a user's processes at the end of his last session unless
// he lingers (loginctl enable-linger).
const linkVerb = "link"

const (
	linkSocket = "link.sock"
	linkLog    = "link.log" // the server's stderr, for who looks after a crash

	// serverStart bounds the wait for a server to listen.
	serverStart = 30 * time.Second
)

func linkMain(args, self []string, stdin, stdout, stderr *os.File) int {
	fl := flag.NewFlagSet("rein keeper link", flag.ContinueOnError)
	fl.SetOutput(stderr)
	root := fl.String("spool", "", "keep output below `DIR`, in a folder for each command")
	serve := fl.Bool("serve", false, "be the server; for this program's own use")
	if err := fl.Parse(args); err != nil {
		return 2
	}
	if fl.NArg() != 1 || fl.Arg(0) == "" {
		fmt.Fprintln(stderr, "rein keeper link: takes one argument, the directory of the link")
		return 2
	}
	run := linkAttach
	if *serve {
		run = linkServe
	}
	if err := run(fl.Arg(0), *root, self, stdin, stdout); err != nil {
		fmt.Fprintln(stderr, "rein keeper link:", err)
		return 1
	}
	return 0
}

func linkAttach(dir, root string, self []string, stdin, stdout *os.File) error {
	conn, err := takeStream(stdin, stdout)
	if err != nil {
		return err
	}
	return link.Attach(conn, func(h *link.Hello) (net.Conn, error) { return reachServer(dir, root, self, h) })
}

// reachServer connects to the server in dir, which it starts when there has been
// none. A socket that nobody listens on is that of a server that has died: with
// another in its place the command would be started a second time.
func reachServer(dir, root string, self []string, h *link.Hello) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), serverStart)
	defer cancel()
	switch err := private(dir); {
	case err == nil:
		c, err := unixsock.Dial(ctx, dir, linkSocket)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: its server has died", link.ErrGone)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if !h.Create {
		return nil, link.ErrGone
	}
	return startServer(ctx, dir, root, self, h.Key)
}

// private checks that dir is a directory of this very user, closed to others,
// and no link to one. Root gets no exception here: the directory's owner could
// put a socket of his own there, and would be told all that is sent.
func private(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !disk.Private(st) || !ok || int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of this user alone (mode 0700)", dir)
	}
	return nil
}

// startServer makes dir and the server in it, and connects to it.
func startServer(ctx context.Context, dir, root string, self []string, key link.Key) (net.Conn, error) {
	if self == nil {
		return nil, errors.New("this program does not know its own name, and cannot start the server")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	err := os.Mkdir(dir, 0o700)
	made := err == nil
	if !made && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	log, err := disk.OpenFile(filepath.Join(dir, linkLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	err = launchServer(ctx, dir, root, self, key, log)
	// Two transports may have come at once: one of their servers listens, and
	// the other has failed.
	c, derr := unixsock.Dial(ctx, dir, linkSocket)
	if derr == nil {
		return c, nil
	}
	if err == nil {
		return nil, derr
	}
	os.Remove(log.Name())
	if made {
		os.Remove(dir)
	}
	return nil, err
}

// launchServer returns when the server listens. The key goes in by a pipe, and
// comes before the socket is: nobody can be first there with another.
func launchServer(ctx context.Context, dir, root string, self []string, key link.Key, log *os.File) error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	defer theirOut.Close()
	argv := append(self[:len(self):len(self)], linkVerb, "--serve")
	if root != "" {
		argv = append(argv, "--spool", root)
	}
	argv = append(argv, "--", dir)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	theirIn.Close()
	theirOut.Close()
	go cmd.Wait() // this process may well end first
	if d, ok := ctx.Deadline(); ok {
		_ = out.SetReadDeadline(d)
	}
	if _, err := in.Write(key[:]); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	said, err := io.ReadAll(io.LimitReader(out, 1<<10))
	switch {
	case err != nil:
		_ = cmd.Process.Kill()
		return fmt.Errorf("start the server: %w", err)
	case string(said) != listening:
		return fmt.Errorf("start the server: it says %q", said)
	}
	return nil
}

const listening = "listening\n"

// linkServe is the server: one keeper on the stream that the transports make.
// It removes the directory when nothing more is to be told to the client.
func linkServe(dir, root string, self []string, stdin, stdout *os.File) error {
	var key link.Key
	if _, err := io.ReadFull(stdin, key[:]); err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	l, err := unixsock.Listen(dir, linkSocket)
	if err != nil {
		fmt.Fprint(stdout, err)
		return err
	}
	defer func() {
		l.Close()
		os.Remove(filepath.Join(dir, linkLog))
		os.Remove(dir) // only when nothing else is in it
	}()
	// Beyond this the pipes to the first transport's process are of no use, and
	// a broken descriptor 1 is a danger: see takeStream.
	ready, err := dup(stdout, "ready")
	if err != nil {
		return err
	}
	if err := detach(stdin, stdout); err != nil {
		return err
	}
	_, err = io.WriteString(ready, listening)
	ready.Close()
	if err != nil {
		return err // its client has been told that there is no server
	}
	ctx, stop := notifyContext()
	defer stop()
	conn := link.Serve(l, key, nil)
	err = Serve(ctx, conn, &ServeOptions{Subreaper: true, Spool: root, Self: self})
	// The client may be away, with the end of the output and the exit still to
	// be told: until it comes back or the lease is over. A server that was told
	// to stop does not wait for that.
	wait := context.Background()
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(wait, orphanGrace)
		defer cancel()
	}
	return errors.Join(err, conn.Wait(wait))
}
