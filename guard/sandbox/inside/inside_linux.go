package inside

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
)

// Main listens on loopback, leaves a copy of itself behind that carries what
// comes to the socket outside, and becomes the agent, so that pid, parent,
// signals and exit are the agent's own. It returns only when that fails. args
// are the last ones of the process:
//
//	SOCKET -- COMMAND …
//	relay SOCKET              the copy; the listener is descriptor 3
func Main(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "relay":
		return relay(args[1])
	case len(args) < 3 || args[1] != "--":
		return errors.New("usage: inside SOCKET -- COMMAND [ARGUMENT …]")
	}
	socket, argv := args[0], args[2:]
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("listening inside of the sandbox: %w", err)
	}
	f, err := l.File()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, append(slices.Clone(os.Args[1:len(os.Args)-len(args)]), "relay", socket)...)
	cmd.ExtraFiles = []*os.File{f}
	// A group of its own: what is sent to the agent's is not for it, and it ends
	// with the sandbox.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	url := "http://127.0.0.1:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	env := os.Environ()
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY", "all_proxy"} {
		env = append(env, name+"="+url)
	}
	// The model may be on this machine's own loopback, which is not ours here:
	// nothing is exempt. Node 22.21 and 24 ask for the second.
	env = append(env, "NO_PROXY=", "no_proxy=", "NODE_USE_ENV_PROXY=1")
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, argv, env)
}

// relay carries every connection to the socket. Where that is gone, so is Rein.
func relay(socket string) error {
	f := os.NewFile(3, "listener")
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	f.Close()
	for {
		in, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("unix", socket)
			if err != nil {
				_, _ = io.WriteString(in, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				return
			}
			defer out.Close()
			go func() {
				_, _ = io.Copy(out, in)
				_ = out.(*net.UnixConn).CloseWrite()
			}()
			_, _ = io.Copy(in, out)
		}()
	}
}
