package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// launch is a command that was checked and resolved and can be started.
type launch struct {
	name string // as it was asked for
	exe  string
	argv []string
	env  []string
	dir  string
	mark string // value of the marker variable

	stdin, stdout, stderr *os.File // the command's own ends
	cgroup                *proctree.Cgroup
}

// maxString is MAX_ARG_STRLEN of Linux, the terminating NUL included: execve(2)
// answers E2BIG for one longer string although all together may be 2 MiB.
const maxString = 131072

// newLaunch refuses all that can be refused before the first side effect.
func newLaunch(spec *driver.Spec, base []string) (*launch, error) {
	if len(spec.Argv) == 0 {
		return nil, refuse(driver.ErrArgument, "the argv is empty")
	}
	if err := checkID(spec.ID); err != nil {
		return nil, err
	}
	for i, a := range spec.Argv {
		if err := checkString(fmt.Sprintf("argument %d", i), a); err != nil {
			return nil, err
		}
	}
	for name, v := range spec.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return nil, refuse(driver.ErrArgument, fmt.Sprintf("%q cannot be the name of a variable", name))
		}
		if err := checkString("variable "+name, name+"="+v); err != nil {
			return nil, err
		}
	}
	l := &launch{name: spec.Argv[0], argv: spec.Argv, dir: spec.Dir}
	if err := checkDir(spec.Dir); err != nil {
		return nil, err
	}
	l.env, l.mark = environ(base, spec, tag())
	var err error
	l.exe, err = resolve(l.name, searchPath(l.env))
	return l, err
}

func checkString(what, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return refuse(driver.ErrArgument, what+" holds a NUL byte, which ends a string for the kernel")
	}
	if runtime.GOOS == "linux" && len(s) >= maxString {
		return refuse(driver.ErrArgument, fmt.Sprintf(
			"%s has %d bytes; Linux takes at most %d in one string: pass it on stdin or in a file", what, len(s), maxString-1))
	}
	return nil
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	if strings.IndexByte(dir, 0) >= 0 {
		return refuse(driver.ErrArgument, "the directory holds a NUL byte")
	}
	fi, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(driver.ErrNoDir, dir)
	case err != nil:
		return refuse(driver.ErrNoDir, dir+": "+reason(err))
	case !fi.IsDir():
		return refuse(driver.ErrNoDir, dir+" is not a directory")
	}
	return mayEnter(dir)
}

// refusal makes the errors of execve(2) say what to do. They never hold an
// argument or a value.
func (l *launch) refusal(err error) error {
	why := ""
	switch {
	case errors.Is(err, syscall.ENOENT):
		why = "the interpreter of its first line, or its loader, does not exist"
	case errors.Is(err, syscall.ENOEXEC):
		why = "not a program for this system, or a script without a #! line"
	case errors.Is(err, syscall.EACCES):
		why = "may not be executed here (permission, or a file system mounted noexec)"
	case errors.Is(err, syscall.E2BIG):
		return refuse(driver.ErrArgument, "arguments and environment together are too large for this system: pass the prompt on stdin or in a file")
	default:
		return fmt.Errorf("start %s: %w", l.exe, err)
	}
	return &driver.NotFoundError{Name: l.name, Why: l.exe + ": " + why}
}
