package git

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is one entry of a directory.
type File struct {
	Path    string // with slashes, on every system
	Regular bool   // it is a file, or a link to one
	Link    bool
	Exec    bool // somebody may execute it
	Size    int64
}

// Files reads what git has no command for, where the repository is: the entries
// of each directory in dirs, and the last 64 KiB of each file in tails. What is
// not there, or is no directory and no file, has none.
type Files func(ctx context.Context, dirs, tails []string) ([]File, [][]byte, error)

const (
	maxEntries = 256 // per directory
	maxTail    = 64 << 10
)

// LocalFiles is Files for this machine. It opens nothing but directories and
// regular files, so that a pipe that somebody has put there holds nothing up.
func LocalFiles(ctx context.Context, dirs, tails []string) ([]File, [][]byte, error) {
	var all []File
	for _, dir := range dirs {
		d, err := os.Open(dir)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return nil, nil, err
		}
		ents, err := d.ReadDir(maxEntries)
		d.Close()
		if err != nil && !errors.Is(err, io.EOF) {
			if info, serr := os.Stat(dir); serr == nil && !info.IsDir() {
				continue
			}
			return nil, nil, err
		}
		for _, e := range ents {
			f := File{Path: filepath.ToSlash(filepath.Join(dir, e.Name())), Link: e.Type()&fs.ModeSymlink != 0}
			if info, err := os.Stat(f.Path); err == nil {
				f.Regular, f.Exec, f.Size = info.Mode().IsRegular(), info.Mode()&0o111 != 0, info.Size()
			}
			all = append(all, f)
		}
	}
	ends := make([][]byte, len(tails))
	for i, name := range tails {
		ends[i] = tail(name)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all, ends, ctx.Err()
}

func tail(name string) []byte {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	b, _ := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-maxTail), maxTail))
	return b
}

// ShellFiles is Files for wherever run runs git, in the shell that git brings or
// is used with. dir is a directory that is there; it need not be a repository.
//
// The alias of a configuration is git's own way to start a shell; ours is given
// on the command line, and git takes that one.
func ShellFiles(run Runner, dir string) Files {
	return func(ctx context.Context, dirs, tails []string) ([]File, [][]byte, error) {
		// A separator that no content can be made to hold.
		sep := rand.Text()
		args := slices.Concat([]string{"rein-look", sep}, dirs, []string{sep}, tails)
		ctx, cancel := context.WithTimeout(ctx, maxTime)
		defer cancel()
		out, err := run.gitWith(ctx, dir, []string{"-c", "alias.rein-look=!" + look}, args...)
		if err != nil {
			return nil, nil, err
		}
		list, rest, ok := strings.Cut(string(out), "\x00"+sep+"\x00")
		if !ok {
			return nil, nil, errors.New("git: the shell's answer cannot be understood")
		}
		var all []File
		for len(list) > 0 {
			kind, more, ok1 := strings.Cut(list, "\x00")
			path, more, ok2 := strings.Cut(more, "\x00")
			if !ok1 || !ok2 {
				return nil, nil, errors.New("git: the shell's answer cannot be understood")
			}
			list = more
			all = append(all, File{
				Path: path, Link: strings.Contains(kind, "l"),
				Regular: strings.Contains(kind, "f"), Exec: strings.Contains(kind, "x"),
			})
		}
		ends := make([][]byte, len(tails))
		for i := range ends {
			var one string
			if one, rest, ok = strings.Cut(rest, "\x00"+sep+"\x00"); !ok {
				return nil, nil, fmt.Errorf("git: the shell's answer ends after %d files", i)
			}
			ends[i] = []byte(one)
		}
		slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		return all, ends, nil
	}
}

// look prints what Files wants. "$@" is given by git, behind the alias.
const look = `f() {
sep=$1; shift
unset GIT_DIR GIT_WORK_TREE GIT_PREFIX GIT_CONFIG_PARAMETERS
while [ "$1" != "$sep" ]; do
	for p in "$1"/* "$1"/.[!.]*; do
		k=
		[ -L "$p" ] && k=l
		[ -f "$p" ] && k=${k}f
		[ -x "$p" ] && k=${k}x
		[ -L "$p" ] || [ -e "$p" ] && printf '%s-\0%s\0' "$k" "$p"
	done
	shift
done
shift
printf '\0%s\0' "$sep"
for p in "$@"; do
	[ -f "$p" ] && [ ! -L "$p" ] && tail -c 65536 "$p" 2>/dev/null
	printf '\0%s\0' "$sep"
done
}; f`

// HashFiles gives the object id of the content of each file, as git would keep
// it without any filter; with keep the content is written into the repository as
// an object that nothing names. Symbolic links are followed. The files must be
// regular, for git reads them to their end.
func HashFiles(ctx context.Context, run Runner, dir string, keep bool, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	args := []string{"hash-object", "--no-filters"}
	if keep {
		args = append(args, "-w")
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	out, err := run.git(ctx, dir, slices.Concat(args, []string{"--"}, paths)...)
	if err != nil {
		return nil, err
	}
	oids := strings.Fields(string(out))
	if len(oids) != len(paths) {
		return nil, fmt.Errorf("git hash-object in %s: %d answers for %d files", dir, len(oids), len(paths))
	}
	return oids, nil
}

// Move is one entry of a reflog.
type Move struct {
	Old, New string
	When     int64  // seconds since 1970
	Why      string // "commit: subject", "reset: moving to HEAD~1" …
}

// Reflog reads the end of a reflog file, oldest first. A first line that was cut
// in the middle is dropped, as is what is no entry.
func Reflog(end []byte) []Move {
	var all []Move
	for line := range strings.Lines(string(end)) {
		who, why, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		f := strings.Fields(who)
		if len(f) < 4 || len(f[0]) < 40 || len(f[0]) != len(f[1]) {
			continue
		}
		var sec int64
		if _, err := fmt.Sscan(f[len(f)-2], &sec); err != nil {
			continue
		}
		all = append(all, Move{Old: f[0], New: f[1], When: sec, Why: why})
	}
	return all
}
