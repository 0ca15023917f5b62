package transcript

import (
	"os"

	"golang.org/x/sys/unix"
)

// notifier says on C that a file may have changed. C is nil, and nothing is
// ever said, when the kernel gives no instance: a user has 128 of them
// (fs.inotify.max_user_instances), and whoever waits polls as well.
type notifier struct {
	C    chan struct{}
	f    *os.File
	gone chan struct{}
}

func newNotifier(path string) *notifier {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return &notifier{}
	}
	const mask = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_DONT_FOLLOW
	if _, err := unix.InotifyAddWatch(fd, path, mask); err != nil {
		unix.Close(fd)
		return &notifier{}
	}
	n := &notifier{C: make(chan struct{}, 1), f: os.NewFile(uintptr(fd), "inotify"), gone: make(chan struct{})}
	go n.run()
	return n
}

func (n *notifier) run() {
	defer close(n.gone)
	var buf [4096]byte
	for {
		// What happened does not matter: the waiter looks at the file.
		if _, err := n.f.Read(buf[:]); err != nil {
			return
		}
		select {
		case n.C <- struct{}{}:
		default:
		}
	}
}

func (n *notifier) close() {
	if n.f != nil {
		n.f.Close()
		<-n.gone
	}
}
