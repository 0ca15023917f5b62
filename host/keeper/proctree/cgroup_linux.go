package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cgroupPrefix = "rein-"
	cgroupDepth  = 64 // how deep sub-cgroups are followed
	removeWait   = 2 * time.Second
)

// Cgroup is one cgroup v2 made for one run. Everything is done through the
// directory that was opened first, never through its name again. Its methods
// may be called concurrently, but not with or after Close or Remove.
type Cgroup struct {
	path string
	dir  *os.File
}

// NewCgroup makes the cgroup rein-NAME below the one that the calling process
// is in. The error says why none can be had: no cgroup2, no permission, a
// kernel before 5.14 (no cgroup.kill).
func NewCgroup(name string) (*Cgroup, error) {
	if !plainName(name) {
		return nil, fmt.Errorf("make cgroup: %q is no plain file name", name)
	}
	own, err := ownCgroup()
	if err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	// To put a child there is to move it out of our own cgroup, which the
	// kernel allows only to those who may write both (cgroups(7), delegation).
	if err := unix.Faccessat(unix.AT_FDCWD, path.Join(own, "cgroup.procs"), unix.W_OK, unix.AT_EACCESS); err != nil {
		return nil, fmt.Errorf("make cgroup: own cgroup %s is not delegated to this user: %w", own, err)
	}
	dir := path.Join(own, cgroupPrefix+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	c, err := OpenCgroup(dir)
	if err == nil {
		if err = c.usable(); err != nil {
			c.Close()
		}
	}
	if err != nil {
		_ = os.Remove(dir) // made a moment ago, empty
		return nil, err
	}
	return c, nil
}

// OpenCgroup opens a cgroup that NewCgroup made, in this process or in one that
// is gone. It refuses every path that is not a cgroup named rein-… below a
// cgroup2 mount, and follows no symbolic link (cgroup2 itself holds none). One that does not exist is
// os.ErrNotExist.
func OpenCgroup(dir string) (*Cgroup, error) {
	refuse := func(why string) error { return fmt.Errorf("open cgroup %q: %s", dir, why) }
	base := path.Base(dir)
	if !path.IsAbs(dir) || path.Clean(dir) != dir || !plainName(base) ||
		!strings.HasPrefix(base, cgroupPrefix) || base == cgroupPrefix {
		return nil, refuse("not the path of a cgroup named rein-…")
	}
	mounts, err := cgroupMounts()
	if err != nil {
		return nil, fmt.Errorf("open cgroup %q: %w", dir, err)
	}
	below := false
	for _, m := range mounts {
		below = below || strings.HasPrefix(dir, strings.TrimSuffix(m.point, "/")+"/")
	}
	if !below {
		return nil, refuse("not below a cgroup2 mount")
	}
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open cgroup", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), dir)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		f.Close()
		return nil, refuse("not on cgroup2")
	}
	return &Cgroup{path: dir, dir: f}, nil
}

// usable says why no process could be put into c and ended by it.
func (c *Cgroup) usable() error {
	kind, err := c.read("cgroup.type")
	if err != nil {
		return fmt.Errorf("make cgroup %s: %w", c.path, err)
	}
	if kind := strings.TrimSpace(string(kind)); kind != "domain" {
		return fmt.Errorf("make cgroup %s: it would be of type %q, which takes no processes", c.path, kind)
	}
	for _, name := range []string{"cgroup.kill", "cgroup.procs"} {
		if err := unix.Faccessat(c.FD(), name, unix.W_OK, unix.AT_EACCESS); err != nil {
			return fmt.Errorf("make cgroup %s: %s (Linux 5.14 or later): %w", c.path, name, err)
		}
	}
	return nil
}

// Path is the directory of c.
func (c *Cgroup) Path() string { return c.path }

// FD is the open directory, for syscall.SysProcAttr.CgroupFD. It stays c's.
func (c *Cgroup) FD() int { return int(c.dir.Fd()) }

// Close releases the descriptor and leaves the cgroup alone.
func (c *Cgroup) Close() error { return c.dir.Close() }

