//go:build real && linux

package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rein-run/rein/host/keeper/proctree"
	"github.com/rein-run/rein/internal/shell"
)

// The ordinary user, who exists for the server and its sessions alone.
const (
	ordinary = "rein-ssh"
	uid      = 54321
)

// Options for Start; nil and the zero value are fine.
type Options struct {
	// Ordinary logs in as an ordinary user. Only root can make one; everybody else
	// is one and logs in as himself either way.
	Ordinary bool
	// Config is more for sshd_config.
	Config []string
	// Profile is the login shell's, in the home directory. Only with a home
	// directory of our own, which only root can make.
	Profile string
	// Shell is the login shell; "": /bin/bash.
	Shell string
	// NoexecHome: nothing may be executed from the home directory. For root.
	NoexecHome bool
	// Port of another Server, which is over, to take its place.
	Port string
}

// Server is a running sshd.
type Server struct {
	t testing.TB

	Dir        string // for everybody to enter
	Home       string // of who logs in
	User       string
	Port       string
	HostKey    string // line of known_hosts
	Key        string // file of the key that may log in
	KnownHosts string // file with HostKey
	Config     string // file: a client's configuration with Key and KnownHosts

	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a server and waits until it answers. t's end ends it.
func Start(t testing.TB, o *Options) *Server {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	dir, err := os.MkdirTemp("", "rein-sshd-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	s := &Server{t: t, Dir: dir, Port: o.Port}
	me, err := user.Current()
	must(t, err)
	s.User, s.Home = me.Username, me.HomeDir
	root := os.Geteuid() == 0
	if root {
		s.Home = filepath.Join(dir, "home")
		must(t, os.Mkdir(s.Home, 0o700))
		if o.Ordinary {
			s.User = ordinary
			must(t, os.Chown(s.Home, uid, uid))
		}
		if o.Profile != "" {
			must(t, os.WriteFile(filepath.Join(s.Home, ".profile"), []byte(o.Profile), 0o644))
		}
	} else if o.Profile != "" {
		t.Fatal("only root can make a home directory with a profile for a test")
	}

	s.Key = s.NewKey("key", "")
	pub, err := os.ReadFile(s.Key + ".pub")
	must(t, err)
	must(t, os.WriteFile(s.file("authorized_keys"), pub, 0o644))
	hostKey := s.NewKey("host_key", "")
	for try := 0; ; try++ {
		if s.Port == "" || try > 0 {
			s.Port = freePort(t)
		}
		if s.listen(o, root, hostKey) {
			break
		}
		if try == 3 {
			t.Fatalf("sshd does not answer:\n%s", s.Log())
		}
	}
	t.Cleanup(s.Kill)
	pub, err = os.ReadFile(hostKey + ".pub")
	must(t, err)
	s.HostKey = fmt.Sprintf("[127.0.0.1]:%s %s", s.Port, strings.Join(strings.Fields(string(pub))[:2], " "))
	s.KnownHosts = s.file("known_hosts")
	must(t, os.WriteFile(s.KnownHosts, []byte(s.HostKey+"\n"), 0o644))
	s.Config = s.WriteConfig("config", "IdentityFile "+s.Key, "UserKnownHostsFile "+s.KnownHosts)
	return s
}

// WriteConfig writes a client's configuration that uses these lines and nothing
// of the user's.
func (s *Server) WriteConfig(name string, lines ...string) string {
	s.t.Helper()
	lines = append(lines, "IdentitiesOnly yes", "IdentityAgent none", "GlobalKnownHostsFile none", "")
	must(s.t, os.WriteFile(s.file(name), []byte(strings.Join(lines, "\n")), 0o600))
	return s.file(name)
}

// NewKey makes a key in a file.
func (s *Server) NewKey(name, passphrase string) string {
	s.t.Helper()
	file := s.file(name)
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "rein test", "-f", file).CombinedOutput()
	if err != nil {
		s.t.Fatalf("ssh-keygen: %v: %s (Debian: apt-get install openssh-client)", err, out)
	}
	return file
}

func (s *Server) file(name string) string { return filepath.Join(s.Dir, name) }

// Addr is where it listens.
func (s *Server) Addr() string { return "127.0.0.1:" + s.Port }

// URL is the name of the host.
func (s *Server) URL() string { return "ssh://" + s.User + "@" + s.Addr() }

// Program copies an executable to where who logs in can execute it.
func (s *Server) Program(file, name string) string {
	s.t.Helper()
	b, err := os.ReadFile(file)
	must(s.t, err)
	dir := s.file("bin")
	must(s.t, os.MkdirAll(dir, 0o755))
	to := filepath.Join(dir, name)
	must(s.t, os.WriteFile(to, b, 0o755))
	return to
}

// Place makes a directory that belongs to who logs in.
func (s *Server) Place(name string) string {
	s.t.Helper()
	dir := s.file(name)
	must(s.t, os.Mkdir(dir, 0o700))
	if s.User == ordinary {
		must(s.t, os.Chown(dir, uid, uid))
	}
	return dir
}

func (s *Server) listen(o *Options, root bool, hostKey string) bool {
	program, err := exec.LookPath("sshd")
	if err != nil {
		if program = "/usr/sbin/sshd"; !exists(program) { // which is not on everybody's PATH
			s.t.Fatal("sshd is missing: sh test/needs.sh sshd:openssh-server, or on Debian apt-get install openssh-server")
		}
	}
	config := append([]string{
		"Port " + s.Port, "ListenAddress 127.0.0.1", "HostKey " + hostKey, "PidFile none", "UsePAM no", "StrictModes no",
		"PermitRootLogin prohibit-password", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"AuthorizedKeysFile " + s.file("authorized_keys"), "LogLevel VERBOSE", "PrintMotd no",
	}, o.Config...)
	if !root {
		config = append(config, "SetEnv XDG_CACHE_HOME="+s.file("cache"))
	}
	must(s.t, os.WriteFile(s.file("sshd_config"), []byte(strings.Join(config, "\n")+"\n"), 0o600))
	argv := []string{program, "-D", "-f", s.file("sshd_config"), "-E", s.file("log")}
	if root {
		must(s.t, os.MkdirAll("/run/sshd", 0o755))
		s.users(o)
		script := ""
		if o.NoexecHome {
			script = "mount -t tmpfs -o noexec,mode=777 none " + shell.Quote(s.Home) + " && "
		}
		script += "mount --bind " + shell.Quote(s.file("passwd")) + " /etc/passwd && mount --bind " + shell.Quote(s.file("shadow")) + " /etc/shadow && exec " + shell.Join(argv)
		argv = []string{"/bin/sh", "-c", script}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = time.Second
	if root { // its own users, in a mount namespace of its own
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	must(s.t, cmd.Start())
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	s.cmd, s.done = cmd, done
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if c, err := net.DialTimeout("tcp", s.Addr(), time.Second); err == nil {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			b := make([]byte, 4)
			_, err = c.Read(b)
			c.Close()
			if err == nil && string(b) == "SSH-" {
				return true
			}
		}
		select {
		case <-done:
			s.t.Logf("sshd: %s", said.String())
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.Kill()
	return false
}

// users writes the users that the server and its sessions see.
func (s *Server) users(o *Options) {
	sh := o.Shell
	if sh == "" {
		sh = "/bin/bash"
	}
	b, err := os.ReadFile("/etc/passwd")
	must(s.t, err)
	passwd, shadow := "", ""
	for line := range strings.Lines(string(b)) {
		name, _, _ := strings.Cut(line, ":")
		shadow += name + ":*:19000:0:99999:7:::\n"
		if name == "root" {
			line = "root:x:0:0:root:" + s.Home + ":" + sh + "\n"
		}
		passwd += line
	}
	passwd += fmt.Sprintf("%s:x:%d:%d::%s:%s\n", ordinary, uid, uid, s.Home, sh)
	shadow += ordinary + ":*:19000:0:99999:7:::\n"
	must(s.t, os.WriteFile(s.file("passwd"), []byte(passwd), 0o644))
	must(s.t, os.WriteFile(s.file("shadow"), []byte(shadow), 0o600))
}

// Log is what the server says.
func (s *Server) Log() string {
	b, _ := os.ReadFile(s.file("log"))
	return string(b[max(0, len(b)-4000):])
}

// Kill ends the server and what it has for each connection, with SIGKILL: what
// the sessions run is left alone.
func (s *Server) Kill() {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP) // no new ones meanwhile
	for _, pid := range s.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = s.cmd.Process.Kill()
	<-s.done
}

// processes are the server's own below the listener.
func (s *Server) processes() []int {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	must(s.t, err)
	parents := map[int]int{}
	for _, f := range all {
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		if p, err := proctree.Read(pid); err == nil && strings.HasPrefix(p.Name, "sshd") {
			parents[pid] = p.PPID
		}
	}
	var out []int
	for pid := range parents {
		for p := parents[pid]; p != 0; p = parents[p] {
			if p == s.cmd.Process.Pid {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

func freePort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, os.ErrNotExist)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
