package proctree

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
)

// cgroupMount is one place where the cgroup2 hierarchy can be seen: root is the
// cgroup that shows at point.
type cgroupMount struct {
	root, point string
}

// ownCgroup returns the directory of the cgroup2 that the calling process is
// in. It is looked up, never assumed: cgroup2 is at /sys/fs/cgroup on most
// systems, below it on hybrid ones, and elsewhere in containers.
func ownCgroup() (string, error) {
	mounts, err := cgroupMounts()
	if err != nil {
		return "", err
	}
	if len(mounts) == 0 {
		return "", errors.New("no cgroup2 is mounted")
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	own, ok := unifiedPath(string(b))
	if !ok {
		return "", errors.New("this process is in no cgroup2")
	}
	for _, m := range mounts {
		dir, ok := m.dir(own)
		if !ok {
			continue
		}
		// What is mounted over it, or another namespace's idea of the path,
		// would show as a directory without this file.
		if _, err := os.Stat(path.Join(dir, "cgroup.procs")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("own cgroup %q is not visible below any cgroup2 mount", own)
}

// dir returns where the cgroup shows that the kernel calls own.
func (m cgroupMount) dir(own string) (string, bool) {
	rel, ok := strings.CutPrefix(own, strings.TrimSuffix(m.root, "/"))
	if !ok || rel != "" && rel[0] != '/' || strings.Contains(rel+"/", "/../") {
		return "", false
	}
	return path.Join(m.point, rel), true
}

func cgroupMounts() ([]cgroupMount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(b)), nil
}

// parseMounts picks the cgroup2 mounts out of a mountinfo file
// (proc_pid_mountinfo(5)): the number of optional fields varies, a lone hyphen
// ends them, and the file system's type follows it.
func parseMounts(info string) []cgroupMount {
	var out []cgroupMount
	for line := range strings.Lines(info) {
		before, after, ok := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if ok && len(f) >= 6 && strings.HasPrefix(after, "cgroup2 ") {
			out = append(out, cgroupMount{root: unescape(f[3]), point: unescape(f[4])})
		}
	}
	return out
}

// unifiedPath picks the cgroup2 line, which is the one with the number 0 and no
// controllers, out of a /proc/PID/cgroup file.
func unifiedPath(file string) (string, bool) {
	for line := range strings.Lines(file) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			p = strings.TrimSuffix(p, "\n")
			return p, strings.HasPrefix(p, "/")
		}
	}
	return "", false
}

// unescape undoes the octal escapes of mountinfo: space, tab, newline and
// backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
