package keeper

import (
	"os"
	"slices"
	"strconv"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// holders names the processes, other than this one, that have the pipe of a
// stream open. Whose files may not be read is not found. who limits it to some
// pids; nil: all.
func holders(streams []*stream, who func(pid int) bool) []driver.Proc {
	var pipes []string
	for _, s := range streams {
		if s.pipe == nil || closed(s.ended) {
			continue
		}
		if c, err := s.pipe.f.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) {
				if l, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd))); err == nil {
					pipes = append(pipes, l) // "pipe:[4711]"
				}
			})
		}
	}
	if len(pipes) == 0 {
		return nil
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var out []driver.Proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() || who != nil && !who(pid) || !holds(name, pipes) {
			continue
		}
		if p, err := proctree.Read(pid); err == nil && !p.Dead() {
			out = append(out, driver.Proc{PID: p.PID, Name: p.Name, Start: p.Start})
		}
	}
	return out
}

func holds(pid string, pipes []string) bool {
	fds, err := os.Open("/proc/" + pid + "/fd")
	if err != nil {
		return false
	}
	defer fds.Close()
	names, _ := fds.Readdirnames(-1)
	return slices.ContainsFunc(names, func(fd string) bool {
		l, err := os.Readlink("/proc/" + pid + "/fd/" + fd)
		return err == nil && slices.Contains(pipes, l)
	})
}
