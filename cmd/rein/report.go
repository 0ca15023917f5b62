package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rein-run/rein"
)

// checkReportFile refuses before the start what could not be written after it,
// and a link: what it leads to would be written without having been named.
func checkReportFile(name string) error {
	if name == "" {
		return nil
	}
	info, err := os.Lstat(name)
	if err == nil {
		switch {
		case info.IsDir():
			return usage("--report: %s is a directory: name a file in it", name)
		case info.Mode()&fs.ModeSymlink != 0 && !system(name):
			to, _ := os.Readlink(name)
			return usage("--report: %s is a symbolic link to %s: name the file itself, or remove the link", name, to)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|nonblock, 0) // a FIFO that nobody reads is refused, not waited for
		if err != nil {
			return usage("--report: %s", err)
		}
		return f.Close()
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".rein-report-*")
	if err != nil {
		return usage("--report: %s", err)
	}
	f.Close()
	return os.Remove(f.Name())
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
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() && (info.Mode()&fs.ModeSymlink == 0 || system(name)) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|nonblock, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".rein-report-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
