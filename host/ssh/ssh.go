// Package ssh runs commands on another machine, over SSH.
//
// It needs no ssh program here. There it needs sshd, a POSIX shell and a place
// for a keeper of about 2 MB; nothing is installed and no port is opened.
package ssh

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/rein-run/rein/host/remote"
)

// Options for New; nil and the zero value are fine.
type Options struct {
	// Config is the user's configuration file; "" is ~/.ssh/config, which need
	// not be there.
	Config string
	// Program, Lease and RequireContainment are those of remote.Options.
	Program            func(goos, goarch string) (*remote.Program, error)
	Lease              time.Duration
	RequireContainment bool
	// Dial opens the connection to the host, or to the first jump host, instead
	// of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Host is another machine. It is a driver.Host and a driver.Looker; several
// commands share a connection.
type Host struct {
	*remote.Host
	pool *pool
	dir  string
}

// Dir is the directory of the URL: absolute, "~/…" for one in the home
// directory there, or "" when it names none. Commands without one run there.
func (h *Host) Dir() string { return h.dir }

// New returns the host of a URL: ssh://[user@]host[:port][/dir]. The user's and
// the system's configuration of OpenSSH are read now; nothing is connected
// before the first command.
//
// Of the configuration these hold: Host, Match host and all, Include, HostName,
// User, Port, IdentityFile (and the certificate beside it, <file>-cert.pub),
// IdentitiesOnly, IdentityAgent, UserKnownHostsFile, GlobalKnownHostsFile, HostKeyAlias,
// ProxyJump, ConnectTimeout, ServerAliveInterval and ServerAliveCountMax.
// StrictHostKeyChecking is always yes. ProxyCommand, Match exec and other
// criteria are errors. All other words are passed over.
func New(url string, o *Options) (*Host, error) {
	if o == nil {
		o = &Options{}
	}
	t, err := parse(url)
	if err != nil {
		return nil, err
	}
	f, err := readConfig(o.Config)
	if err != nil {
		return nil, err
	}
	s, err := f.resolve(t)
	if err != nil {
		return nil, err
	}
	d := &dialer{files: f, target: t, net: o.Dial}
	if d.net == nil {
		d.net = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	p := &pool{dial: d.dial, dialing: make(chan struct{}, 1)}
	return &Host{
		Host: remote.New(p, &remote.Options{
			Name: s.name(), Dir: t.dir, Program: o.Program, Lease: o.Lease, RequireContainment: o.RequireContainment,
		}),
		pool: p, dir: t.dir,
	}, nil
}

// name is what a report calls the host: who and where, after the configuration
// had its say, so that two names of one place are one.
func (s *settings) name() string {
	host := s.host
	if strings.ContainsRune(host, ':') {
		host = "[" + host + "]"
	}
	name := "ssh://" + s.user + "@" + host
	if s.port != "22" {
		name += ":" + s.port
	}
	return name
}
