package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rein-run/rein"
)

// checkReportFile refuses before the start what could not be written after it,
// and a link: what it leads to would be written without having been named. from
// is who named the file: a flag, a variable or a place in a configuration file.
func checkReportFile(name, from string) error {
	if name == "" {
		return nil
	}
	info, err := os.Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return usage("%s: %s is a directory: name a file in it", from, name)
	case err == nil && info.Mode()&fs.ModeSymlink != 0 && !system(name):
		to, _ := os.Readlink(name)
		return usage("%s: %s is a symbolic link to %s: name the file itself, or remove the link", from, name, to)
	case err == nil && inPlace(info, name):
		f, err := os.OpenFile(name, os.O_WRONLY|nonblock, 0) // a FIFO that nobody reads is refused, not waited for
		if err != nil {
			return usage("%s: %s", from, reportTrouble(name, err))
		}
		return f.Close()
	}
	// As it will be written: a file that may be written in a directory that may
	// not cannot be replaced.
	f, err := newReportFile(name)
	if err != nil {
		return usage("%s: %s", from, reportTrouble(name, err))
	}
	f.Close()
	return os.Remove(f.Name())
}

func newReportFile(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), ".rein-report-*")
}

// reportTrouble is an error of the file system in terms of the file that was
// asked for: the one that is made first and takes its place is nobody's business.
func reportTrouble(name string, err error) error {
	dir := filepath.Dir(name)
	cause := err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		cause = pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		cause = le.Err
	}
	info, serr := os.Stat(dir)
	switch {
	case errors.Is(serr, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no directory %s: make it, or name another file", name, dir)
	case serr == nil && !info.IsDir():
		return fmt.Errorf("%s: %s is a file, not a directory: name another file", name, dir)
	case errors.Is(err, fs.ErrPermission) && !strings.HasPrefix(dir, "/dev"):
		return fmt.Errorf("%s: nothing may be written in %s (%w): name another file", name, dir, cause)
	}
	return fmt.Errorf("%s: %w", name, cause)
}

// system says that a name is the system's own: /dev/stdout is a link to what
// the shell has opened.
func system(name string) bool {
	abs, err := filepath.Abs(name)
	return err == nil && (strings.HasPrefix(abs, "/dev/") || strings.HasPrefix(abs, "/proc/"))
}

// writeReportFile replaces the file at once, so that a reader never sees half a
// report, and a link that was put there meanwhile is replaced and not followed.
// A pipe, a device and what the shell has opened are written to.
func writeReportFile(name string, rep *rein.Report) error {
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if info, err := os.Lstat(name); err == nil && inPlace(info, name) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|nonblock, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Close())
	}
	f, err := newReportFile(name)
	if err != nil {
		return reportTrouble(name, err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return reportTrouble(name, err)
	}
	return nil
}

// inPlace says that the file is written to and not replaced: a pipe, a device,
// what the shell has opened.
func inPlace(info fs.FileInfo, name string) bool {
	return !info.Mode().IsRegular() && (info.Mode()&fs.ModeSymlink == 0 || system(name))
}
