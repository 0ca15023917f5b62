package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ProjectFile is the name of a project's file.
const ProjectFile = "rein.yaml"

// misnamed is how the files are written by mistake. They are refused and not
// passed over: whoever wrote one believes that its clocks and limits hold.
var (
	misnamedProject = []string{"rein.yml", ".rein.yaml", ".rein.yml"}
	misnamedUser    = []string{"config.yml", "rein.yaml", "rein.yml", ".rein.yaml"}
)

func misnamed(path, right string) error {
	from := Project
	if right != ProjectFile {
		from = User
	}
	return &Error{Origin: Origin{Source: from, Name: path}, Msg: "is not read under this name: rename it to " + right + ", or remove it where there is one"}
}

// maxFile bounds a file, in bytes.
const maxFile = 64 << 10

// Options of Load.
type Options struct {
	// Agents are the names that may stand below agents: others are errors.
	// nil: every name may.
	Agents []string
	// NoProject leaves the project's file alone, for who wants what only the
	// user may settle.
	NoProject bool
	// Environ is the environment as NAME=VALUE: an unknown REIN_ variable in it
	// is an error, as an unknown key of a file is. nil: not looked at.
	Environ []string
}

// Load reads the user's file, the project's file that is nearest to dir, and
// the REIN_ variables. A file that is not there is no error. env gives the value
// of a variable, "" for none: os.Getenv. Errors are *Error, joined, or those of
// the file system.
//
// The project's file is looked for in dir and upward to the root of the git
// repository that dir is in, and outside of one in dir alone: a rein.yaml that
// somebody put into /tmp must not govern all that lies below it.
func Load(dir string, env func(string) string, o *Options) (*Config, error) {
	if o == nil {
		o = &Options{}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c := &Config{workingIn: dir}
	r := reader{c: c, agents: o.Agents, home: home(env), userFile: UserFile(env)}
	if r.userFile != "" {
		for _, name := range misnamedUser {
			if p := filepath.Join(filepath.Dir(r.userFile), name); exists(p) {
				return nil, misnamed(p, filepath.Base(r.userFile))
			}
		}
		if err := r.file(r.userFile, User); err != nil {
			return nil, err
		}
	}
	p := ""
	if !o.NoProject {
		p = findProject(dir)
	}
	if p != "" && !sameFile(p, r.userFile) {
		if filepath.Base(p) != ProjectFile {
			return nil, misnamed(p, ProjectFile)
		}
		if err := r.file(p, Project); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(unknownVariables(o.Environ), r.variables(env)); err != nil {
		return nil, err
	}
	return c, nil
}

// UserFile is the path of the user's own file: rein/config.yaml in
// $XDG_CONFIG_HOME, else in ~/.config (in %AppData% where there is that and no
// HOME). "" when none of them is known.
func UserFile(env func(string) string) string {
	dir := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // a relative one is to be ignored (XDG Base Directory 0.8)
		dir = ""
	}
	if h := env("HOME"); dir == "" && h != "" {
		dir = filepath.Join(h, ".config")
	}
	if dir == "" {
		dir = env("AppData")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "rein", "config.yaml")
}

func home(env func(string) string) string {
	if h := env("HOME"); h != "" {
		return h
	}
	return env("USERPROFILE")
}

// findProject gives the path of the project's file, which may be misnamed, ""
// when there is none.
func findProject(dir string) string {
	nearest := ""
	for at := dir; ; at = filepath.Dir(at) {
		for _, name := range append(slices.Clone(misnamedProject), ProjectFile) { // of several, the one that is an error
			if p := filepath.Join(at, name); nearest == "" && exists(p) {
				nearest = p
			}
		}
		// A file in a linked worktree and in a submodule, else a directory.
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return nearest
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if filepath.Dir(nearest) == dir {
		return nearest
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// read reads one file. A project's file must be one: a symlink would have the
// errors print what is in some other file of the user's.
func read(path string, from Source) ([]byte, error) {
	look := os.Stat // dotfiles are often links
	if from == Project {
		look = os.Lstat
	}
	info, err := look(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	at := Origin{Source: from, Name: path}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a named pipe would wait for ever
		return nil, &Error{Origin: at, Msg: "is not a regular file"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, &Error{Origin: at, Msg: "was replaced while it was opened"}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, &Error{Origin: at, Msg: fmt.Sprintf("is larger than %d KiB", maxFile>>10)}
	}
	return b, nil
}

// variables reads REIN_AGENT and so on. Labels are NAME=VALUE, separated by
// commas.
func (r *reader) variables(env func(string) string) error {
	var errs []error
	for i := range keys {
		k := &keys[i]
		name := variable(k.name)
		value := env(name)
		if value == "" || !k.variable() {
			continue
		}
		v := r.given(value, k.name, Origin{Source: Variable, Name: name})
		if k.many {
			for s := range strings.SplitSeq(value, ",") {
				v.text = s
				errs = append(errs, r.c.put(k, v))
			}
			continue
		}
		if k.name != "labels" {
			errs = append(errs, r.c.put(k, v))
			continue
		}
		for l := range strings.SplitSeq(value, ",") {
			name, value, ok := strings.Cut(l, "=")
			if v.text = value; !ok {
				errs = append(errs, v.errorf("labels are NAME=VALUE, separated by commas"))
				break
			}
			errs = append(errs, r.c.label(strings.TrimSpace(name), v))
		}
	}
	return errors.Join(errs...)
}

// unknownVariables finds the typing errors among REIN_ variables. One that is
// empty counts as not set, as those that are known do.
func unknownVariables(environ []string) error {
	var names []string
	for _, k := range keys {
		if k.variable() {
			names = append(names, k.name)
		}
	}
	var errs []error
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		key, ours := strings.CutPrefix(name, variable(""))
		if !ours || value == "" || ownVariable(name) {
			continue
		}
		key = strings.ToLower(key)
		v := given{from: Origin{Source: Variable, Name: printable(name)}, key: key}
		switch k := findKey(key); {
		case k != nil && name != variable(key):
			errs = append(errs, v.errorf("there is no such variable: write %s", variable(key)))
		case k != nil && !k.variable():
			errs = append(errs, v.errorf("%s can be set in a file only", key))
		case k != nil:
		case closest(key, names) != "":
			errs = append(errs, v.errorf("there is no such variable: did you mean %s?", variable(closest(key, names))))
		default:
			errs = append(errs, v.errorf("there is no such variable: unset it (the variables are %s and a key: %s)", variable(""), strings.Join(names, ", ")))
		}
	}
	return errors.Join(errs...)
}

// ownVariable says that Rein itself sets the variable: for the processes of a
// run, for a rein in the background, and for its tests and benchmarks.
func ownVariable(name string) bool {
	switch name {
	case "REIN_RUN", "REIN_DETACHED":
		return true
	}
	for _, prefix := range []string{"REIN_TEST_", "REIN_BENCH_", "REIN_AGENTTEST_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func variable(key string) string { return "REIN_" + strings.ToUpper(key) }
