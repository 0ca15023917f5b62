package far

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// mayWall says whether this process may make a mount namespace and change root
// in it. Being root is not enough in a container.
var mayWall = sync.OnceValue(func() bool {
	if os.Geteuid() != 0 {
		return false
	}
	self, err := os.Executable()
	if err != nil {
		return false
	}
	cmd := exec.Command(self, shimWord, "probe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	return cmd.Run() == nil
})

// command is a keeper with args behind its shim: in a new mount namespace if walled.
func (h *Host) command(args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, shimWord, h.root)
	cmd.Dir = h.Here(home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if h.walled {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
		for _, b := range h.binds {
			cmd.Args = append(cmd.Args, b.from+":"+b.to)
		}
	} else {
		cmd.Args = append(cmd.Args, "plain")
	}
	cmd.Args = append(append(cmd.Args, "--"), args...)
	return cmd, nil
}

// shim runs in the new namespace: it builds the wall, steps behind it, and
// becomes the keeper. It returns only an error.
//
// The order binds. The first mount call makes this namespace private: without
// it the mounts below would appear in the caller's namespace too, where the end
// of the test removes the other root with all that is under it. Root is changed
// before the user, since nobody else may; the user before the keeper exists.
func shim(args []string) error {
	root, rest := args[0], args[1:]
	if root == "probe" {
		if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE); err != nil {
			return err
		}
		os.Exit(0)
	}
	if len(rest) > 0 && rest[0] == "plain" {
		var opts []string
		if len(rest) > 1 {
			opts = rest[2:]
		}
		return become(root+prog, root, opts)
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE); err != nil {
		return err
	}
	var opts []string
	for i, b := range rest {
		if b == "--" {
			opts = rest[i+1:]
			break
		}
		from, to, _ := strings.Cut(b, ":")
		to = filepath.Join(root, to)
		if err := mount(from, to, "", unix.MS_BIND|unix.MS_REC); err != nil {
			return err
		}
		if err := mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY); err != nil {
			return err
		}
	}
	if err := mount("proc", root+"/proc", "proc", 0); err != nil {
		return err
	}
	if err := mount("tmpfs", root+"/dev", "tmpfs", 0); err != nil {
		return err
	}
	for _, dev := range []string{"null", "zero", "full", "urandom", "random", "tty"} {
		name := root + "/dev/" + dev
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
		if err := mount("/dev/"+dev, name, "", unix.MS_BIND); err != nil {
			return err
		}
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := unix.Chdir(home); err != nil {
		return fmt.Errorf("chdir: %w", err)
	}
	// Not package unix: these reach all threads.
	if err := syscall.Setgroups([]int{user}); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setgid(user); err != nil {
		return fmt.Errorf("setgid: %w", err)
	}
	if err := syscall.Setuid(user); err != nil {
		return fmt.Errorf("setuid: %w", err)
	}
	return become(prog, "", opts)
}

// become replaces this process by the keeper.
func become(exe, root string, opts []string) error {
	argv := append([]string{exe, keeperWord}, opts...)
	return syscall.Exec(exe, argv, environment(root))
}

func mount(from, to, kind string, flags uintptr) error {
	if err := unix.Mount(from, to, kind, flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", from, to, err)
	}
	return nil
}
