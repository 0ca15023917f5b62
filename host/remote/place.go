package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/rein-run/rein/host/keeper"
)

// place is what a shell there says of the environment.
type place struct {
	goos, goarch string
	uid          int
	cache        string
	shell        string
}

// Place puts a keeper into an environment that has a POSIX shell at /bin/sh,
// unless it is there already, and sees that it runs. It is found by the hash of
// its content, in a folder that only its owner may enter: below XDG_CACHE_HOME,
// else ~/.cache; where that cannot be written or nothing may be executed from
// it (noexec), in /tmp or /dev/shm.
func Place(ctx context.Context, r Reach, program func(goos, goarch string) (*Program, error)) (*Ready, error) {
	p, err := probe(ctx, r)
	if err != nil {
		return nil, err
	}
	prog, err := program(p.goos, p.goarch)
	if err != nil {
		return nil, err
	}
	sum, size, err := hash(prog.File)
	if err != nil {
		return nil, fmt.Errorf("the keeper for %s/%s: %w", p.goos, p.goarch, err)
	}
	name := "keeper-" + sum[:32]
	dirs := []string{fmt.Sprintf("/tmp/rein-%d", p.uid), fmt.Sprintf("/dev/shm/rein-%d", p.uid)}
	if path.IsAbs(p.cache) {
		dirs = append([]string{p.cache}, dirs...)
	}
	// A place that will do is told from a connection that does not by the exit
	// code: of a shell that cannot start what is not there or is on a file system
	// mounted noexec.
	try := func(dir string) (ready *Ready, code int, err error) {
		ready = &Ready{Keeper: append([]string{path.Join(dir, name)}, prog.Args...), Shell: p.shell, Sh: true}
		s, err := startKeeper(ctx, r, ready, "")
		if err != nil {
			return nil, -1, err
		}
		if ready.Place, err = keeper.Look(ctx, s, "", nil); err != nil {
			return nil, s.Code(), explain(ctx, s, err)
		}
		return ready, 0, nil
	}
	// All places before the first copy: where the home directory is mounted
	// noexec, the one in /tmp from the last time will do.
	for _, dir := range dirs {
		ready, code, err := try(dir)
		switch {
		case err == nil:
			return ready, nil
		case code < 0:
			return nil, err
		}
	}
	var errs []error
	for _, dir := range dirs {
		err := put(ctx, r, prog.File, dir, name, size)
		if err == nil {
			ready, code, terr := try(dir)
			switch {
			case terr == nil:
				return ready, nil
			case code < 0:
				return nil, terr
			}
			err = terr
		} else if !errors.Is(err, errPlace) {
			return nil, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", dir, err))
	}
	return nil, fmt.Errorf("no keeper can be put there: %w", errors.Join(errs...))
}

// probeScript says one thing a line, between two lines with the mark.
const probeScript = `echo "$0"; uname -s; uname -m; id -u; echo "${XDG_CACHE_HOME:-$HOME/.cache}/rein"; echo "$SHELL"; echo "$0"`

func probe(ctx context.Context, r Reach) (*place, error) {
	const lines = 5
	out, s, err := script(ctx, r, probeScript, nil, nil)
	if err != nil {
		return nil, err
	}
	f := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(f) != lines {
		return nil, fmt.Errorf("the shell there does not say what system it runs on%s", why(s))
	}
	p := &place{cache: f[3], shell: f[4]}
	var ok bool
	if p.goos, ok = systems[f[0]]; !ok {
		return nil, fmt.Errorf("no keeper runs on the system there, %q", clip(f[0]))
	}
	if p.goarch, ok = machines[f[1]]; !ok {
		return nil, fmt.Errorf("no keeper runs on the machine there, %q", clip(f[1]))
	}
	if p.uid, err = strconv.Atoi(f[2]); err != nil {
		return nil, fmt.Errorf("the user id there is %q", clip(f[2]))
	}
	return p, nil
}

// The words of uname(1) for what Go builds for.
var systems = map[string]string{
	"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd", "OpenBSD": "openbsd", "NetBSD": "netbsd",
}

var machines = map[string]string{
	"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64",
	"i386": "386", "i586": "386", "i686": "386", "armv6l": "arm", "armv7l": "arm", "armv8l": "arm",
	"riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x", "loongarch64": "loong64",
}

// putScript takes a folder, a name, the size and a word from its arguments, and
// the content from stdin. The folder may be in /tmp, where anybody can have made
// it first: ls -ldn says of the name itself, not of what a link points to, whose
// it is. The size tells a whole file from one whose sender went away: both end.
// From then on the name stands for the content, for good.
const putScript = `umask 077; d=$1; n=$2; size=$3; t=$d/$n.$4; ` +
	`put() { mkdir -p "$d" || return; set -- $(ls -ldn "$d"); ` +
	`case $1 in d*) ;; *) echo "not a directory"; return;; esac; ` +
	`if [ "$3" != "$(id -u)" ]; then echo "it belongs to somebody else"; return; fi; ` +
	`chmod 700 "$d" && cat >"$t" || { rm -f "$t"; return; }; ` +
	`if [ "$(wc -c <"$t")" -ne "$size" ]; then rm -f "$t"; echo "the copy is not whole"; return; fi; ` +
	`chmod 700 "$t" && mv -f "$t" "$d/$n" && echo done || rm -f "$t"; }; ` +
	`echo "$0"; put 2>&1; echo "$0"`

// errPlace: the folder will not do.
var errPlace = errors.New("cannot be used")

// put copies file to dir/name there, mode 0700, all of it or nothing.
func put(ctx context.Context, r Reach, file, dir, name string, size int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	out, _, err := script(ctx, r, putScript, []string{dir, name, strconv.FormatInt(size, 10), newMark()}, f)
	switch {
	case err != nil:
		return fmt.Errorf("copying the keeper: %w", err)
	case strings.TrimSpace(out) != "done":
		return fmt.Errorf("%w: %s", errPlace, clip(out))
	}
	return nil
}

// maxAnswer bounds what a script may say.
const maxAnswer = 64 << 10

// script runs a shell script and returns what it prints between two lines with
// a mark, which is $0; what it printed until its end with an error. ctx bounds
// all of it.
func script(ctx context.Context, r Reach, text string, args []string, stdin io.Reader) (string, Stream, error) {
	mark := newMark()
	raw, err := r.Run(ctx, append([]string{"/bin/sh", "-c", text, mark}, args...))
	if err != nil {
		return "", nil, err
	}
	s := behind(raw, mark)
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	sent := make(chan error, 1)
	go func() {
		var err error
		if stdin != nil {
			_, err = io.Copy(s, stdin)
		}
		if err == nil { // half a file must not look like a whole one
			err = s.CloseWrite()
		}
		sent <- err
	}()
	b, err := io.ReadAll(io.LimitReader(s, maxAnswer))
	s.Close() // unblocks the sender
	serr := <-sent
	if ctx.Err() != nil {
		return "", s, context.Cause(ctx)
	}
	out, _, whole := strings.Cut(string(b), mark+"\n")
	switch {
	case whole:
		return out, s, nil
	case err == nil || errors.Is(err, io.ErrUnexpectedEOF):
		err = serr // or none: the script went before its end
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = errors.New("the shell there went away")
	}
	return out, s, fmt.Errorf("%w%s", err, why(s))
}

func why(s Stream) string {
	if s != nil {
		if said := s.Said(); said != "" {
			return " (" + said + ")"
		}
	}
	return ""
}

// hash is the SHA-256 of a file, and its size.
func hash(file string) (sum string, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// clip bounds what the other side said, on one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	const most = 300
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}
