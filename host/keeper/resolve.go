package keeper

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/rein-run/rein/host/driver"
)

// marker is the variable that every member of a tree carries unless it wiped
// its environment. Its value is a path: a run inside a run is "outer/inner".
const marker = "REIN_RUN"

// tag stands behind the ID in the marker: who carries the marker is ended, and
// an ID is unique only where its caller keeps book ("ci" in two state
// directories, or another user's).
func tag() string { return "@" + rand.Text()[:12] }

// defaultPath is searched when the environment has no PATH at all. It stands
// for confstr(_CS_PATH), which execvp(3) uses then.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// environ layers spec over base: base, then Env, then Unset, then the marker, in
// which tag follows the ID.
// Later duplicates in base win, as they do in getenv of no libc but in every
// shell's export; the child sees each name once.
func environ(base []string, spec *driver.Spec, tag string) (env []string, mark string) {
	at := make(map[string]int, len(base)+len(spec.Env))
	set := func(name, kv string) {
		if i, ok := at[name]; ok {
			env[i] = kv
			return
		}
		at[name] = len(env)
		env = append(env, kv)
	}
	for _, kv := range base {
		// Windows keeps "=C:=C:\dir": the name may begin with '='.
		if i := strings.IndexByte(kv, '='); i > 0 || i == 0 && runtime.GOOS == "windows" {
			set(kv[:i], kv)
		}
	}
	for _, name := range spec.Env.Names() {
		set(name, name+"="+spec.Env[name])
	}
	outer := ""
	if i, ok := at[marker]; ok {
		outer = strings.TrimPrefix(env[i], marker+"=")
	}
	if own := lookup(base, marker); own != "" {
		outer = own // a caller cannot talk a run out of the one it is in
	}
	for _, name := range spec.Unset {
		if i, ok := at[name]; ok {
			env[i] = ""
		}
	}
	switch {
	case spec.ID == "":
		mark = ""
	case outer != "":
		mark = outer + "/" + spec.ID + tag
	default:
		mark = spec.ID + tag
	}
	if mark != "" {
		set(marker, marker+"="+mark)
	}
	kept := env[:0]
	for _, kv := range env {
		if kv != "" {
			kept = append(kept, kv)
		}
	}
	return kept, mark
}

// lookup returns the value of name in env; the last one wins.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// has tells an empty variable from one that is absent.
func has(env []string, name string) bool {
	for _, kv := range env {
		if strings.HasPrefix(kv, name+"=") {
			return true
		}
	}
	return false
}

func searchPath(env []string) string {
	if has(env, "PATH") {
		return lookup(env, "PATH")
	}
	return defaultPath
}

// resolve finds name as execvp(3) does: a name with a slash is a path, any
// other is looked for in path, where an empty element is the working directory
// (POSIX.1-2017, 8.3). A candidate that cannot be executed is passed over and
// remembered for the error. The result is absolute: it must mean the same
// after the change of directory.
func resolve(name, path string) (string, error) {
	if name == "" {
		return "", &driver.NotFoundError{Name: name, Why: "the name is empty"}
	}
	if strings.ContainsRune(name, filepath.Separator) || strings.ContainsRune(name, '/') {
		why := executable(name)
		if why == "" {
			return filepath.Abs(name)
		}
		if why == absent {
			return "", &driver.NotFoundError{Name: name}
		}
		return "", &driver.NotFoundError{Name: name, Why: why}
	}
	seen := ""
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		for _, ext := range extensions(name) {
			file := filepath.Join(dir, name+ext)
			switch why := executable(file); why {
			case "":
				return filepath.Abs(file)
			case absent:
			default:
				if seen == "" {
					seen = file + " " + why
				}
			}
		}
	}
	if path == "" {
		// One empty element, by the letter of POSIX: the working directory.
		if executable(name) == "" {
			return filepath.Abs(name)
		}
	}
	return "", &driver.NotFoundError{Name: name, Path: path, Why: seen}
}

const absent = "does not exist"

// executable returns "" when file can be executed, absent, or what is wrong.
func executable(file string) string {
	fi, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		if _, lerr := os.Lstat(file); lerr == nil {
			return "is a symbolic link to nothing"
		}
		return absent
	case err != nil:
		return "cannot be read: " + reason(err)
	case fi.IsDir():
		return "is a directory"
	}
	return mayExecute(file, fi)
}

// reason is the error without the path that PathError repeats.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// look describes this environment and resolves name in it, without starting
// anything.
func look(name string, env driver.Env) (*driver.Place, error) {
	full, _ := environ(os.Environ(), &driver.Spec{Env: env}, "")
	p := &driver.Place{
		OS: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid(),
		Home: home(full), Path: searchPath(full),
	}
	if name == "" {
		return p, nil
	}
	exe, err := resolve(name, p.Path)
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(exe)
	if err != nil {
		return nil, &driver.NotFoundError{Name: name, Path: p.Path, Why: exe + " cannot be read: " + reason(err)}
	}
	p.Exe, p.Size, p.ModTime = exe, fi.Size(), fi.ModTime()
	return p, nil
}

// Describe is Look for the environment of this process: it needs no keeper.
func Describe(name string, env driver.Env) (*driver.Place, error) { return look(name, env) }

// home is $HOME, or the entry in the password file: a keeper that is reached
// over a bare transport may have an empty environment. (os/user would link cgo
// or much of net for the same line.)
func home(env []string) string {
	if runtime.GOOS == "windows" {
		return lookup(env, "USERPROFILE")
	}
	if h := lookup(env, "HOME"); h != "" {
		return h
	}
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	return passwdHome(string(b), os.Getuid())
}
