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
	off, err := filtersOff(ctx, run, dir)
	if err != nil {
		return "", err
	}
	out, err := run.gitWith(ctx, dir, off, "status", "--porcelain=v2", "-z", "--branch",
		"--no-ahead-behind", "--no-renames",
		"--untracked-files=all", // the content of a new directory counts too
		"--ignore-submodules=dirty")
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
	var names []string
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
		}
	}
	return names
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
