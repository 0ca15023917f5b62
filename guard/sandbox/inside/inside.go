//go:build linux

package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Main listens on loopback, leaves a copy of itself behind that carries what
// comes to the socket outside, and becomes the agent, so that pid, parent,
// signals and exit are the agent's own. It returns only when that fails. args
// are the last ones of the process:
//
//	CONFIG -- COMMAND …
//	relay CONFIG              the copy; the listeners are descriptors 3 and on
func Main(args []string) error {
	var c Config
	switch {
	case len(args) == 2 && args[0] == relayVerb:
		if err := json.Unmarshal([]byte(args[1]), &c); err != nil {
			return err
		}
		return relay(c)
	case len(args) < 3 || args[1] != "--":
		return errors.New("usage: inside CONFIG -- COMMAND [ARGUMENT …]")
	}
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		return err
	}
	argv := args[2:]
	runtime.LockOSThread() // what starts the relay and what is restricted is what becomes the agent
	// bubblewrap ignores what ends the agent (Wrap), and what is ignored stays so
	// over execve(2), while what is caught is reset. Go catches SIGTERM anyway.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	env := os.Environ()
	var ports []int
	if c.Dir != "" {
		var err error
		if ports, err = c.leaveRelay(os.Args[1 : len(os.Args)-len(args)]); err != nil {
			return fmt.Errorf("inside of the sandbox: %w", err)
		}
		env = through(env, ports[0])
	}
	exe, err := exec.LookPath(argv[0])
	if err == nil {
		exe, err = filepath.Abs(exe)
	}
	if err != nil {
		return err
	}
	if c.Landlock != nil {
		if err := c.Landlock.restrict(ports, c.Dir != ""); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	return syscall.Exec(exe, argv, env)
}

const relayVerb = "relay"

// leaveRelay opens the listeners, starts the copy that serves them, and returns
// the ports that the agent connects to, the proxy's first.
func (c Config) leaveRelay(verb []string) (ports []int, err error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	listen := func(host, port string) error {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			return err
		}
		defer l.Close()
		f, err := l.(*net.TCPListener).File()
		files = append(files, f)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		return err
	}
	if err := listen("127.0.0.1", "0"); err != nil {
		return nil, err
	}
	for _, m := range c.Mirror {
		host, port, err := net.SplitHostPort(m)
		switch {
		case err != nil:
			return nil, err
		case c.Landlock != nil: // the loopback is the one outside, where the model is
			n, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			ports = append(ports, n)
			continue
		case host == "localhost":
			host = "127.0.0.1"
		}
		if err := listen(host, port); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append(slices.Clone(verb), relayVerb, string(b))...)
	cmd.ExtraFiles = files
	// A group of its own: what is sent to the agent's is not for it. It ends with
	// the agent, which this thread becomes (prctl(2): the parent is the thread).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return ports, cmd.Start()
}

// through is env with the proxy at the port. Loopback is the sandbox's own.
// Node 22.21 and 24 ask for NODE_USE_ENV_PROXY.
func through(env []string, port int) []string {
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	set := map[string]string{"NODE_USE_ENV_PROXY": "1"}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		set[name], set[strings.ToLower(name)] = url, url
	}
	set["NO_PROXY"] = "localhost,127.0.0.1,::1"
	set["no_proxy"] = set["NO_PROXY"]
	// Of two that have one name, some programs take the first.
	env = slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ours := set[name]
		return ours
	})
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}
