// Package inside is the program that stands between a sandbox and an agent: what
// the agent sends to a proxy on loopback goes through a socket to the one that
// stands outside. Where there is no bubblewrap it makes the sandbox itself, of
// Landlock, out of which no process comes again.
package inside

import (
	"encoding/json"
	"fmt"
	"io"
)

// Verb is the argument of the keeper's program that makes it this one.
const Verb = "inside"

// Failed is the exit code when the agent could not be started.
const Failed = 126

// Run is Main for a program: it returns the exit code.
func Run(args []string, stderr io.Writer) int {
	fmt.Fprintln(stderr, "rein: the agent could not be started in its sandbox:", Main(args))
	return Failed
}

// Config is what the program has to know.
type Config struct {
	// Dir and Name are the socket of the proxy outside; an empty Dir leaves the
	// network as it is.
	Dir  string `json:"dir,omitempty"`
	Name string `json:"name,omitempty"`
	// Mirror are addresses "host:port" on the loopback outside, which are served
	// at the same port inside: programs do not use a proxy for loopback.
	Mirror []string `json:"mirror,omitempty"`
	// Landlock is set where nothing else makes the sandbox.
	Landlock *Landlock `json:"landlock,omitempty"`
}

// Landlock says what may be written. Where Config.Dir is set, TCP connections
// can be made to the proxy and to the ports of Mirror alone.
type Landlock struct {
	Write []string `json:"write"` // those that do not exist are left out
}

// Args are the arguments of the program: the Config and the command.
func (c Config) Args(argv []string) []string {
	b, err := json.Marshal(c)
	if err != nil {
		panic("inside: " + err.Error()) // strings alone
	}
	return append([]string{string(b), "--"}, argv...)
}

// RelayName is what the copy of the program is called in lists of processes: it
// ends with the agent, and is nothing that the agent left behind.
const RelayName = "rein-relay"
