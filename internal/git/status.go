package git

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxFilters and maxStats bound what a repository can make Fingerprint do.
const (
	maxFilters = 64
	maxStats   = 10_000
)

// Lstat gives a short string that changes with every file of names, relative to
// top: size, time, mode. It follows no symlinks. Files that are not there give
// something too; it does not fail.
type Lstat func(ctx context.Context, top string, names []string) []string

// Fingerprint is a string that changes when the tree of dir's repository does:
// HEAD, the index, tracked files and untracked files that are not ignored. With
// lstat it also sees further edits of a file that was dirty before, up to
// 10,000 of them; nil: it does not. Submodules count by their commit.
//
// `git status` compares files whose time changed, and runs the clean filter
// that .gitattributes and the configuration name for them: a program of the
// agent's choice, outside of its tree and its sandbox. Git has no switch
// against that, so every filter that is configured is overridden by an empty
// one. A file with such a filter (git-lfs) then looks modified when it was
// merely touched, which does no harm here. What remains: a filter that is
// written into the configuration between the two commands. Whoever can do that
// runs programs as this user already, unless it is in a sandbox, and there the
// configuration is read-only.
func Fingerprint(ctx context.Context, run Runner, dir string, lstat Lstat) (string, error) {
	out, err := status(ctx, run, dir, "--branch", "--no-ahead-behind")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	sum.Write(out)
	if names := changed(string(out)); lstat != nil && len(names) > 0 {
		top, err := run.value(ctx, dir, "--show-toplevel")
		if err != nil {
			return "", err
		}
		for _, s := range lstat(ctx, top, names[:min(len(names), maxStats)]) {
			sum.Write([]byte(s))
			sum.Write([]byte{0})
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// status runs git status with every filter off.
func status(ctx context.Context, run Runner, dir string, more ...string) ([]byte, error) {
	off, err := filtersOff(ctx, run, dir)
	if err != nil {
		return nil, err
	}
	return run.gitWith(ctx, dir, off, append([]string{
		"status", "--porcelain=v2", "-z", "--no-renames",
		"--untracked-files=all", // the content of a new directory counts too
		"--ignore-submodules=dirty",
	}, more...)...)
}

// Dirty says what is modified in the working tree top or in its index, and what
// is untracked there and not ignored: path → a short string that changes with
// the state of the file. With lstat that holds for further edits of a file that
// is dirty already, too. The paths are relative to top; a repository inside is
// one path that ends with a slash. At most 10,000 paths; more is an error that
// matches ErrTooLarge.
func Dirty(ctx context.Context, run Runner, top string, lstat Lstat) (map[string]string, error) {
	out, err := status(ctx, run, top)
	if err != nil {
		return nil, err
	}
	paths, states := entries(string(out))
	if len(paths) > maxStats {
		return nil, fmt.Errorf("%s: %d files are not clean: %w", top, len(paths), ErrTooLarge)
	}
	stats := make([]string, len(paths))
	if lstat != nil && len(paths) > 0 {
		stats = lstat(ctx, top, paths)
	}
	all := make(map[string]string, len(paths))
	for i, p := range paths {
		if strings.HasSuffix(p, "/") {
			stats[i] = "" // a directory's time moves with what is in it
		}
		sum := sha256.Sum256([]byte(states[i] + "\x00" + stats[i]))
		all[p] = hex.EncodeToString(sum[:8])
	}
	return all, ctx.Err()
}

// filtersOff gives the options that override every configured filter.
func filtersOff(ctx context.Context, run Runner, dir string) ([]string, error) {
	out, err := run.git(ctx, dir, "config", "--null", "--name-only", "--get-regexp", `^filter\.`)
	if failed(err, 1) { // none
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var off []string
	seen := map[string]bool{}
	for key := range strings.SplitSeq(string(out), "\x00") {
		i, j := strings.Index(key, "."), strings.LastIndex(key, ".")
		if i < 0 || i == j {
			continue
		}
		name := key[i+1 : j]
		if seen[name] {
			continue
		}
		seen[name] = true
		// -c splits at the first "=", so such a name cannot be overridden.
		if strings.ContainsAny(name, "=\n") || len(seen) > maxFilters {
			return nil, fmt.Errorf("git status in %s: not run: the filters in its configuration cannot be switched off", dir)
		}
		for _, v := range []string{"clean=", "process=", "smudge=", "required=false"} {
			off = append(off, "-c", "filter."+name+"."+v)
		}
	}
	return off, nil
}

// changed are the paths in the output of status, as far as it can be
// understood.
func changed(out string) []string {
	names, _ := entries(out)
	return names
}

// entries are the paths in the output of status, each with what is said of it.
func entries(out string) (names, states []string) {
	for e := range strings.SplitSeq(out, "\x00") {
		n := 0 // fields before the path
		switch {
		case strings.HasPrefix(e, "1 "):
			n = 8
		case strings.HasPrefix(e, "u "):
			n = 10
		case strings.HasPrefix(e, "? "):
			n = 1
		default:
			continue
		}
		if f := strings.SplitN(e, " ", n+1); len(f) == n+1 {
			names = append(names, f[n])
			states = append(states, strings.Join(f[:n], " "))
		}
	}
	return names, states
}

// LocalLstat is Lstat for this machine. It cannot be led out of top: neither
// by a name nor by a directory that became a symlink.
func LocalLstat(ctx context.Context, top string, names []string) []string {
	all := make([]string, len(names))
	root, err := os.OpenRoot(top)
	if err != nil {
		return all
	}
	defer root.Close()
	for i, name := range names {
		if ctx.Err() != nil {
			break
		}
		info, err := root.Lstat(filepath.FromSlash(name))
		if err != nil {
			continue
		}
		var b [20]byte
		binary.BigEndian.PutUint64(b[0:], uint64(info.Size()))
		binary.BigEndian.PutUint64(b[8:], uint64(info.ModTime().UnixNano()))
		binary.BigEndian.PutUint32(b[16:], uint32(info.Mode()))
		all[i] = string(b[:])
	}
	return all
}