// Procs returns the pids of the live processes in c and below, in no order: an
// agent may make sub-cgroups. A cgroup that is gone has none.
func (c *Cgroup) Procs() ([]int, error) {
	pids, err := procsBelow(c.FD(), 0, nil)
	if err != nil {
		return pids, fmt.Errorf("list cgroup %s: %w", c.path, err)
	}
	return pids, nil
}

// Kill sends SIGKILL to all processes in c and below, and to those that they
// are forking at that moment. It does not wait for their end. A cgroup that is
// gone is no error.
func (c *Cgroup) Kill() error {
	fd, err := openBelow(c.FD(), "cgroup.kill", unix.O_WRONLY)
	if err == nil {
		_, err = ignoringEINTR(func() (int, error) { return unix.Write(fd, []byte{'1'}) })
		unix.Close(fd)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("kill cgroup %s: %w", c.path, err)
	}
	return nil
}

// Remove removes c and what is below, and closes it. As long as processes that
// are dying hold it, it tries again, at most 2 s; with live ones in it the
// error (EBUSY) comes at once and c stays open.
func (c *Cgroup) Remove() error {
	deadline := time.Now().Add(removeWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		removeBelow(c.FD(), 0)
		err := unix.Rmdir(c.path)
		if err == nil || gone(err) {
			return c.Close()
		}
		pids, _ := c.Procs()
		if !errors.Is(err, unix.EBUSY) || len(pids) > 0 || time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup %s (%d processes in it): %w", c.path, len(pids), err)
		}
		time.Sleep(pause)
	}
}

func (c *Cgroup) read(name string) ([]byte, error) { return readBelow(c.FD(), name) }

// gone says that err means a removed cgroup.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }

func openBelow(dir int, name string, flags int) (int, error) {
	return ignoringEINTR(func() (int, error) {
		return unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

func readBelow(dir int, name string) ([]byte, error) {
	fd, err := openBelow(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var all []byte
	buf := make([]byte, 4096)
	for {
		n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, buf) })
		if err != nil || n <= 0 {
			return all, err
		}
		all = append(all, buf[:n]...)
	}
}

func procsBelow(dir, depth int, pids []int) ([]int, error) {
	list, err := readBelow(dir, "cgroup.procs")
	// EOPNOTSUPP: a threaded cgroup, whose processes are listed above it.
	if err != nil && !gone(err) && !errors.Is(err, unix.EOPNOTSUPP) {
		return pids, err
	}
	for line := range bytes.SplitSeq(list, []byte{'\n'}) {
		if pid, ok := number(line); ok && pid > 0 { // 0: in another pid namespace
			pids = append(pids, int(pid))
		}
	}
	err = eachBelow(dir, depth, func(sub int, _ string) error {
		var err error
		pids, err = procsBelow(sub, depth+1, pids)
		return err
	})
	return pids, err
}

// removeBelow removes what can be removed below dir, the deepest first.
func removeBelow(dir, depth int) {
	_ = eachBelow(dir, depth, func(sub int, name string) error {
		removeBelow(sub, depth+1)
		_ = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) // what is left is seen by the rmdir above
		return nil
	})
}

// eachBelow calls do with every sub-cgroup of dir.
func eachBelow(dir, depth int, do func(sub int, name string) error) error {
	if depth >= cgroupDepth {
		return fmt.Errorf("sub-cgroups more than %d deep", cgroupDepth)
	}
	// A new description: reading moves the offset of the one that is shared.
	fd, err := openBelow(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		if gone(err) {
			return nil
		}
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil && !gone(err) {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		sub, err := openBelow(dir, e.Name(), unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			if gone(err) {
				continue
			}
			return err
		}
		err = do(sub, e.Name())
		unix.Close(sub)
		if err != nil {
			return err
		}
	}
	return nil
}

// plainName says that name is one path element of harmless characters.
func plainName(name string) bool {
	if name == "" || len(name) > 200 || name[0] == '.' {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
