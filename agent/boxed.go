package agent

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/rein-run/rein/host/driver"
)

// Boxed is an optional ability of an Agent, found by assertion: it knows what
// the CLI needs of the world around it when it runs in a sandbox.
type Boxed interface {
	// Needs reads the world through w alone, and what it reads there is the
	// user's own, never the repository's: who wrote the repository must not choose
	// where the agent may connect to.
	Needs(inv Invocation, f Facts, w World) Needs
}

// World is what an agent can see of the place where it will run.
type World struct {
	Env      driver.Env                        // whole, as the CLI will see it
	ReadFile func(path string) ([]byte, error) // the first MiB of a file there
}

// Needs are what a sandbox has to leave open. Paths are absolute.
type Needs struct {
	// State are the directories that the CLI writes: sessions, logs, a login
	// that is renewed. One that is missing is made before the start.
	State []string
	// Fixed are files and, with a slash at the end, directories below State that
	// the CLI reads and that name programs to be started, in a later run as well,
	// outside of any sandbox: they are read-only.
	Fixed []string
	// Kept are as Fixed where they exist, and are not made.
	Kept []string
	// Endpoints are the addresses "host:port" of the model and the login.
	Endpoints []string
}

// AddURL adds the address of a URL to the endpoints; one that has none is
// nothing.
func (n *Needs) AddURL(raw string) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Hostname() == "" || strings.ContainsAny(u.Hostname(), "{}*$ ") {
		return
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https" || u.Scheme == "wss":
		port = "443"
	case u.Scheme == "http" || u.Scheme == "ws":
		port = "80"
	default:
		return
	}
	n.Add(net.JoinHostPort(strings.ToLower(u.Hostname()), port))
}

// maxEndpoints bounds what a configuration file can name.
const maxEndpoints = 100

// Add adds addresses "host:port" that are not there yet.
func (n *Needs) Add(endpoints ...string) {
	for _, e := range endpoints {
		if len(n.Endpoints) < maxEndpoints && !slices.Contains(n.Endpoints, e) {
			n.Endpoints = append(n.Endpoints, e)
		}
	}
}

// Below are the names in a directory, for Needs. A slash at the end stays.
func Below(dir string, names ...string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = dir + "/" + name
	}
	return all
}
