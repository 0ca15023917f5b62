package inside

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writing are the rights of landlock(7) that change something, by the version
// of the interface that has them.
const (
	writing = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	ofFiles = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE // what a rule on a file may hold
)

// MinABI is the first version that can hold files whole (truncate, 3) and TCP.
const MinABI = 4

// ABI is the version of Landlock in this kernel; 0 when there is none.
func ABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// restrict holds this thread, and the program that it becomes, to what may be
// written, and with network to TCP connections to the ports.
func (k *Landlock) restrict(ports []int, network bool) error {
	abi := ABI()
	if abi < MinABI {
		return fmt.Errorf("this kernel has version %d, %d is needed", abi, MinABI)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: writing}
	if network {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 6 { // signals and abstract sockets end at the sandbox
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs) // what is longer than the kernel knows must be zero: it is cut
	if abi < 6 {
		size = unsafe.Offsetof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("ruleset: %w", errno)
	}
	rules := int(fd)
	defer unix.Close(rules)
	for _, p := range append([]string{"/dev/null", "/dev/zero", "/dev/tty", "/dev/pts", "/dev/ptmx", "/dev/shm"}, k.Write...) {
		if err := allow(rules, p); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if network {
		for _, port := range ports {
			rule := landlockNetPort{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
			if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), landlockRuleNetPort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
				return fmt.Errorf("port %d: %w", port, errno)
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return fmt.Errorf("restrict: %w", errno)
	}
	return nil
}

// What package unix does not have: linux/landlock.h.
const landlockRuleNetPort = 2

type landlockNetPort struct{ access, port uint64 }

// allow lets path be written, and all below it.
func allow(rules int, path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	rights := uint64(writing)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights = ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
